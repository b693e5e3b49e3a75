"""Ceilings by type and threads, the shares that a step's products have of them, and the sentences on one step."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from kernels.devices import cpu
from kernels.launch import Launch
from macro.explaining import advice, breakdown, ceilings, certain
from macro.explaining.breakdown import Ceilings
from macro.timing.peak import UNIT
from macro.watching.load import Load
from macro.watching.perf import Sample
from macro.watching.recording import Recording, Watched
from reports.explanation import Breakdown, Share
from reports.step import quality
from tests.explanations import breakdown as a_step
from tests.macro.explaining.test_witnesses import MODULE_B, recorded

RATE = 100e9  # FLOP/s of one thread
FLOAT, DOUBLE, BF16, TINY = "float", "double", "c10::BFloat16", "c10::Float8_e4m3fn"
KNOWN = Ceilings(8e9, None, typed={"bfloat16": (16e9, ""), "float64": (4e9, "")})


class Machine:
    """A peak of RATE on each thread, of several threads together `slow` times that."""

    slow = 1.0

    def __init__(self, threads: int) -> None:
        self.threads = threads

    def look(self, product: float) -> float:
        return UNIT / RATE / (self.slow if self.threads > 1 else 1.0)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> type[Machine]:
    """Two cores of their own, with nothing for bfloat16."""
    machine = type("OneOfTwoCores", (Machine,), {})
    monkeypatch.setattr("kernels.devices.cpu.cores", lambda: 2)
    monkeypatch.setattr("kernels.devices.cpu.physical_cores", lambda: 2)
    monkeypatch.setattr(ceilings, "Peak", machine)
    monkeypatch.setattr(ceilings, "_typed", lambda name, threads: None)
    monkeypatch.setattr(ceilings, "_traffic", lambda threads, size: None)
    return machine


@pytest.mark.parametrize(("units", "rate"), [((), None), (("avx512bf16",), 16e9), (("avx512bf16", "amxbf16"), 32e9)])
def test_bfloat16_has_its_fastest_instruction(
    monkeypatch: pytest.MonkeyPatch, units: Sequence[str], rate: float | None
) -> None:
    """Launches of a second, each of 16 uses."""
    problems = [SimpleNamespace(flops=1e9 * (i + 1)) for i, _ in enumerate(units)]
    monkeypatch.setattr("micro.measuring.ceilings.coarse_peaks", lambda *_: problems)
    monkeypatch.setattr("kernels.ops.fma.fastest.bound", lambda problem: Launch(lambda: None, uses=16))
    monkeypatch.setattr("kernels.ops.fma.fastest.seconds", lambda call, clock: 1.0)
    monkeypatch.setattr(ceilings, "COARSE", 1e-4)
    monkeypatch.setattr("kernels.devices.cpu.features", lambda: ())
    assert ceilings._typed("bfloat16", 1) == rate


def test_two_threads_have_two_threads_ceiling(machine: type[Machine]) -> None:
    assert ceilings.measured(1).flops == pytest.approx(RATE)
    assert ceilings.measured(2).flops == pytest.approx(2 * RATE) and not ceilings.measured(2).notes


def test_a_disturbed_ceiling_is_replaced_and_named(machine: type[Machine]) -> None:
    machine.slow = 0.6
    measured = ceilings.measured(2)
    assert measured.flops == pytest.approx(2 * RATE)
    assert [note.partition(":")[0] for note in measured.notes] == [
        "2 threads reached only 120 GFLOP/s of 2 × one thread's 100 GFLOP/s"
    ]


def test_more_threads_than_processors_have_those_of_the_processors(machine: type[Machine]) -> None:
    measured = ceilings.measured(8)
    assert measured.flops == pytest.approx(2 * RATE)
    assert measured.notes == ("8 threads run on 2 processors: the ceilings are those of 2",)


@pytest.mark.parametrize(
    ("together", "cores", "rate", "why"),
    [
        (2.1, 2, 2.1, ""),
        (1.96, 2, 2.0, ""),
        (1.2, 2, 2.0, "a lower clock with all cores busy"),
        (1.2, 1, 1.2, "they share 1 physical core"),
        (0.8, 1, 1.0, "they share 1 physical core"),
        (None, 2, 2.0, "could not be pinned"),
    ],
)
def test_a_ceiling_is_no_lower_than_its_cores(together: float | None, cores: int, rate: float, why: str) -> None:
    ceiling, reason = ceilings.of_threads(RATE, together and together * RATE, 2, cores)
    assert ceiling == pytest.approx(rate * RATE)
    assert why in reason and bool(why) == bool(reason)


def test_hardware_threads_of_a_core_count_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(cpu, "cores", lambda: 4)
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: {0, 1, 2, 3})
    monkeypatch.setattr(cpu, "SIBLINGS", str(tmp_path / "{}"))
    assert cpu.physical_cores() == 4  # where the system has no such files
    for i, text in enumerate(("0,2", "1,3", "0,2", "1,3")):
        (tmp_path / str(i)).write_text(text)
    assert cpu.physical_cores() == 2


def taken_apart(types: Sequence[str], known: Ceilings = KNOWN) -> Breakdown:
    """A step of three products, two of one size and one of another, in these types."""
    recording = recorded(10.0, "net.b", MODULE_B)
    products = [i for i, call in enumerate(recording.called) if call.event.name == "aten::mm"]
    for i, name in zip(products, types, strict=True):
        recording.called[i] = recording.called[i]._replace(types=[name] * 2)
    recording.program["python"] = "3.11"
    return breakdown.taken_apart(recording, 1.0, known)


def test_rows_of_a_step_that_tracing_doubles_are_scaled_to_the_plain_step() -> None:
    recording = recorded(10.0, "net.b", MODULE_B)
    recording.program["python"] = "3.11"
    before = breakdown.taken_apart(recording, 1.0, KNOWN)
    (process,) = recording.processes
    process.levels["P0"] = [x / 2 for x in process.levels["P0"]]
    step = breakdown.taken_apart(recording, 1.0, KNOWN)
    assert before.scale == 1.0 and step.scale < 0.6
    assert sum(cell.a for cell in step.cells) == pytest.approx(step.step["a"])
    assert "scaled by" in "".join(advice.sentences(step)) and "plain step by 99" in quality(step)


def gemm(step: Breakdown) -> Share:
    (share,) = [kind for kind in step.kinds if kind.name == "gemm"]
    return share


@pytest.mark.parametrize(("name", "times"), [(BF16, 0.5), (DOUBLE, 2.0)])
def test_products_have_the_ceiling_of_their_type(name: str, times: float) -> None:
    single, typed = gemm(taken_apart([FLOAT] * 3)), gemm(taken_apart([name] * 3))
    assert single.percent and single.least and typed.percent == pytest.approx(times * single.percent)
    assert typed.least == pytest.approx(times * single.least)


def test_several_types_add_up_their_least_times() -> None:
    single, step = gemm(taken_apart([FLOAT] * 3)), taken_apart([BF16, BF16, FLOAT])
    assert single.least and single.least > (gemm(step).least or 0.0) > 0.5 * single.least
    assert set(gemm(step).dtype.split(" and ")) == {"bfloat16", "float32"}
    assert sum(step.types.values()) == step.closure["a"]["flops"]


def test_a_type_without_a_ceiling_has_no_share() -> None:
    step = taken_apart([TINY] * 3)
    assert gemm(step).work and (gemm(step).percent, gemm(step).least, gemm(step).left) == (None, None, None)
    assert "products in Float8_e4m3fn have no known ceiling, so no share of it is shown" in step.conditions
    assert (
        "of this machine's ceiling" not in advice.sentences(step)[0] and "in Float8_e4m3fn" in advice.sentences(step)[0]
    )


@pytest.mark.parametrize(
    ("name", "first", "kind"), [(DOUBLE, "FLOP/s in float64, ", "FLOP/s in float64, "), (FLOAT, "FLOP/s, ", "FLOP/s, ")]
)
def test_sentences_name_the_type(name: str, first: str, kind: str) -> None:
    lines = advice.sentences(taken_apart([name] * 3))
    assert first in lines[0] and kind in next(line for line in lines if line.startswith("By kind"))


def test_without_an_instruction_bfloat16_has_the_ceiling_of_float32() -> None:
    step = taken_apart([BF16] * 3, Ceilings(8e9, None))
    assert gemm(step).percent == pytest.approx(gemm(taken_apart([FLOAT] * 3)).percent)
    assert any("no bfloat16 instruction" in line for line in step.conditions)
    assert not any("bfloat16" in line for line in taken_apart([BF16] * 3).conditions)


def test_the_document_has_a_ceiling_of_each_type() -> None:
    assert taken_apart([FLOAT] * 3).ceilings == {"flops": 8e9, "flops_f64": 4e9, "flops_bf16": 16e9, "flops_f16": 8e9}


def test_traffic_counts_the_lines_that_a_triad_fetches(monkeypatch: pytest.MonkeyPatch) -> None:
    rates = {"read": 30e9, "triad": 24e9}
    asked: list[Sequence[str]] = []

    def plan(op: str, kind: Sequence[str], **options: object) -> None:
        asked.append(kind)

    results = [
        SimpleNamespace(role="measured", bytes_per_second=rate, problem={"kind": kind}) for kind, rate in rates.items()
    ]
    monkeypatch.setattr("micro.plan", plan)
    monkeypatch.setattr("micro.measure", lambda plan: SimpleNamespace(results=results))
    assert ceilings._traffic(1, 1 << 30) == pytest.approx(32e9) and asked == [["read", "triad"]]


def test_a_trace_of_another_type_takes_no_share_away() -> None:
    most = {"float32": 1e9, "complex64": 1e6}
    assert breakdown._least(most, KNOWN) == pytest.approx(1e9 / 8e9)
    assert breakdown._least({**most, "complex64": 1e9}, KNOWN) is None


PROGRAM = {"script": "train.py", "step": "optimizer.step()", "heap": "keep", "framework": "pytorch", "version": "2"}
KEEP = "To try: keep freed memory"


def started(seconds: float, half: float) -> dict[str, float]:
    """Step on the heap that the script starts with."""
    return {"seconds": seconds, "low": seconds - half, "high": seconds + half, "faults": 900.0}


def tries(step: Breakdown) -> list[str]:
    return [one for one in advice.sentences(step) if one.startswith(KEEP)]


def test_a_busy_machine_is_in_the_first_line_and_nothing_is_advised() -> None:
    started = {"seconds": 0.5, "low": 0.49, "high": 0.51, "faults": 900.0}
    quiet, busy = (advice.sentences(a_step(busy=share, company=1.0, started=started)) for share in (0.05, 0.4))
    assert "busy" not in "".join(quiet) and "other programs used 1.00 cores" in quiet[0]
    assert "To try:" in "".join(quiet) and "To try:" not in "".join(busy)
    assert busy[0].startswith("This machine was busy: other programs used 1.00 cores and took 40% of")


@pytest.mark.parametrize(
    ("half", "busy", "tried"), [(0.002, 0.0, True), (0.002, 0.4, False), (0.02, 0.0, False), (0.0095, 0.0, True)]
)
def test_only_a_certain_heap_effect_is_advice(half: float, busy: float, tried: bool) -> None:
    step = a_step(started=started(0.11, half), busy=busy)
    assert bool(tries(step)) == tried
    assert any("keeping it changes a step by" in one for one in advice.sentences(step)) == tried


def test_a_heap_that_saves_no_page_faults_is_no_cause() -> None:
    step = a_step(started=started(0.11, 0.002), faults={"P0": 900.0})
    assert step.started["faults"] == 900.0 and not tries(step)


def test_intervals_of_both_heaps_add_up() -> None:
    assert not tries(a_step(started=started(0.11, 0.0098)))  # the step's own are 3 ms


def test_perfs_own_time_is_printed() -> None:
    (looking,) = [x for x in advice.sentences(a_step(program={**PROGRAM, "perf": 0.0123})) if x.startswith("Watching")]
    assert looking.startswith("Watching costs: both +2%, perf used 1.2% of a core.")


def test_an_interval_of_a_time_begins_at_zero_at_least() -> None:
    noisy = certain.estimate([np.array([0.001, 0.05, 0.002, 0.1])])
    assert certain.ends(noisy)[0] < 0.0 == certain.time_ends(noisy)[0]
    assert certain.time_ends(noisy)[1] == certain.ends(noisy)[1]


def test_a_breakdown_has_the_share_of_others() -> None:
    levels = {"P0": [0.01, 0.05, 0.001], "P3": [0.01, 0.05, 0.001]}
    steps = [(i * 10**8, i * 10**8 + 10**7, 0.01, 0.0) for i in range(3)]
    samples = [Sample(1, i * 10**8 + 1000, "sgemm", "libmkl.so") for i in range(3)]
    watched = Watched(
        levels, rounds=[0, 1, 2], steps=steps, system=[0.0] * 3, samples=samples, load=[Load(0.1, 0.1, 0.2)] * 3
    )
    step = breakdown.taken_apart(Recording(dict(PROGRAM), [watched]), 1.0, breakdown.Ceilings(None, None))
    assert step.busy == pytest.approx(0.5)
    assert step.interval[0] == 0.0
