"""A prediction against what was measured: the rule, and the records."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace

import pytest

from macro.changes.base import Effect, Forecast, Part
from macro.predicting import judged, network_step
from macro.predicting.judged import PredictedChange
from macro.processes.job import Setting
from macro.timing.entry import Entry
from reports.prediction import UNDECIDED
from reports.record import Expected, Prediction
from tests.macro.changes.test_changes import step


def expected(seconds: float) -> Expected:
    return Expected(seconds, seconds - 0.01, seconds + 0.01, 0.9)


def told(seconds: float | None = -0.2) -> Prediction:
    forecast = Forecast((Part("gemm", seconds, seconds, seconds),)) if seconds is not None else Forecast(why="it fuses")
    return judged.prediction(step(), "heap-keep", "memory", 1.0, Effect(True, "seen"), forecast)


def entry(seconds: Sequence[float], generation: int = 0) -> Entry:
    own = Entry(step().framework, Setting())
    own.blocks = [(generation, i, {"cpu": x, "blocked": 0.0, "wall": x, "steps": 1}) for i, x in enumerate(seconds)]
    return own


def around(seconds: float, seed: int, spread: float = 0.005) -> Entry:
    draw = random.Random(seed)
    return entry([seconds + draw.gauss(0, spread) for _ in range(12)])


@pytest.mark.parametrize(
    ("predicted", "brought", "resolution", "verdict"),
    [
        (-0.20, -0.21, 0.001, "confirmed"),
        (-0.20, -0.25, 0.001, "refuted"),
        (-0.20, -0.23, 0.001, None),  # -0.22 would be confirmed
        (-0.05, +0.025, 0.02, "refuted"),
        (-0.05, +0.025, 0.05, "below resolution"),
        (-0.021, +0.005, 0.02, None),  # at -0.005 it would be confirmed
        (-0.20, -0.25, 0.06, "confirmed"),
        (-0.02, +0.02, 0.05, "below resolution"),
        (-0.02, +0.02, 0.009, "refuted"),
        (+0.20, -0.20, 0.30, "below resolution"),
        (0.0, -0.20, 0.01, "refuted"),
        (None, -0.20, 0.01, None),
    ],
)
def test_the_rule(predicted: float | None, brought: float, resolution: float, verdict: str | None) -> None:
    said = None if predicted is None else expected(predicted)
    assert judged.judge(said, expected(brought), resolution) == verdict


def test_parts_add_up_and_their_errors_as_those_of_different_kernels() -> None:
    parts = Part("a", -1.0, -1.3, -0.7), Part("b", -2.0, -2.4, -1.6)
    whole = judged.expected(Forecast(parts), 10.0)
    half = (0.5**2 + (judged.MODEL * 3) ** 2 + (judged.BETWEEN * 10) ** 2) ** 0.5
    assert whole is not None and whole.seconds == -3.0
    assert (whole.low, whole.high) == pytest.approx((-3 - half, -3 + half))
    assert judged.expected(Forecast(why="who knows"), 10.0) is None
    noisy = judged.expected(Forecast(parts), 10.0, noise=1.0)
    assert noisy is not None and noisy.high - noisy.seconds == pytest.approx(
        math.hypot(whole.high - whole.seconds, 1.0)
    )
    four = judged.expected(Forecast(parts), 10.0, 4)
    assert four is not None
    assert (
        whole.high + 3
        > four.high + 3
        == pytest.approx((0.5**2 + (judged.MODEL * 3) ** 2 + (judged.BETWEEN * 5) ** 2) ** 0.5)
    )


def test_parts_of_one_name_are_told_as_one() -> None:
    parts = Part("gemm", -1.0, -1.3, -0.7), Part("gemm", -2.0, -2.4, -1.6)
    wide = judged.prediction(step(), "plain", "", 10.0, Effect(True, ""), Forecast(parts), noise=1.0).predicted
    told = judged.prediction(step(), "plain", "", 10.0, Effect(True, ""), Forecast(parts))
    assert wide and told.predicted and wide.high > told.predicted.high and told.noise == 0.0
    assert told.parts == {"gemm": -3.0}


@pytest.mark.parametrize(
    ("seconds", "runs", "step_seconds", "changes", "rounds"),
    [
        (60.0, 1, 1.0, 1, 20),  # of which each has three steps
        (60.0, 1, 1.0, 4, 10),
        (60.0, 1, 9.0, 1, 6),  # the fewest
        (63.3, 1, 0.01, 1, 100),  # blocks of 0.2 s, behind a step that does not count
        (60.0, 1, 0.4, 2, 18),
        (60.0, 4, 1.0, 1, 4 * 6),
        (240.0, 4, 1.0, 1, 4 * 20),
    ],
)
def test_what_rounds_will_be_off_by_is_of_as_many_as_there_is_time_for(
    seconds: float, runs: int, step_seconds: float, changes: int, rounds: int
) -> None:
    plan = replace(step().plan, seconds=seconds, generations=runs)
    assert judged.of_rounds(plan, step_seconds, 0.4, changes) == pytest.approx(0.4 * (1.5 / rounds) ** 0.5)


def test_an_entry_keeps_what_its_process_reported_and_did_not_build() -> None:
    reported = {"batch": 8, "layout": "nchw", "made": {}, "blas": "MKL"}
    entry = network_step.entered(step(), replace(step(), plan=replace(step().plan, batch=16)), ["a", "b"], reported)
    assert (entry.identity, entry.change, entry.batch) == ({"blas": "MKL"}, "a+b", 16)


def test_one_round_is_off_by_students_t_of_as_few_as_were_watched() -> None:
    assert network_step.spread([1.0, 1.1, 0.9, 1.2, 0.8]) == pytest.approx(2.132 * 0.1581, rel=1e-3)
    assert network_step.spread([1.0, 1.1, 0.9]) == 0.0
    draw = random.Random(7)
    many = [draw.gauss(1.0, 0.05) for _ in range(400)]
    assert network_step.spread(many) == pytest.approx(1.645 * 0.05, rel=0.2)
    # Means are trimmed.
    assert network_step.spread([*many[:-1], 99.0]) == pytest.approx(network_step.spread(many), rel=0.02)


def test_a_step_that_is_timed_takes_longer_than_it_did_watched_and_so_does_all_that_was_told() -> None:
    told = judged.prediction(
        step(), "plain", "", 1.0, Effect(True, ""), Forecast((Part("a", -0.2, -0.3, -0.1),)), noise=0.04
    )
    longer = judged.as_long(told, 1.5)
    assert longer.predicted and told.predicted and longer.step == 1.5 and longer.noise == pytest.approx(0.06)
    assert longer.predicted.low == pytest.approx(1.5 * told.predicted.low) and longer.parts == {
        "a": pytest.approx(-0.3)
    }
    assert judged.of_kernels(told, 1) == pytest.approx(math.hypot(0.1, judged.MODEL * 0.2))
    assert judged.of_kernels(longer, 1, model=False) == pytest.approx(0.15)


def test_the_error_of_the_model_is_of_all_that_changes_also_where_it_cancels_out() -> None:
    whole = judged.expected(Forecast((Part("a", 1.0, 1.0, 1.0), Part("b", -1.0, -1.0, -1.0))), 0.0)
    assert whole is not None and whole.seconds == 0 and whole.high == pytest.approx(2 * judged.MODEL)


def test_what_is_predicted_stands_there_before_what_is_measured() -> None:
    one = told()
    assert one.measured is one.verdict is one.reason is None and one.predicted is not None
    assert one.parts == {"gemm": -0.2} and one.effect == "seen" and one.costs == "memory"
    assert told(None).predicted is None and told(None).reason == "not predictable: it fuses"


def test_a_saving_that_is_there_is_measured_against_both_unchanged_steps() -> None:
    found = judged.measured(told(), around(1.0, 1), around(1.0, 2), around(0.8, 3), "contest")
    assert found.measured is not None and found.measured.seconds == pytest.approx(-0.2, abs=0.01)
    assert found.measured.low < -0.19 < -0.18 and found.measured.confidence == 0.9
    assert found.verdict == "confirmed" and found.contest == "contest" and found.id == told().id
    assert found.resolution is not None and 0 < found.resolution < 0.02


def test_a_prediction_is_a_share_of_the_step_as_it_is_when_it_is_timed() -> None:
    """Watched it took a second; in turns it takes twice as long, and again in a resumed run."""
    first = told(-0.2)
    found = judged.measured(first, around(2.0, 1), around(2.0, 2), around(1.6, 3), "contest")
    assert first.predicted is not None and found.predicted is not None
    assert found.predicted.seconds / found.step == pytest.approx(first.predicted.seconds / first.step)
    assert found.predicted.high / found.step == pytest.approx(first.predicted.high / first.step)
    assert found.verdict == "confirmed" and found.step == pytest.approx(2.0, abs=0.01)
    assert sum(found.parts.values()) == pytest.approx(found.predicted.seconds)
    again = judged.measured(found, around(2.0, 1), around(2.0, 2), around(1.6, 3), "contest")
    assert again.predicted == found.predicted


def test_what_is_open_becomes_decided_in_a_longer_run() -> None:
    """The measurement's own error is that of twelve rounds: it holds what would be confirmed."""
    found = judged.measured(told(-0.2), around(1.0, 1), around(1.0, 2), around(0.75, 3, 0.05), "contest")
    assert found.verdict is None and found.reason == UNDECIDED
    again = judged.measured(found, around(1.0, 1), around(1.0, 2), around(0.8, 3), "contest")
    assert again.verdict == "confirmed" and again.reason is None


def test_twins_that_differ_make_the_resolution_coarse() -> None:
    found = judged.measured(told(-0.03), around(1.0, 1), around(1.1, 2), around(1.02, 3), "contest")
    assert found.resolution is not None and found.resolution > 0.09 and found.verdict == "below resolution"


def test_what_failed_has_its_reason_and_no_verdict() -> None:
    broken = entry([])
    broken.status, broken.reason = "failed", "it died"
    found = judged.measured(told(), around(1.0, 1), around(1.0, 2), broken, "contest")
    assert found.measured is found.verdict is None and found.reason == "pytorch failed: it died"
    assert judged.failed(PredictedChange([], step(), found))
    other = entry([])
    other.status, other.reason = "wrong", "other work than the reference: a loss"
    found = judged.measured(told(), around(1.0, 1), around(1.0, 2), other, None)
    assert found.reason == "pytorch does other work than the reference: a loss"
    few = judged.measured(told(), around(1.0, 1), around(1.0, 2), entry([0.8] * 3), "contest")
    assert few.measured is None and few.reason == "too few rounds: a longer --budget"
    assert not judged.failed(PredictedChange([], step(), few))


def test_what_fails_later_has_no_saving_from_before() -> None:
    whole = judged.measured(told(), around(1.0, 1), around(1.0, 2), around(0.8, 3), "contest")
    broken = entry([])
    broken.status, broken.reason = "failed", "it died"
    again = judged.measured(whole, around(1.0, 1), around(1.0, 2), broken, "contest")
    assert again.measured is again.verdict is again.resolution is None
    assert again.reason == "pytorch failed: it died"
    assert judged.refused(again, "pytorch failed: it died").reason == again.reason


def test_what_was_left_out_early_has_its_figure_and_no_verdict() -> None:
    left = entry([1.01, 1.02, 1.0])
    left.ended = "left out after 3 rounds"
    found = judged.measured(told(), around(1.0, 1), around(1.0, 2), left, "contest")
    assert found.measured is not None and found.verdict is None and found.reason == "left out after 3 rounds"


def test_a_few_rounds_give_a_figure_and_no_verdict() -> None:
    three = [entry([x, x, x]) for x in (1.0, 1.0, 0.8)]
    found = judged.measured(told(), *three, "contest", choosing=True)
    assert found.measured is not None and found.measured.seconds == pytest.approx(-0.2)
    assert found.verdict is None and found.reason == judged.CHOOSING
    many = judged.measured(told(), around(1.0, 1), around(1.0, 2), around(0.8, 3), "contest", choosing=True)
    assert many.verdict is None
    assert judged.measured(told(), *three, "contest").measured is None


def test_why_there_is_no_prediction_is_said_behind_few_rounds_and_many() -> None:
    three = [entry([x, x, x]) for x in (1.0, 1.0, 0.8)]
    first = judged.measured(told(None), *three, "contest", choosing=True)
    assert first.reason == f"not predictable: it fuses; {judged.CHOOSING}"
    later = judged.measured(first, around(1.0, 1), around(1.0, 2), around(0.8, 3), "contest")
    assert later.reason == "not predictable: it fuses" and later.verdict is None


def test_one_disturbed_round_of_many_is_trimmed_where_few_would_do() -> None:
    disturbed = around(0.8, 3)
    disturbed.blocks[5][2].update(cpu=4.0, wall=4.0)
    found = judged.difference(disturbed, (around(1.0, 1),), judged.SOON)
    assert found is not None and found.center == pytest.approx(-0.2, abs=0.01)


def test_a_twin_of_another_group_is_left_out_of_the_mean() -> None:
    first, twin, changed = entry([1.0] * 12), entry([3.0] * 6), entry([0.5] * 12)
    changed.blocks = changed.blocks[6:]
    found = judged.difference(changed, (first, twin))
    assert found is not None and found.center == -0.5


def test_steps_of_other_clocks_are_compared_by_the_wall() -> None:
    one, two = entry([1.0] * 6), entry([0.5] * 6)
    two.setting = Setting(2)
    for _, _, block in one.blocks:
        block["wall"] = 1.25  # others took a fifth of it
    found = judged.difference(two, (one,))
    assert found is not None and found.center == -0.75


def test_processes_are_compared_within_their_generation() -> None:
    first, second = entry([1.0] * 6), entry([2.0] * 6, 1)
    first.blocks += second.blocks
    changed = entry([0.9] * 6)
    changed.blocks += entry([1.9] * 6, 1).blocks
    found = judged.difference(changed, (first,))
    assert found is not None and found.center == pytest.approx(-0.1) and found.half(0.1) == pytest.approx(0.0, abs=1e-9)


def test_what_two_unchanged_processes_differ_by_is_in_the_interval_of_one_of_each() -> None:
    same = judged.measured(told(), around(1.0, 1), around(1.0, 2), around(0.8, 3), None)
    apart = judged.measured(told(), around(1.0, 1), around(1.06, 2), around(0.8, 3), None)
    assert same.measured is not None and apart.measured is not None
    assert same.measured.high - same.measured.low < 0.02
    assert 0.11 < apart.measured.high - apart.measured.low < 0.14


def test_what_does_not_save_is_left_out_and_then_all_of_it_ends() -> None:
    first, twin = around(1.0, 1), around(1.0, 2)
    useless, useful = around(1.03, 3), around(0.8, 4)
    network_step.drop((first, twin), [useless, useful], 0.01)
    assert useless.ended == "left out after 12 rounds, in which the change saved less than 1 %"
    assert not (useful.ended or first.ended or twin.ended)
    network_step.drop((first, twin), [useless], 0.01)
    assert first.ended == twin.ended == "no changed step is left to compare"


def test_what_two_unchanged_steps_differ_by_may_have_been_bad_luck() -> None:
    changed = around(1.03, 3)
    network_step.drop((around(1.0, 1), around(1.1, 2)), [changed], 0.01)
    assert not changed.ended


def test_an_interrupt_records_the_rounds_so_far() -> None:
    candidate, appended = PredictedChange([], step(), told()), list[Prediction]()
    file = SimpleNamespace(append=appended.append)
    for entries in ((around(1.0, 1), entry([]), around(0.8, 3)), (around(1.0, 1), around(1.0, 2), around(0.8, 3))):
        with pytest.raises(KeyboardInterrupt), judged.kept([candidate], entries, file, False):  # type: ignore[arg-type]
            raise KeyboardInterrupt
    assert [round(x.measured.seconds, 1) for x in appended if x.measured] == [-0.2] and len(appended) == 1


def test_too_few_rounds_are_no_lasting_reason() -> None:
    short = judged.measured(told(None), entry([1.0]), entry([1.0]), entry([0.8]), "turns")
    assert short.measured is None and judged.FEW in (short.reason or "")
    later = judged.measured(short, around(1.0, 1), around(1.0, 2), around(0.8, 3), "turns")
    assert later.measured and judged.FEW not in (later.reason or "")
