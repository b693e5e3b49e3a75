"""What a user can do about a certain difference: said where it applies, with a command that exists."""

from __future__ import annotations

import shlex
from importlib import import_module

import pytest

from macro.explaining import document
from macro.explaining.remedies import REMEDIES, Remedy
from macro.watching import perf
from macro.watching.watch import Side
from micro.command import everything
from micro.planning.options import request
from micro.planning.request import planned
from tests.macro.explaining.sides import CLEARS, FAST, PLAN, side
from tests.macro.watched import PYTHON

DEFAULT = ("mkl_blas_def_sgemm_kernel_0_zen", "/usr/lib/libtorch_cpu.so")


@pytest.fixture(autouse=True)
def _perf(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(perf, "missing", lambda: None)


def told(one: Side, other: Side) -> dict[str, str]:
    """By name of the remedy, what is said of it."""
    said = document.explain(PLAN, [one, other], 3.0).sentences
    return {line.split(": ")[1]: line for line in said if line.startswith("To try: ")}


def test_page_faults_have_the_heap_as_remedy_unless_it_is_taken() -> None:
    found = told(side("numpy", [*FAST, "nothing"], more=(CLEARS,)), side("jax", FAST))
    (line,) = found.values()
    assert line == (
        "To try: keep freed memory: up to 1.00 ms of a step of numpy. Do: start the program with MALLOC_MMAP_MAX_=0 "
        "MALLOC_TRIM_THRESHOLD_=68719476736, or give each step the same buffers. Measure: python -m macro explain "
        "fcn-r numpy numpy --heap default,keep"
    )
    assert not told(side("numpy", [*FAST, "nothing"], heap="keep", more=(CLEARS,)), side("jax", FAST))


def test_the_side_that_has_more_is_meant() -> None:
    found = told(side("numpy", FAST), side("pytorch", [*FAST, "nothing", "nothing"], more=(PYTHON, DEFAULT)))
    assert set(found) == {"fewer calls from Python", "MKL's vendor check"}
    assert "of a step of pytorch" in found["MKL's vendor check"] and "LD_PRELOAD" in found["MKL's vendor check"]


def test_equal_steps_have_no_remedy() -> None:
    assert not told(side("numpy", FAST), side("jax", FAST))


@pytest.mark.parametrize("remedy", REMEDIES, ids=lambda one: one.name)
def test_each_command_is_one_of_the_suite(remedy: Remedy) -> None:
    words = shlex.split(remedy.command.format(net="fcn-r", framework="numpy"))
    _, _, module, *rest = words[words.index("python") :]
    if module == "macro":
        import_module(f"macro.{rest[0]}").request(rest[1:])
    else:
        name = module.removeprefix("micro.")
        meant, options = request(everything.benchmarks()[name], name, rest, raising=True)
        assert planned(meant, name, options).contests
