"""What a call costs: the plan, reasons for what is missing, the command on the fake device."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from kernels.catalog import find
from kernels.devices import open_device
from kernels.errors import Unavailable, UsageError
from kernels.libs import cffi, numba, torch
from kernels.ops.launch import libraries
from kernels.ops.launch.problem import Calls
from kernels.setting import Setting
from micro import launch
from micro.planning.benchmark import NothingWritten, Request
from tests.conftest import Ran
from tests.micro.plans import contests

CPU = open_device("cpu")
KERNELS = ("gemm", "empty")


def asked(given: tuple[str, ...] = (), rungs: tuple[str, ...] = (), **axes: Any) -> Request:
    more = ("variant",) if rungs else ()
    sweep = launch.BENCHMARK.sweep | axes
    return Request("launch", sweep, rungs, (Setting(),), frozenset(), frozenset((*given, *axes, *more)))


def pretend(monkeypatch: pytest.MonkeyPatch, *missing: str) -> None:
    """As if these packages were not installed, and all others were."""
    known = importlib.util.find_spec
    found = importlib.util.find_spec("json")
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name: None if name in missing else found if name in ("cffi", "numba", "torch") else known(name),
    )


# The plan


def test_a_gpus_own_clock_is_asked_of_a_stream_and_of_a_graph() -> None:
    every = contests("launch", "--gaps", "--device", "fake:cuda")
    assert [[case.variant for case in x.cases] for x in every] == [["cuda-c", "cuda-graph"]] * 2
    assert not any(case.problem.on_host or case.skip for x in every for case in x.cases)
    other = find("launch", "cupy-kernel")
    assert (
        "--clock caller" in str(other.accepts(Calls("empty", 1, "device"))) and other.accepts(Calls("empty", 1)) is None
    )
    with pytest.raises(NothingWritten):
        contests("launch", "--gaps")


def test_axes_and_rungs_that_are_named_are_kept_to() -> None:
    found = launch.ladder(asked(rungs=("ctypes", "c"), kernel=("gemm",), chain=(2, 8)))
    assert [contest.name for contest in found] == [
        "ladder/launch/kernel:gemm/chain:2",
        "ladder/launch/kernel:gemm/chain:8",
        "floor/nothing",
        "floor/nothing-python",
        "chain/kernel:gemm/variant:ctypes",
        "chain/kernel:gemm/variant:c",
    ]
    assert [case.variant for case in found[0].cases] == ["ctypes", "c"]
    assert [case.problem.chain for case in found[-1].cases] == [2, 8]  # type: ignore[attr-defined]
    assert not [x for x in launch.ladder(asked(chain=(1,))) if x.name.startswith("chain/")]


def test_a_call_has_the_same_work_in_every_chain() -> None:
    assert Calls("gemm", 1).flops == Calls("gemm", 64).flops == 1024
    assert Calls("empty", 64).flops == Calls("empty", 64).bytes == 0
    for kernel, chain in (("sgemm", 1), ("gemm", 0)):
        with pytest.raises(UsageError, match=r"--kernel sgemm|--chain 0"):
            Calls(kernel, chain)


# What is not here

OPTIONAL = {"numba": numba, "cffi": cffi, "torch": torch}


@pytest.mark.parametrize("name", OPTIONAL)
def test_a_missing_package_is_one_line(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    pretend(monkeypatch, name)
    case = asked().case(Calls("gemm", 1), name)
    assert case.skip is not None and f"pip install {name}" in case.skip and "\n" not in case.skip
    assert asked().case(Calls("gemm", 1), next(x for x in OPTIONAL if x != name)).skip is None


@pytest.mark.parametrize("name", OPTIONAL)
def test_half_a_package_is_one_line(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Also where its import raises ImportError."""
    for module in (ModuleType(name), *([None] if name != "torch" else [])):
        monkeypatch.setitem(sys.modules, name, module)
        with pytest.raises(Unavailable, match=f"^{name} is installed but cannot be used .*--force-reinstall {name}$"):
            find("launch", name).prepare(Calls("gemm", 1), CPU, Setting())


def test_a_compiler_that_fails_is_one_line(monkeypatch: pytest.MonkeyPatch, own_state: Path) -> None:
    def refuses(*x: Any) -> None:
        raise RuntimeError("InvalidCxxCompiler: none\nand a page more")

    fake = SimpleNamespace(
        compile=lambda body, **how: refuses,
        zeros=lambda shape: None,
        set_num_threads=lambda n: None,
        set_grad_enabled=lambda on: None,
    )
    monkeypatch.setattr(torch, "load", lambda: fake)
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "x")
    monkeypatch.setenv("TORCHINDUCTOR_COMPILE_THREADS", "1")
    with pytest.raises(Unavailable, match=r"^torch.compile cannot compile here \(.*none\): apt-get install g\+\+$"):
        libraries.compiled(Calls("gemm", 1), CPU, Setting())


# The command on the fake device


def test_the_command_tells_the_ladder(command: Callable[..., Ran]) -> None:
    ran = command("launch", "--device", "fake", "-q", "--budget", "6s", "--json", "-")
    assert ran.code == 0
    assert ran.err.startswith(
        "What does one call cost, reached in each way?\n  launch kernel:gemm chain:512, relative to c: "
    )
    document = json.loads(ran.out)
    rows = [x for x in document["results"] if x["role"] == "measured"]
    assert {x["status"] for x in rows} <= {"ok", "contended", "skipped"}
    timed = [x for x in rows if x["seconds"]]
    assert {x["problem"]["kernel"] for x in timed} == set(KERNELS)
    for x in timed:  # what does nothing has a time, and nothing that bounds it
        works = x["problem"]["kernel"] == "gemm"
        assert (x["percent_of_ceiling"] is not None) == (x["ceiling"] is not None) == works
        assert bool(x["flops_per_second"]) == bool(x["bytes_per_second"]) == works
    assert {x["work_ratio"] for x in document["comparisons"]} == {1.0}, "against no work there is no ratio of it"


def test_without_the_optional_packages_their_rungs_are_skipped(
    monkeypatch: pytest.MonkeyPatch, command: Callable[..., Ran]
) -> None:
    pretend(monkeypatch, *OPTIONAL)
    monkeypatch.setattr("kernels.libs.mkl._path", lambda: None)
    ran = command("launch", "--list")
    for name in (*OPTIONAL, "mkl"):
        assert f"variant:{name}/threads:1  skipped: {name} is not installed: pip install {name}" in ran.out
    assert ran.out.count("skipped") == ran.out.count("is not installed")
