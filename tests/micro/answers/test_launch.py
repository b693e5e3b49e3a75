"""What is said of a run of micro/launch.py, on runs made by hand."""

from __future__ import annotations

from kernels.ops.launch.problem import Calls
from micro.answers.launch import gaps_answer, ladder_answer
from micro.planning.contest import Case
from reports.record import Comparison, Contest, Environment, Result, Run, Seconds


def result(kernel: str, chain: int, rung: str, seconds: float | None) -> Result:
    case = Case(Calls(kernel, chain), rung)
    if seconds is None:
        return Result(case.name, "x", "measured", "launch", {}, rung, "cpu", 1, "skipped", "not here")
    return Result(
        case.name, "x", "measured", "launch", {}, rung, "cpu", 1, "ok", seconds=Seconds(seconds, None, None, 0.95)
    )


PEAK = Result(
    "fma",
    "x",
    "ceiling",
    "fma",
    {},
    "c",
    "cpu",
    1,
    "ok",
    seconds=Seconds(1e-5, None, None, 0.95),
    flops_per_second=1e11,
)


def scripted(name: str, *results: Result, width: float = 0.1) -> Contest:
    """A contest of them, each against the first."""
    first = results[0]
    compared = []
    for other in results[1:]:
        ratio = other.seconds.median / first.seconds.median if other.seconds and first.seconds else None
        low, high = ((1 + sign * width) * ratio if ratio else None for sign in (-1, 1))
        compared.append(
            Comparison("x", "variant", first.name, other.name, ratio, low, high, 0.95, "slower", None, 0.01, 0.01)
        )
    return Contest(name, "?", "variant", (*results, PEAK), tuple(compared))


def test_a_gap_is_told_in_a_stream_and_in_a_graph() -> None:
    rows = [result("empty", 250, rung, seconds) for rung, seconds in (("cuda-c", 1.6e-6), ("cuda-graph", 0.8e-6))]
    (said,) = gaps_answer(Run(Environment("0", {}, {}, "", ""), (scripted("gap/empty", *rows),)))
    assert said == (
        "250 times a function that does nothing, one behind another: 1.60 µs each by cuda-c, by cuda-graph 800 ns, "
        "0.50 [0.45, 0.55] times as long."
    )


def answer(*contests: Contest) -> list[str]:
    return ladder_answer(Run(Environment("0", {}, {}, "", ""), contests))


def product(*times: tuple[str, float | None], chain: int = 512) -> Contest:
    return scripted(f"ladder/launch/kernel:gemm/chain:{chain}", *(result("gemm", chain, *x) for x in times))


def test_the_ladder_is_told_from_its_cheapest_rung() -> None:
    first, second = answer(product(("c", 45e-9), ("torch", 2e-6), ("ctypes", 0.9e-6), ("mkl", None)))
    assert first == (
        "One call of an 8×8 SGEMM (1024 FLOP), 512 in a row, costs 45.0 ns with c, "
        "900 ns with ctypes (20 times), 2.00 µs with torch (44.4 times)."
    )
    assert second == (
        "At this core's peak (100 GFLOP/s) such a call lasts as long as a product: ctypes of 36³, torch of 46³."
    )


def test_a_chain_of_one_is_no_row() -> None:
    (only,) = answer(scripted("ladder/launch/kernel:empty/chain:1", result("empty", 1, "c", 2e-9)))
    assert only == "One call of a function that does nothing costs 2.00 ns with c."


def floor(width: float = 0.1) -> Contest:
    own = result("empty", 1, "nothing", 2e-9)
    calls = (result("gemm", 64, "c", 20e-9), result("gemm", 64, "openblas", 10e-9), result("empty", 64, "c", 1e-9))
    return scripted("floor/nothing", own, *calls, width=width)


def test_our_own_share_is_that_of_the_cheapest() -> None:
    *_, said = answer(product(("c", 45e-9)), floor())
    assert said == (
        "Our own launch takes 2.00 ns from C; of 512 calls of the cheapest that is 0.039 % [0.036, 0.043] "
        "(openblas, gemm: resolved, chosen from 2 in the same rounds), 0.39 % [0.36, 0.43] (c, empty: resolved); "
        "promised under 2 %."
    )


def test_where_our_share_is_larger_it_is_not_resolved() -> None:
    *_, said = answer(product(("c", 45e-9), chain=64), floor())
    assert "0.31 % [0.28, 0.35] (openblas, gemm: resolved, chosen from 2 in the same rounds)" in said
    assert "3.1 % [2.8, 3.5] (c, empty: NOT resolved, at the floor)" in said
    *_, said = answer(product(("c", 45e-9), chain=128), floor(width=0.5))
    assert "1.6 % [1, 3.1] (c, empty: NOT resolved" in said, "the interval counts, not its middle"


def test_the_shortest_launch_is_the_one_that_is_judged() -> None:
    *_, said = answer(product(("c", 45e-9), chain=512), product(("c", 45e-9), chain=2), floor())
    assert "of 2 calls of the cheapest" in said


def test_chains_are_told_with_what_a_launch_adds() -> None:
    rows = [result("gemm", chain, "ctypes", (200 + 128 / chain) * 1e-9) for chain in (1, 8, 64)]
    assert answer(scripted("chain/kernel:gemm/variant:ctypes", *rows)) == [
        "A call that has its launch for itself costs ctypes 328 ns (202 ns in a chain of 64: a launch adds 128 ns)."
    ]


def test_a_run_of_which_nothing_was_timed_says_nothing() -> None:
    nothing = scripted("ladder/x", result("gemm", 8, "c", None), result("gemm", 8, "torch", None))
    floors = scripted("floor/nothing", result("empty", 1, "nothing", None), result("gemm", 64, "c", 1e-9))
    chain = scripted("chain/x", result("gemm", 1, "c", 1e-9), result("gemm", 8, "c", None))
    assert answer(nothing, floors, chain) == []
