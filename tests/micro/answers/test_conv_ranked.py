"""What a log's or a network's convolutions could gain, ranked: by calls, the default's time, and what is certain."""

from __future__ import annotations

from dataclasses import replace

from kernels.ops.conv.problem import Conv
from kernels.ops.conv.shape import PASSES
from kernels.setting import Setting
from micro.answers import conv_ranked
from micro.planning.contest import Case
from micro.planning.conv_layers import read
from micro.planning.library_log import Calls
from micro.planning.problem_files import Written, of_network
from reports import record
from tests.build import over, run, timed

FIRST = Conv(64, 3, 32, 32, 32, 5, 5, pad=2)
SECOND = Conv(64, 64, 16, 16, 64, 3, 3, pad=1)
DGRAD = replace(SECOND, direction="dgrad")


def contest(
    problem: Conv, default: float | None, *rivals: tuple[str, float, str], name: str = "", threads: int = 1
) -> record.Contest:
    """Against torch: variant, ratio ± 0.02, verdict."""
    base = timed(Case(problem, "torch"), default)
    others = [timed(Case(problem, x, Setting(threads)), ratio * (default or 1)) for x, ratio, _ in rivals]
    known = tuple(
        over(base, x, 0.02 / ratio, verdict if default else "not comparable", reason=base.reason)
        for x, (_, ratio, verdict) in zip(others, rivals, strict=True)
    )
    return record.Contest(name or problem.name, "?", "variant", (base, *others), known)


def log(**counts: int) -> Written:
    """Of calls of 1 ms each, and as many of something else."""
    problems = {"first": FIRST, "second": SECOND, "dgrad": DGRAD}
    calls = {problems[name]: Calls(count, 1e-3 * count) for name, count in counts.items()}
    ours = sum(calls.values(), Calls(0, 0.0))
    return Written(list(calls), (), calls, ours + ours)


def test_a_log_is_ranked_by_what_its_steps_could_gain() -> None:
    contests = (
        contest(FIRST, 8e-3, ("im2col", 0.9, "faster"), ("direct", 0.5, "faster"), ("fft-scipy", 0.2, "unresolved")),
        contest(SECOND, 4e-3, ("winograd-4x3", 0.5, "faster")),
        contest(DGRAD, 9e-3, ("winograd-4x3", 0.97, "unresolved")),
    )
    sentences = conv_ranked.of_file(run(*contests), log(first=20, second=60, dgrad=20))
    assert sentences == [
        "1. forward, 3×3, 64→64 channels, 16×16, batch 64: 60 calls (30.0% of the logged time); torch takes 4.00 ms, "
        "winograd-4x3 0.500 [0.480, 0.520] times that: 6.00 ms [5.76 ms, 6.24 ms] a step to be gained.",
        "2. forward, 5×5, 3→32 channels, 32×32, batch 64: 20 calls (10.0% of the logged time); torch takes 8.00 ms, "
        "direct 0.500 [0.480, 0.520] times that: 4.00 ms [3.84 ms, 4.16 ms] a step to be gained.",
        "3. dgrad, 3×3, 64→64 channels, 16×16, batch 64: 20 calls (10.0% of the logged time); torch takes 9.00 ms, and "
        "nothing is certainly faster.",
        "A step's convolutions (the log's calls come in multiples of 20, which are taken for its steps) take 29.0 ms "
        "with torch; 10.0 ms [9.71 ms, 10.3 ms] of them (34%) could be gained, each of the fastest chosen from up to 3 "
        "in the same rounds; kernels that keep a transformed filter are no rivals there, for a step changes it.",
    ]


def test_a_log_of_no_common_number_is_taken_whole() -> None:
    contests = contest(FIRST, 8e-3, ("direct", 0.5, "faster")), contest(SECOND, 1e-3, ("direct", 0.9, "slower"))
    first, *_, last = conv_ranked.of_file(run(*contests), log(first=3, second=2))
    assert "12.0 ms [11.5 ms, 12.5 ms] to be gained" in first
    assert last.startswith("The log's convolutions take 26.0 ms with torch; 12.0 ms [11.5 ms, 12.5 ms] of them (46%)")


def test_what_has_no_time_is_named_and_no_part_of_the_sum() -> None:
    contests = contest(FIRST, None, ("direct", 0.5, "x")), contest(SECOND, 4e-3, ("direct", 0.5, "faster"))
    sentences = conv_ranked.of_file(run(*contests), log(first=2, second=2))
    assert sentences[1] == (
        "forward, 5×5, 3→32 channels, 32×32, batch 64: 2 calls (25.0% of the logged time), not ranked: hangs."
    )
    assert "take 4.00 ms with torch" in sentences[2]


def test_what_is_no_rival_in_a_step() -> None:
    """A kernel that keeps its filter, and one on more threads."""
    contested = contest(SECOND, 8e-3, ("fft-scipy-kept", 0.1, "faster"), ("direct", 0.5, "faster"))
    first, last = conv_ranked.of_file(run(contested), log(second=1))
    assert "direct 0.500" in first and "chosen from" not in last
    contested = contest(FIRST, 8e-3, ("direct", 0.5, "faster"), threads=2)
    first, last = conv_ranked.of_file(run(contested), log(first=1))
    assert first.endswith("and nothing is certainly faster.")
    assert "take 8.00 ms with torch; nothing that is certain could be gained; " in last
    *_, sentence = conv_ranked.of_file(run(contest(FIRST, 8e-3, ("direct", 0.5, "faster"))), Written([FIRST]))
    assert sentence.endswith(", relative to torch: direct 0.500 [0.480, 0.520].")


def test_a_network_counts_its_layers_and_shows_what_was_published() -> None:
    layer = read("convnet-benchmarks").layers[1].problem
    named = contest(layer, 2e-3, ("fft-scipy", 0.5, "faster"), name=f"net/convnet-benchmarks/L2/count:3/{layer.name}")
    first, last = conv_ranked.of_net(run(named))
    assert first.startswith("1. L2, forward, 9×9, 64→128 channels, 64×64, batch 128: 3 calls; torch takes 2.00 ms, fft")
    assert "3.00 ms [2.88 ms, 3.12 ms] to be gained (then, in ms at batch 128 on a GeForce GTX Titan X, " in first
    assert ", April 2015: fbfft 27, " in first
    assert last.startswith("A step's convolutions take 6.00 ms with torch; 3.00 ms")


def test_a_network_without_published_times() -> None:
    for name in ("mine", "alexnet-s"):
        named = contest(FIRST, 2e-3, ("direct", 0.5, "faster"), name=f"net/{name}/conv1/count:1/{FIRST.name}")
        assert conv_ranked.of_net(run(named))[0].endswith("to be gained.")
    written = of_network(read("resnet-50"))
    counts = {word: sum(x.count for p, x in written.calls.items() if p.direction == word) for word in PASSES}
    assert counts == {"forward": 53, "dgrad": 52, "wgrad": 53}
    assert written.sentences == ["resnet-50: 53 convolutions, 23 of them different, batch 16."]


def test_a_network_s_file_has_counts_and_published_times() -> None:
    written = of_network(read("convnet-benchmarks"))
    assert {calls.count for calls in written.calls.values()} == {1} and len(written.problems) == 15
    assert all(text.startswith("then") for text in written.then.values()) and len(written.then) == 15
    (first, _) = conv_ranked.of_file(
        run(contest(written.problems[1], 2e-3, ("direct", 0.5, "faster"))), replace(written, sentences=())
    )
    assert "(then (both gradients), in ms at batch 128 on a GeForce GTX Titan X, April 2015: fbfft 76, " in first


def test_nothing_measured_says_nothing() -> None:
    assert conv_ranked.of_file(run(), log(first=1)) == [] == conv_ranked.of_net(run())
