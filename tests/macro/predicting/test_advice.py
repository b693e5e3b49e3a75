"""What is tried, which of it helps for certain, and what of that is combined."""

from __future__ import annotations

from dataclasses import replace

import pytest

from macro import changes
from macro.changes import products, settings
from macro.changes.base import Effect, Forecast, Part, Step
from macro.predicting import advice, durations, judged
from macro.predicting.judged import PredictedChange, joined, together
from reports.prediction import LEFT_OUT
from reports.record import Contest, Expected, Note
from tests import build
from tests.macro.changes.test_changes import before, step


def foreseen(
    words: str, seconds: float | None = None, error: float = 0.01, predicted: float | None = -0.1
) -> PredictedChange:
    named = [changes.find(word) for word in words.split("+")]
    forecast = Forecast(why="who knows")
    if predicted is not None:
        forecast = Forecast((Part("a", predicted, predicted - 0.001, predicted + 0.001),))
    told = judged.prediction(step(), joined(named), "nothing", 1.0, Effect(True, "seen"), forecast)
    if seconds is not None:
        found = Expected(seconds, seconds - error, seconds + error, 0.9)
        told = replace(told, measured=found, resolution=0.01, verdict="confirmed")
    return PredictedChange(named, together(step(), named), told)


@pytest.mark.parametrize(
    ("seconds", "error", "there"),
    [(-0.1, 0.01, True), (-0.1, 0.2, False), (-0.009, 0.001, False), (0.1, 0.01, False), (None, 0.0, False)],
)
def test_a_saving_is_one_that_is_certain_and_worth_a_word(seconds: float | None, error: float, there: bool) -> None:
    assert advice.saves(foreseen("heap-keep", seconds, error)) is there


@pytest.mark.parametrize(
    ("words", "predicted", "tried"),
    [
        ("heap-keep", 0.0, True),  # costs a variable
        ("heap-keep", None, True),
        ("fused-optimizer", 0.0, False),  # is written into a program, and brings nothing
        ("fused-optimizer", -0.1, True),
        ("fused-optimizer", None, True),
    ],
)
def test_what_costs_a_variable_alone_is_tried_in_any_case(words: str, predicted: float | None, tried: bool) -> None:
    assert advice.promising(foreseen(words, predicted=predicted)) is tried


def test_what_rounds_may_be_off_by_makes_nothing_promising() -> None:
    one = foreseen("fused-optimizer", predicted=0.0)
    noisy = judged.prediction(step(), "fused-optimizer", "", 1.0, Effect(True, ""), Forecast(()), noise=0.4)
    assert noisy.noise > 0.1 and not advice.promising(replace(one, prediction=noisy))


def test_more_is_combined_as_long_as_it_helps() -> None:
    best = [foreseen("heap-keep", -0.2), foreseen("fused-optimizer", -0.1), foreseen("threads=2", -0.05)]
    two, other = foreseen("heap-keep+fused-optimizer", -0.3), foreseen("heap-keep+threads=2", -0.26)
    useless = foreseen("heap-keep+fused-optimizer", -0.205)
    three = foreseen("heap-keep+fused-optimizer+threads=2", -0.35)
    assert advice.combined(best, [two, other, three]) is three
    assert advice.combined(best, [two, other]) is two
    assert advice.combined(best, [useless, other]) is other  # what does not help is left out
    assert advice.combined(best, [foreseen("heap-tcmalloc+threads=2", -0.26)]).words == "heap-tcmalloc+threads=2"  # type: ignore[union-attr]
    assert advice.combined(best, [useless, three]) is three  # which is more than what it is made of
    assert advice.combined(best, [two, foreseen("heap-keep+fused-optimizer+threads=2", -0.305)]) is two
    assert advice.combined(best, []) is best[0]
    assert advice.combined([foreseen("heap-keep", 0.1)], []) is None


def test_few_rounds_choose_what_is_timed_again_and_what_was_left_out_is_not() -> None:
    unsure = foreseen("heap-keep", -0.1, 0.2)
    out = foreseen("threads=2", -0.2)
    out = replace(out, prediction=replace(out.prediction, reason=f"{LEFT_OUT} 3 rounds"))
    assert [one.words for one in advice.chosen(step(), [out, unsure])] == ["heap-keep"] and not advice.saves(unsure)


@pytest.mark.usefixtures("another_vendor")
def test_a_sure_prediction_counts_for_more_than_few_noisy_rounds() -> None:
    noisy, sure = foreseen("openblas-shim", -0.12, 0.1, predicted=-0.03), foreseen("mkl-dispatch", -0.07, 0.1)
    assert [one.words for one in advice.chosen(step(), [noisy, sure])] == ["mkl-dispatch"]
    unknown = foreseen("openblas-shim", -0.12, 0.1, predicted=None)
    assert [one.words for one in advice.chosen(step(), [unknown, sure])] == ["openblas-shim"]


def test_what_the_winner_excludes_is_not_among_what_helps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "absent", lambda word: None)
    winner = foreseen("heap-keep+fused-optimizer", -0.3)
    told = {"heap-keep": True, "fused-optimizer": True, "heap-tcmalloc": False, "weights-transposed": True}
    assert {words: advice.fits(step(), foreseen(words, -0.1), winner) for words in told} == told
    assert advice.fits(step(), foreseen("heap-tcmalloc", -0.1), None)


def test_of_an_optimizer_one_form_is_made() -> None:
    fused, foreach = foreseen("fused-optimizer"), foreseen("foreach-optimizer")
    assert not advice.applies(step(), [fused, foreach]) and not advice.applies(step(), [foreach, fused])


def test_what_starting_took_is_taken_from_what_is_left() -> None:
    empty = build.run()
    of_program = replace(empty, notes=(Note("turns", {"steps": {}, "seconds": 30.0}),))
    assert advice._starting(of_program, (0, 0), 70.0, 8) == (4.0, 0.0)
    assert advice._starting(of_program, (0, 1), 70.0, 8) == (0.0, 0.0)  # an earlier one's
    in_groups = replace(empty, notes=of_program.notes * 2)
    assert advice._starting(in_groups, (0, 0), 84.0, 8) == (2.0, 0.0)
    turns = Contest("step/a", "?", "change", (), (), {"proving": 20.0, "measuring": 25.0})
    assert advice._starting(replace(empty, contests=(turns,)), (0, 0), 70.0, 8) == (2.5, 20.0)
    assert advice._starting(empty, (0, 0), 0.0, 8) == (0.0, 0.0)  # all of it stood in the file


def test_what_helps_together_alone_is_advised_too() -> None:
    little = [foreseen("heap-keep", -0.015, 0.02), foreseen("fused-optimizer", -0.015, 0.02)]
    assert advice.combined(little, [foreseen("heap-keep+fused-optimizer", -0.05)]) is not None
    assert advice.combined(little, [foreseen("heap-keep+fused-optimizer", -0.05, 0.1)]) is None


def test_only_what_applies_together_is_combined(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "vendor", lambda: "AuthenticAMD")
    one, other = foreseen("mkl-dispatch", -0.2), foreseen("openblas-shim", -0.1)
    assert not advice.applies(step(), [one, other]) and not advice.applies(step(), [other, one])
    assert advice.applies(step(), [foreseen("heap-keep", -0.2), foreseen("fused-optimizer", -0.1)])


def test_one_change_has_one_value_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "cores", lambda: 4)
    one, two, keep = foreseen("threads=2"), foreseen("threads=4"), foreseen("heap-keep")
    assert advice.applies(step(), [two, keep]) and not advice.applies(step(), [two, keep, one])


def test_edits_of_a_program_are_told_that_may_save_enough() -> None:
    told = {"channels last": ("a line", 0.02), "a fused optimizer": ("another", 0.3), "no change of type": ("", 0.001)}
    found = advice.edits(before(edits=told))
    assert list(found.items()) == [("a fused optimizer", ("another", 0.3)), ("channels last", ("a line", 0.02))]


def test_the_best_that_can_be_made_together_are_timed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "vendor", lambda: "AuthenticAMD")
    savings = {"openblas-shim": -0.1, "mkl-dispatch": -0.2, "heap-keep": -0.3, "fused-optimizer": -0.001}
    tried = [foreseen(words, seconds, 0.0005) for words, seconds in savings.items()]
    coarse = [
        replace(one, prediction=replace(one.prediction, resolution=0.5)) for one in tried
    ]  # few rounds: timed again
    assert [one.words for one in advice.chosen(step(), coarse)] == ["heap-keep", "mkl-dispatch"]
    assert not any(advice.saves(one) for one in coarse)
    many = [*tried, foreseen("weights-transposed", -0.05), foreseen("foreach-optimizer", -0.04)]
    assert len(advice.chosen(step(), many)) == advice.BEST


def test_the_shell_file_sets_what_differs_and_says_what_is_to_be_written() -> None:
    one = foreseen("heap-keep+fused-optimizer", -0.3)
    text = advice._shell(step(), one)
    assert "export MALLOC_MMAP_MAX_=0\n" in text and "# In the program: torch.optim.*(…, fused=True)\n" in text
    assert "THREADS" not in text and text.startswith(
        "# heap-keep+fused-optimizer: a step of small, batch 8, in pytorch"
    )
    assert "30.0 % less" in text
    assert advice._shell(step(), None).startswith("# No change that was tried makes a step of small")


def test_threads_are_every_pools() -> None:
    two: Step = changes.find("threads=2").apply(step())
    assert advice.variables(step(), two).keys() >= {"OMP_NUM_THREADS", "MKL_NUM_THREADS"}
    assert advice.variables(step(), step()) == {}


def test_forecasts_count_starts_of_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(durations, "cores", lambda: 2)
    assert durations.changing(2, True, 40.0, 3, 1.0) == (
        "about 96 s in all: 40 s of measuring, 56 s for starting 21 processes and trials in them"
    )
    forecast = durations.advising(8, 3, 18.0, 60.0, 4.0)
    assert forecast.startswith(
        "about 286 s in all: 268 s of it for starting processes, more than --budget (this machine"
    )
    assert durations.advising(8, 3, 90.0, 300.0, 1.0) == "about 300 s in all: 69 s of it for starting processes"
