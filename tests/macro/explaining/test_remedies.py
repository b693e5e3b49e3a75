"""What a user can do about a certain difference: said where it applies, with a command that exists."""

from __future__ import annotations

import shlex
from dataclasses import replace
from importlib import import_module

import pytest

from macro import changes, whatif
from macro.explaining import document, gap, remedies
from macro.explaining.attribute import attribute
from macro.explaining.remedies import REMEDIES, Remedy
from macro.explaining.rows import rows
from macro.watching import perf
from macro.watching.watch import Side
from micro.command import everything
from micro.planning.options import request
from micro.planning.request import planned
from tests.macro.explaining.sides import CLEARS, FAST, NET, PLAN, side
from tests.macro.watched import PYTHON

DEFAULT = ("mkl_blas_def_sgemm_kernel_0_zen", "/usr/lib/libtorch_cpu.so")


@pytest.fixture(autouse=True)
def _perf(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(perf, "missing", lambda: None)


def told(one: Side, other: Side, begins: str = "To try") -> dict[str, str]:
    """By name of the remedy, what is said of it."""
    said = document.explain(PLAN, [one, other], 3.0).sentences
    return {line.split(": ")[1]: line for line in said if line.startswith(f"{begins}: ")}


def test_page_faults_have_the_heap_as_remedy_unless_it_is_taken() -> None:
    found = told(side("numpy", [*FAST, "nothing"], more=(CLEARS,)), side("jax", FAST))
    (line,) = found.values()
    assert line == (
        "To try: keep freed memory: saves up to 1.00 ms of a step of numpy. Do: start the program with "
        "MALLOC_MMAP_MAX_=0 MALLOC_TRIM_THRESHOLD_=68719476736 MALLOC_TOP_PAD_=67108864, "
        "or give each step the same buffers. Measure: "
        "python -m macro whatif fcn-r numpy --batch 128 heap-keep"
    )
    assert not told(side("numpy", [*FAST, "nothing"], heap="keep", more=(CLEARS,)), side("jax", FAST))


def test_the_side_that_has_more_is_meant() -> None:
    found = told(side("numpy", FAST), side("pytorch", [*FAST, "nothing", "nothing"], more=(PYTHON, DEFAULT)))
    assert set(found) == {"fewer calls from Python", "MKL's vendor check"}
    assert "of a step of pytorch" in found["MKL's vendor check"] and "LD_PRELOAD" in found["MKL's vendor check"]


def test_equal_steps_have_no_remedy() -> None:
    assert not told(side("numpy", FAST), side("jax", FAST))


def doubtful(one: Side, other: Side, column: str, low: float, high: float) -> list[str]:
    """What is said where no cause is certain, and one has this interval."""
    sides = [one, other]
    attributions = [[attribute(process, {}, 1) for process in side.processes] for side in sides]
    made = gap.gap([one.processes for one in sides], attributions, rows(NET, 128))
    causes = [replace(x, sure=False, low=-1.0, high=1.0) for x in made.bars["cause"]]
    causes = [replace(x, low=low, high=high) if x.name == column else x for x in causes]
    return remedies.sentences(replace(made, bars={**made.bars, "cause": tuple(causes)}), PLAN, sides)


def test_a_large_cause_that_may_be_chance_has_its_remedy_to_be_checked() -> None:
    one, other = side("numpy", [*FAST, "nothing"], more=(CLEARS,)), side("jax", FAST)
    other.processes[0].system = [1e-5]
    (line,) = doubtful(one, other, "OS memory", 1e-4, 2e-3)
    assert line.startswith(
        "To check (may be chance): keep freed memory: saves up to 1.00 ms of a step of numpy (the operating system's "
        "accounting of plain steps: 1.00 ms in numpy against 10.0 µs in jax). Do: start the program with MALLOC"
    )
    assert not doubtful(one, other, "OS memory", -1e-4, 2e-3), "its own interval holds 0"
    assert not told(one, other, "To check"), "it is certain"


MEMSET = ("__memset_evex_unaligned_erms", "/usr/lib/libc.so.6")


@pytest.mark.parametrize(("name", "says"), [("numpy", "np.matmul(a, b, out=c)"), ("pytorch", "set_to_none=True")])
def test_what_fills_arrays_with_zeros_is_told_with_the_call(name: str, says: str) -> None:
    (line,) = told(side(name, [*FAST, "nothing"], more=(MEMSET,)), side("jax", FAST)).values()
    assert says in line and f"up to 1.00 ms of a step of {name}" in line
    cells = document.explain(PLAN, [side(name, [*FAST, "nothing"], more=(MEMSET,)), side("jax", FAST)], 3.0).sentences
    assert any("filling an array with zeros by __memset_evex_unaligned_erms (libc.so.6), which jax" in x for x in cells)


def test_a_fused_optimizer_is_no_advice_for_a_framework_without_one() -> None:
    slow = side("numpy", [*FAST, "nothing"], more=(("sgd_update", "/usr/lib/mine.so"),))
    torch = side("pytorch", [*FAST, "nothing"], more=(("sgd_update", "/usr/lib/libtorch_cpu.so"),))
    assert not told(slow, side("jax", FAST))
    assert set(told(torch, side("jax", FAST))) == {"one pass for the update"}


@pytest.mark.parametrize("remedy", REMEDIES, ids=lambda one: one.name)
def test_each_command_is_one_of_the_suite(remedy: Remedy) -> None:
    step = "fcn-r pytorch --batch 64"
    words = shlex.split(remedy.measure.format(net="fcn-r", framework="pytorch", step=step))
    _, _, module, *rest = words[words.index("python") :]
    if rest[0] == "whatif":  # whether it applies depends on the processor
        assert all(changes.find(word) for word in whatif.parser().parse_intermixed_args(rest[1:]).changes)
    elif module == "macro":
        import_module(f"macro.{rest[0]}").request(rest[1:])
    else:
        name = module.removeprefix("micro.")
        meant, options = request(everything.benchmarks()[name], name, rest, raising=True)
        assert planned(meant, name, options).contests
