"""Parts of a prediction put together, and turns of programs, without programs."""

from __future__ import annotations

import math
import os
import re
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue
from typing import Any, cast

import pytest

from kernels import users
from kernels.devices.cpu import cores
from kernels.errors import Unavailable
from macro import changes, frameworks
from macro.changes import Named, _parts, heaps
from macro.changes.base import FAULTS, FUNCTIONS, Change, Effect, Forecast, Part, PredictionInput, ProcessSnapshot, Step
from macro.predicting import forecast, judged, network_step, script_step
from macro.predicting.forecast import Predictor
from macro.predicting.processes import Plain
from macro.processes import ahead
from macro.processes.ahead import places
from macro.watching import reply
from macro.watching.ends import Ended
from macro.watching.program import ScriptObserver
from macro.watching.script import Script
from reports import store
from tests.build import environment
from tests.macro.changes import test_brings
from tests.macro.changes.test_changes import before, seen, step
from tests.macro.predicting.test_advice import foreseen

PLAIN = Change(
    "plain",
    "a test",
    lambda step, value: None,
    lambda step, value: step,
    lambda before, after: Effect(True, "seen"),
    lambda asked: Forecast((Part("gemm", -0.1, -0.11, -0.09),)),
)


def foreseer(path: Path | None = None) -> Predictor:
    return Predictor(step(), 1.0, 1.0, store.RunFile(path, environment()), print, Path("arrays"))


def asked(faults: float) -> PredictionInput:
    return PredictionInput(before(), seen(faults=faults), step(), step(), 1.0)


def test_page_faults_that_go_with_a_change_are_a_part_of_what_it_brings() -> None:
    memory = replace(PLAIN, memory=True)
    found = foreseer()._brings(Named(memory), asked(4500.0))
    assert [(x.what, x.seconds) for x in found.parts] == [("gemm", -0.1), ("page faults", pytest.approx(-0.1))]
    assert [x.what for x in foreseer()._brings(Named(PLAIN), asked(4500.0)).parts] == ["gemm"]
    unknown = replace(memory, brings=lambda asked: Forecast(why="who knows"))
    assert foreseer()._brings(Named(unknown), asked(4500.0)) == Forecast(why="who knows")


@pytest.mark.parametrize(("huge", "said"), [(0.0, "0"), (0.4, "0"), (0.6, None), (None, None)])
def test_kernels_by_themselves_have_memory_as_the_step_has_it(
    huge: float | None, said: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[str | None] = []

    def brings(asked: PredictionInput) -> Forecast:
        found.append(os.environ.get(forecast.ASKS))
        assert os.environ["GLIBC_TUNABLES"] == "glibc.malloc.hugetlb=1" and "OMP_PROC_BIND" not in os.environ
        return Forecast()

    def each() -> None:
        one = foreseer()
        one.__dict__["before"], one.seen = replace(before(), huge=huge), {"plain": seen()}
        one.step = one.step.with_variables({"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1", "OMP_PROC_BIND": "true"})
        one.each([Named(replace(PLAIN, brings=brings))])
        assert not {"GLIBC_TUNABLES", "OMP_PROC_BIND"} & os.environ.keys()

    monkeypatch.delenv(forecast.ASKS, raising=False)
    each()
    assert found == [said] and forecast.ASKS not in os.environ
    monkeypatch.setenv(forecast.ASKS, "1")  # by a person
    each()
    assert found[1:] == ["1"] and os.environ[forecast.ASKS] == "1"


@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="a system that does not tell pages")
def test_what_lies_in_huge_pages_is_told_by_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    assert 0.0 <= (network_step.huge(os.getpid()) or 0.0) <= 1.0
    assert network_step.huge(1 << 30) is None
    told = "Rss:  900 kB\nPss: 7 kB\nAnonymous: 400 kB\nAnonHugePages:   300 kB\n"
    monkeypatch.setattr(Path, "read_text", lambda self, *how: told)
    assert network_step.huge(1) == 0.75


def test_changed_steps_are_looked_at_and_what_fails_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    one = foreseer(tmp_path / "run.jsonl")
    one.__dict__["before"] = before()

    given = list[tuple[str, Path | None, tuple[str, ...]]]()

    def after(
        changed: Step, say: object, stack: ExitStack, looks: tuple[str, ...], arrays: Path | None
    ) -> ProcessSnapshot:
        given.append((f"{changed.setting.heap} {changed.plan.batch}", arrays, looks))
        if changed.setting.heap == "keep":
            raise Ended("failed", "it died", 9)
        return seen()

    monkeypatch.setattr("macro.predicting.network_step.after", after)
    asked = [changes.find("heap-keep"), Named(PLAIN), changes.find("batch=3")]
    one.look(asked)
    told = [one.single(named).prediction for named in asked]
    one.file.close()
    assert told[0].reason is not None and "small: the script failed: it died" in told[0].reason
    assert told[1].reason is None and told[1].predicted is not None
    assert sorted(given) == [  # another batch is given other arrays
        ("default 3", None, (FAULTS,)),
        ("default 8", one.arrays, (FUNCTIONS, FAULTS)),
        ("keep 8", one.arrays, (FAULTS,)),
    ]


def test_changes_that_measure_kernels_share_the_time_for_that(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    one, alone = foreseer(tmp_path / "run.jsonl"), list[float]()
    one.__dict__["before"], one.alone = before(), 30.0
    monkeypatch.setattr("macro.predicting.network_step.after", lambda *of, **more: seen())

    def brings(asked: PredictionInput) -> Forecast:
        alone.append(asked.alone)
        return Forecast()

    one.__dict__["before"] = replace(before(), cells={(("a",), "gemm"): 0.5, (("b",), "optimizer"): 0.5}, seconds=1.0)
    other = Named(replace(PLAIN, name="other", alone=False))
    asked = [Named(replace(PLAIN, name=name, brings=brings)) for name in "ab"]
    part = Named(replace(PLAIN, name="part", brings=brings, saves=("optimizer",)))
    one.look([*asked, other, part])
    assert [x.prediction.reason for x in one.each([*asked, other, part])] == [None] * 4
    one.file.close()
    assert alone == pytest.approx([12.0, 12.0, 6.0])  # of half the step it cannot change anything


def test_what_rounds_of_the_step_are_off_by_is_in_its_prediction(tmp_path: Path) -> None:
    """Of a combination whose changes the file holds already, once: each leaves nine tenths of the step."""
    noise = []
    for spread in (0.0, 0.5):
        one = foreseer(tmp_path / f"{spread}.jsonl")
        one.__dict__["before"] = before(spread=spread)
        one.seen = {"plain": seen()}
        told = one.single(Named(PLAIN)).prediction
        assert told.predicted is not None
        noise.append(told.noise)
        again = foreseer()
        again.__dict__["before"], again.held = one.before, {"plain": told}
        whole = again.both([again.single(Named(PLAIN))] * 2).prediction
        one.file.close()
        assert whole.predicted is not None and whole.noise == told.noise
        assert whole.predicted.seconds == pytest.approx(-0.19)
        model, between = judged.MODEL * 0.19, judged.BETWEEN
        assert whole.predicted.high - whole.predicted.seconds == pytest.approx(
            math.hypot(0.009, 0.009, model, between, told.noise)
        )
    assert noise == [0.0, pytest.approx(0.5 * (1.5 / 6) ** 0.5)]


def test_a_part_that_is_no_number_is_no_prediction() -> None:
    """Nor a line of a run file, which has no such numbers."""
    told = asked(0.0)
    told = replace(told, after=replace(told.after, faults=math.nan, faults_error=math.nan))
    found = foreseer()._brings(changes.find("heap-keep"), told)
    assert found.parts == () and found.why is not None and "a part is not finite" in found.why


def test_what_can_save_next_to_nothing_is_not_looked_at() -> None:
    one = foreseer()
    one.__dict__["before"] = before(cells={(("fc1 forward",), "gemm"): 0.004, (("fc1 update",), "optimizer"): 0.2})
    products, optimizer = (replace(PLAIN, name=word, saves=(word,)) for word in ("gemm", "optimizer"))
    faults = replace(products, name="faults", memory=True)  # page faults may go, too
    asked = [Named(change) for change in (products, optimizer, faults, PLAIN)]
    assert one.worth(asked, 0.01) == asked[1:]
    (told,) = one.file.run.predictions
    assert (told.change, told.reason) == ("gemm", "not timed: at most 0.4 % of the step is gemm")


def test_threads_that_a_program_has_already_are_not_tried() -> None:
    program = replace(step(threads=0), script=Script(Path("train.py")))
    one = replace(foreseer(), step=program)
    one.__dict__["before"] = before(identity={"threads": 1})
    asked = [Named(changes.known("threads"), value) for value in ("1", "2")]
    assert [named.words for named in one.worth(asked, 0.01)] == ["threads=2"]
    assert one.file.run.predictions[0].reason == "not timed: the script already has 1 thread"
    networks = replace(foreseer(), step=step(threads=2))  # NumPy says of its threads no number
    networks.__dict__["before"] = before(identity={"threads": {"openblas": 2}})
    assert networks.worth(asked[:1], 0.01) == asked[:1]


def test_steps_are_looked_at_one_by_one_where_memory_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the largest of them."""
    every = [sorted(os.sched_getaffinity(0))]
    monkeypatch.setattr(ahead, "memory", lambda: 1 << 20)
    assert network_step.free_cores(step(), [], {}) == every
    monkeypatch.setattr(ahead, "memory", lambda: 1 << 40)
    assert network_step.free_cores(step(), [], {}) == places(step().setting.threads or cores())
    large = changes.find(f"batch={1 << 32}").apply(step())
    assert network_step.free_cores(step(), [large], {}) == every


def test_what_a_change_raises_is_told_with_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "__name__", f"{users.MODULE}test")  # as that of a user's file
    broken = replace(PLAIN, brings=lambda asked: Forecast(parts=1 / 0), took=lambda before, after: Effect(1 / 0, ""))  # type: ignore[arg-type]
    one = foreseer(tmp_path / "run.jsonl")
    one.__dict__["before"] = before()
    why = one._brings(Named(broken), asked(1.0)).why
    assert why is not None and re.fullmatch(
        r"brings\(\) raises ZeroDivisionError: division by zero \(test_forecast.py, line \d+\)", why
    )
    none = replace(PLAIN, name="none", took=lambda before, after: None)  # type: ignore[arg-type, return-value]
    off = replace(PLAIN, name="off", took=lambda before, after: Effect(False, "as before"))
    one.seen = dict.fromkeys(("plain", "none", "off"), seen())
    reasons = [one.single(Named(change)).prediction.reason or "" for change in (broken, none, off)]
    one.file.close()
    assert re.fullmatch(r"not timed: took\(\) raises ZeroDivisionError: .* \(test_forecast.py, line \d+\)", reasons[0])
    assert reasons[1] == "not timed: took() raises TypeError: took() returns no Effect"
    assert reasons[2] == "not timed: the change has no effect"


def test_several_at_once_are_the_sum_of_each_and_stand_in_the_file(tmp_path: Path) -> None:
    one = foreseer(tmp_path / "run.jsonl")
    one.__dict__["before"] = before()
    named = [changes.find("heap-keep"), changes.find("fused-optimizer")]
    single = [
        one._kept(
            [x], x.apply(step()), "memory; bits", Effect(True, x.words), Forecast((Part("a", -0.1, -0.12, -0.08),)), ""
        )
        for x in named
    ]
    both = one.both(single)
    assert both.words == "heap-keep+fused-optimizer" and both.changed.setting.heap == "keep"
    assert both.prediction.predicted is not None and both.prediction.predicted.seconds == pytest.approx(-0.2)
    assert both.prediction.effect == "heap-keep; fused-optimizer" and both.prediction.costs == "memory; bits"
    assert [x.change for x in one.file.run.predictions] == ["heap-keep", "fused-optimizer", "heap-keep+fused-optimizer"]
    one.file.close()
    assert store.read(tmp_path / "run.jsonl").predictions == one.file.run.predictions
    again = foreseer()
    again.__dict__["before"] = before()
    unknown = again._kept([named[0]], step(), "", Effect(True, ""), Forecast(why="it fuses"), "")
    assert again.both([unknown, single[1]]).prediction.reason == "not predictable: no prediction of heap-keep"


def test_steps_that_are_looked_at_at_once_have_cores_of_their_own() -> None:
    every = os.sched_getaffinity(0)
    if min(cores(), len(every)) < 2:
        pytest.skip("one core")
    free = SimpleQueue[list[int]]()
    for place in network_step.free_cores(step(), [], {}):
        free.put(place)
    with forecast._apart(free, 1):
        mine = os.sched_getaffinity(0)
        assert len(mine) == 1 and mine.isdisjoint(free.get())
    with forecast._apart(free, len(every)):
        assert os.sched_getaffinity(0) == every
    assert os.sched_getaffinity(0) == every and free.get() == sorted(mine)
    assert places(len(every)) == [sorted(every)]
    chooses = replace(step(), framework=frameworks.find("kernels-only"))  # it times kernels as it is built
    assert network_step.free_cores(chooses, [], {}) == [sorted(every)]


def test_of_what_two_changes_change_each_leaves_its_ratio_of_what_the_other_leaves() -> None:
    two, better, faults = Part("gemm", -0.5, -0.51, -0.49, 1.0), Part("gemm", -0.4, -0.44, -0.36, 1.0), _parts.around
    both, rest = judged.at_once([two, better, faults("page faults", -0.1, 0.02, 0.1)])
    assert both.seconds == pytest.approx(-0.7) and both.of == 1.0
    assert both.high - both.seconds == pytest.approx(((0.01 * 0.6) ** 2 + (0.04 * 0.5) ** 2) ** 0.5)
    assert rest == faults("page faults", -0.1, 0.02, 0.1)
    apart = [Part("gemm", -0.5, -0.6, -0.4), two]  # of one nothing is known but its sum
    assert judged.at_once(apart) == apart
    others = [Part("the smaller ones", -2.5, -3.0, -2.0, 5.0), Part("the smaller ones", -50.0, -60.0, -40.0, 100.0)]
    assert judged.at_once(others) == others  # of other kernels


def test_page_faults_go_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heaps, "new_memory", lambda page: 2e-6 if page == 4096 else 0.5e-6)
    gone = seen(faults=0.0)
    parts = [
        changes.find(word).change.brings(test_brings.asked(step(), before(), gone)).parts
        for word in ("heap-keep", "huge-pages")
    ]
    (both,) = judged.at_once([*parts[0], *parts[1]])
    assert both.seconds == pytest.approx(-0.2)  # all of the operating system's time, and no more
    assert both.high - both.seconds == pytest.approx(parts[0][0].high - parts[0][0].seconds)  # what one costs


def test_page_faults_that_come_add_to_each_other() -> None:
    few, more = (_parts.around(_parts.PAGE_FAULTS, change, 0.3 * change, 0.01) for change in (0.3, 0.4))
    (both,) = judged.at_once([few, more])
    assert both.seconds == pytest.approx(0.7) and both.high - both.seconds == pytest.approx(0.21)
    (uncertain,) = judged.at_once([few, _parts.around(_parts.PAGE_FAULTS, 1e-4, 3e-3, 0.01)])
    assert uncertain.high - uncertain.seconds < 0.1  # and not thirty times what both bring
    (none,) = judged.at_once([few, _parts.around(_parts.PAGE_FAULTS, -0.01, 0.003, 0.01)])
    assert none.seconds == pytest.approx(-0.01)  # where freed memory is kept none come


GIB = 1 << 30


@pytest.mark.parametrize(("peak", "groups"), [(0, [3]), (GIB, [3]), (2 * GIB, [2, 1]), (2.5 * GIB, [1, 1, 1])])
def test_as_many_run_at_once_as_memory_has_room_for(
    peak: float, groups: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[tuple[int, float]] = []

    def made(step: Any, group: list[Any], file: object, say: object, hopeless: object) -> list[Any]:
        taken.append((len(group), step.plan.seconds))
        return list(group)

    monkeypatch.setattr(script_step, "_time", made)
    monkeypatch.setattr(ahead, "memory", lambda: 10 * GIB)
    three = [foreseen(word) for word in ("heap-keep", "heap-jemalloc", "mkl-dispatch")]
    own = step()
    own = replace(own, plan=replace(own.plan, seconds=6.0))
    assert script_step.make(own, three, cast(Any, None), lambda text: None, Path(), {"peak": peak}, None) == three
    assert taken == [(count, pytest.approx(2.0 * count)) for count in groups]


def test_a_program_that_memory_has_no_room_for_three_of_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead, "memory", lambda: 10 * GIB)
    with pytest.raises(Unavailable, match=r", 4\.3 GB each; memory has room for 2: use smaller batches"):
        script_step.free_cores(step(), [], {"peak": 4 * GIB})
    assert len(script_step.free_cores(step(), [], {"peak": 2 * GIB})) == min(cores(), 4)


def test_a_block_has_both_clocks() -> None:
    look = Plain(Script(Path("train.py")), cast(Any, None), print)
    steps = [(0, 30_000_000, 10_000_000, 0, 0), (0, 50_000_000, 20_000_000, 0, 0)]
    look.last = reply.block({"steps": steps, "blocked": 10_000_000, "load": None, "traced": None}, None, None)
    assert look.timed() == pytest.approx({"wall": 0.04, "cpu": 0.02, "blocked": 0.0})
    assert isinstance(look, ScriptObserver)
