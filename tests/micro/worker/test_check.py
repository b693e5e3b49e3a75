"""The check's own parts: guards, poison, what it says of a wrong answer, and Freivalds' test of long products."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from kernels.catalog import find
from kernels.devices import open_device
from kernels.devices.kind import ALIGNMENT
from kernels.errors import WrongResult
from kernels.launch import Launch
from kernels.ops.gemm import problem as gemm
from kernels.ops.gemm.problem import Gemm
from kernels.problem import Evidence
from kernels.setting import Setting
from kernels.variant import Variant
from micro.worker import check, turns
from micro.worker.check import Passed
from micro.worker.guards import GUARD, Bench

if TYPE_CHECKING:
    from kernels.launch import Bind
    from kernels.problem import Array

CPU = open_device("cpu")
SQUARE = Gemm(6, 6, 10)
PADDED = Gemm(3, 5, 7, "nt", ld_pad=3)
ADDS = Gemm(4, 3, 5, alpha=2.0, beta=0.5)
OPENBLAS = find("gemm", "openblas")


pytestmark = pytest.mark.usefixtures("no_late_answers")


def loaded(problem: Gemm, seed: int = 3) -> tuple[Bench, dict[str, Array]]:
    bench = Bench(CPU, problem)
    x = problem.fill(np.random.default_rng(seed))
    bench.load(x)
    return bench, x


def answered(problem: Gemm, *answers: Callable[[Array, dict[str, Array]], Array]) -> Passed:
    """The judgment on a kernel whose n-th launch answers `answers[n](right answer, inputs)`."""
    bench, calls = Bench(CPU, problem), iter(answers)

    def call() -> None:
        x = {o.name: view.copy() for o, view in zip(problem.operands(), bench.views, strict=True)}
        want = problem.reference(x)["c"]
        bench.views[-1][...] = next(calls, answers[-1])(want, x)  # its last one is asked for again where it is NaN

    places, probes = {"guarded": check.Place(bench, call)}, problem.probes[: len(answers)]
    return check.judge(places, OPENBLAS, np.random.default_rng(3), list(map(turns.Turn, probes)))


# Bench


@pytest.mark.parametrize("problem", [SQUARE, PADDED, ADDS, Gemm(1, 1, 1)])
def test_every_byte_that_is_no_element_is_guarded(problem: Gemm) -> None:
    bench, x = loaded(problem)
    bench.refuse_strays(x)
    start = bench.block.ctypes.data
    free = np.ones(bench.block.size, bool)
    for view in bench.views:
        rows = view.ctypes.data - start + np.arange(view.shape[0])[:, None] * view.strides[0]
        free[(rows + np.arange(4 * view.shape[1])).ravel()] = False
    for byte in np.flatnonzero(free):
        bench.block[byte] ^= 1
        with pytest.raises(WrongResult, match=r"^writes outside its operands$"):
            bench.refuse_strays(x)
        bench.block[byte] ^= 1
    bench.refuse_strays(x)


@pytest.mark.parametrize("name", ["a", "b"])
@pytest.mark.parametrize("value", [0.0, np.nan])
def test_changed_input_is_told_by_name(name: str, value: float) -> None:
    bench, x = loaded(PADDED)
    bench.views["ab".index(name)][-1, -1] = value
    with pytest.raises(WrongResult, match=f"^changes its input {name}$"):
        bench.refuse_strays(x)


def test_output_is_poisoned_unless_it_is_read() -> None:
    bench, x = loaded(PADDED)
    assert np.isnan(bench.answer()["c"]).all()
    assert all(np.array_equal(view, x[name]) for name, view in zip("ab", bench.views[:2], strict=True))
    beside = [guard for guard in bench.guards if guard.view.ndim == 1]
    assert len(beside) == 2 * len(bench.views)
    assert all(guard.view.size >= GUARD * ALIGNMENT for guard in beside)
    assert all(view.ctypes.data % ALIGNMENT == 0 for view in bench.views)
    bench, x = loaded(ADDS)
    assert np.array_equal(bench.answer()["c"], x["c"])
    bench.views[2][...] = 0
    bench.refuse_strays(x)  # it is an output all the same


# check


def test_passed_tells_the_worst_element_of_all_probes() -> None:
    def off(i: int, j: int, share: float) -> Callable[[Array, dict[str, Array]], Array]:
        def answer(want: Array, x: dict[str, Array]) -> Array:
            got = want.astype(np.float32)
            got[i, j] += share * SQUARE.bound(x, {"c": want}, OPENBLAS.u(SQUARE))["c"][i, j]
            return got

        return answer

    for shares, worst in (((0.9, 0.5), 0.9), ((0.5, 0.8), 0.8)):
        found = answered(SQUARE, off(1, 2, shares[0]), off(0, 0, shares[1]))
        assert found.error / found.bound == pytest.approx(worst, abs=0.06)  # rounding of the answer itself


def test_same_seed_same_judgment_and_another_seed_other_inputs() -> None:
    def passed(seed: int) -> Passed:
        bind = OPENBLAS.prepare(SQUARE, CPU, Setting())
        return check.check(CPU, SQUARE, OPENBLAS, bind, seed)[0]

    assert passed(1) == passed(1) != passed(2)


def test_second_launch_is_checked_too() -> None:
    right = off(0)
    answered(SQUARE, right, right)
    with pytest.raises(WrongResult, match=r"^returns zeros$"):
        answered(SQUARE, right, lambda want, x: 0 * want)


def packs(problem: Gemm, device: object, setting: object) -> Bind:
    """Keeps B from its first launch on."""
    kept: list[Array] = []

    def bind(buffers: Sequence[Array]) -> Launch:
        a, b, c = buffers

        def call() -> None:
            if not kept:
                kept.append(b.copy())
            np.matmul(a, kept[0], c)

        return Launch(call)

    return bind


def test_only_inputs_declared_constant_may_be_kept() -> None:
    keeps: Variant[Any] = Variant("packs", "cpu", "tests", packs, constant=("b",))
    check.check(CPU, SQUARE, keeps, packs(SQUARE, None, None), 1)
    undeclared = dataclasses.replace(keeps, constant=())
    with pytest.raises(WrongResult, match=r"^caches its input b: its result ignores a changed element$"):
        check.check(CPU, SQUARE, undeclared, packs(SQUARE, None, None), 1)


def test_growth_widens_what_is_allowed() -> None:
    half: Any = find("gemm", "tests.wrong.kernels:SPLIT_BF16")
    wide = dataclasses.replace(half, growth=64.0)
    bind = half.prepare(SQUARE, CPU, Setting())
    check.check(CPU, SQUARE, wide, bind, 1)
    with pytest.raises(WrongResult):
        check.check(CPU, SQUARE, half, bind, 1)


# What is said


def off(change: float, *places: Any) -> Callable[[Array, dict[str, Array]], Array]:
    """Return an answer that is off by `change` at these places."""

    def answer(want: Array, x: dict[str, Array]) -> Array:
        for place in places:
            want[place] += change
        return want

    return answer


@pytest.mark.parametrize(
    ("problem", "answer", "told"),
    [
        (SQUARE, lambda want, x: want * np.nan, "writes nothing: all outputs are unchanged"),
        (SQUARE, off(np.nan, np.s_[2:4, 1]), "leaves 2 of 36 outputs unwritten, first at [2, 1]"),
        (SQUARE, off(-np.inf, (2, 1)), "infinite at [2, 1]"),
        (SQUARE, lambda want, x: 0 * want, "returns zeros"),
        (SQUARE, lambda want, x: want.T, "returns the transposed result"),
        (SQUARE, lambda want, x: 2 * want, "wrong by the factor 2: a scale such as alpha is missing or applied twice"),
        (SQUARE, lambda want, x: -want, "wrong by the factor -1: a scale such as alpha is missing or applied twice"),
        (ADDS, lambda want, x: x["c"], "writes nothing: all outputs are unchanged"),
        (SQUARE, off(1, (1, 2), (3, 0)), "dense probe: 2 of 36 values have errors up to "),
        (ADDS, lambda want, x: want + 1, "dense probe: 12 of 12 values have errors up to "),
        (ADDS, off(np.nan, (1, 1)), "NaN at [1, 1]"),
        (Gemm(6, 6, 10, alpha=0.0), lambda want, x: x["a"][:, :6] + 100, "dense probe: 36 of 36 values differ from"),
    ],
)
def test_words(problem: Gemm, answer: Callable[[Array, dict[str, Array]], Array], told: str) -> None:
    with pytest.raises(WrongResult, match=r"^" + re.escape(told)):
        answered(problem, answer)


def test_words_of_a_few_wrong_values_name_the_first_and_the_excess() -> None:
    def answer(want: Array, x: dict[str, Array]) -> Array:
        want[4, 5] += 50 * SQUARE.bound(x, {"c": want}, OPENBLAS.u(SQUARE))["c"][4, 5]
        return want

    with pytest.raises(WrongResult) as told:
        answered(SQUARE, answer)
    words = re.fullmatch(
        r"dense probe: 1 of 36 values have errors up to ([\d.]+) times the tolerance .*, first at \[4, 5\]",
        str(told.value),
    )
    assert words
    assert float(words[1]) == pytest.approx(50, rel=0.02)


def test_bound_itself_passes_and_beyond_it_does_not() -> None:
    bench, x = loaded(SQUARE)
    got, nothing = SQUARE.reference(x), Passed(0.0, np.inf)
    bound = np.full((6, 6), 0.5)
    exact = Evidence("c", "entries", bound.copy(), bound)
    place, answer = check.Place(bench, lambda: None), check.Answer(x, {}, got, {})
    assert check._weigh(place, answer, exact, nothing) == Passed(0.5, 0.5)
    for error in (np.nextafter(0.5, 1), np.nan):
        bad = Evidence("c", "entries", np.full((6, 6), error), bound)
        with pytest.raises(WrongResult):
            check._weigh(place, answer, bad, nothing)


# Freivalds' test


@pytest.fixture
def long_products(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check small products as long ones, by the same vectors each time: drawn ones may miss one term of 26752."""
    monkeypatch.setattr(gemm, "FREIVALDS_FLOPS", 1e3)
    drawn = np.random.default_rng(7)
    monkeypatch.setattr(gemm, "_unforeseen", lambda: drawn)


def run_check(name: str, problem: Gemm, seed: int = 1) -> Passed:
    found: Any = find("gemm", name)
    return check.check(CPU, problem, found, found.prepare(problem, CPU, Setting()), seed)[0]


def test_only_long_products_are_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    x = SQUARE.fill(np.random.default_rng(1))
    got = SQUARE.reference(x)
    assert [e.test for e in SQUARE.compare(x, got, 1e-7, "dense")] == ["dense"]
    monkeypatch.setattr(gemm, "FREIVALDS_FLOPS", SQUARE.flops)
    assert [e.test for e in SQUARE.compare(x, got, 1e-7, "dense")] == ["dense"]
    monkeypatch.setattr(gemm, "FREIVALDS_FLOPS", SQUARE.flops - 1)
    assert [e.test for e in SQUARE.compare(x, got, 1e-7, "dense")] == ["freivalds", "freivalds", "entries"]
    assert [e.test for e in SQUARE.compare(x, got, 1e-7, "sparse")] == ["sparse"]


@pytest.mark.slow
@pytest.mark.usefixtures("long_products")
@pytest.mark.parametrize("name", ["openblas", "blocked"])
@pytest.mark.parametrize("k", [16, 256, 4000, 26752])
def test_honest_products_pass_freivalds(name: str, k: int) -> None:
    """Up to a few hundred terms a kernel adds one after the other; more it adds block by block."""
    rng = np.random.default_rng(11)
    for seed in range(80 if k < 4000 else 8):
        m, n = (int(x) for x in rng.integers(20, 120 if k < 4000 else 40, 2))
        trans, alpha = str(rng.choice(["nn", "nt", "tn", "tt"])), float(rng.choice([1, 2.5]))
        more = {"beta": float(rng.choice([0, -0.3])), "ld_pad": int(rng.choice([0, 5]))}
        run_check(name, Gemm(m, n, k, trans, alpha=alpha, **more), seed)


LONG = Gemm(64, 96, 300, "nt")
ALL = Gemm(64, 96, 300, "tn", alpha=2.5, beta=0.5, ld_pad=3)


@pytest.mark.usefixtures("long_products")
@pytest.mark.parametrize("problem", [LONG, ALL, Gemm(16, 16, 26752)])
@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("HALF_INPUTS", "^freivalds probe: "),
        ("HALF_OUTPUT", "^freivalds probe: "),
        ("TF32_INPUTS", "^freivalds probe: "),
        ("SPLIT_BF16", "^(freivalds|sparse|graded) probe: "),
        ("LAST_TERM_MISSING", "^freivalds probe: "),
        ("LAST_TERM_MISSING_ONCE", "^freivalds probe: [123] of "),
        ("LAST_ROW_ZERO", "^freivalds probe: 3 of "),
        ("CACHED", "^repeats its result"),
        ("ZEROS", "^returns zeros$"),
        ("WRITES_NOTHING", "^writes nothing"),
        ("LAST_ROW_MISSING", r"^leaves \d+ of \d+ outputs unwritten"),
    ],
)
def test_wrong_products_fail_freivalds(problem: Gemm, name: str, reason: str) -> None:
    with pytest.raises(WrongResult, match=reason):
        run_check(f"tests.wrong.kernels:{name}", problem)


def test_entries_see_a_fault_in_every_corner_and_row() -> None:
    """The sampled entries are a second witness: first and last always, a whole wrong row surely."""
    problem = Gemm(8, 8, 300)
    x = problem.fill(np.random.default_rng(1))
    for at in (np.s_[0, 0], np.s_[-1, -1], np.s_[3]):
        got = problem.reference(x)["c"]
        got[at] += 1
        found = problem._entries(x, got, OPENBLAS.u(problem), np.random.default_rng(2))
        assert (found.error > found.bound).any()
    honest = problem._entries(x, problem.reference(x)["c"], OPENBLAS.u(problem), np.random.default_rng(2))
    assert (honest.error <= honest.bound).all()
