"""Rows of Numba on a GPU: what is compiled and how often, what is warned of, and what a missing toolkit is called."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterator
from math import prod
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from kernels import nvcc
from kernels.catalog import find
from kernels.devices.cuda import Cuda
from kernels.errors import Unavailable
from kernels.launch import Launch
from kernels.libs import numba
from kernels.ops.gemm import Gemm, gpu
from kernels.ops.launch import Calls
from kernels.ops.launch import gpu as rungs
from kernels.problem import Problem
from kernels.setting import Setting
from micro.worker import guards
from tests.simulated.fake_arrays import DeviceArray
from tests.simulated.fake_cupy import FakeCupy
from tests.simulated.fake_cupy_objects import STREAM

FEW = 128  # blocks, below which it warns


class NumbaPerformanceWarning(Warning):
    pass


class FakeNumba:
    """Behind the modules `numba` and `numba.cuda`. `refuses` is what the import, `fails` what a compilation raises."""

    def __init__(self, fake: FakeCupy) -> None:
        self.fake = fake
        self.refuses: Exception | None = None
        self.fails: Exception | None = None
        self.jitted: list[str] = []
        self.compiled: list[tuple[str, str]] = []  # kernels, each with the layouts of its arrays
        self.warns = True

    def package(self) -> ModuleType:
        made: Any = ModuleType("numba")
        made.njit, made.float32, made.__version__ = lambda function: function, np.float32, "0"
        return made  # type: ignore[no-any-return]

    def import_module(self, name: str) -> Any:
        """It reads the environment when it is imported, and never again."""
        assert name == "numba.cuda"
        if self.refuses:
            raise self.refuses
        self.warns = os.environ.get("NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS", "1") != "0"
        return self

    def external_stream(self, place: int) -> int:
        assert place == STREAM
        return place

    def as_cuda_array(self, array: Any) -> Any:
        return array

    def jit(self, function: Callable[..., None]) -> Dispatcher:
        self.jitted.append(function.__name__)
        return Dispatcher(self, function.__name__)


class Dispatcher:
    """A kernel, which is compiled for the layouts it is called with, once each."""

    def __init__(self, numba: FakeNumba, name: str) -> None:
        self.numba, self.name = numba, name
        self.known: set[str] = set()

    def __getitem__(self, how: tuple[Any, ...]) -> Callable[..., None]:
        blocks, _, stream = how
        assert stream == STREAM
        size = prod(np.atleast_1d(blocks).tolist())
        if self.numba.warns and size < FEW:
            told = f"Grid size {size} will likely result in GPU under-utilization due to low occupancy."
            warnings.warn(told, NumbaPerformanceWarning, stacklevel=2)
        return lambda *arguments: self.launch(arguments)

    def launch(self, arguments: tuple[Any, ...]) -> None:
        layouts = "".join(layout(x) for x in arguments if isinstance(x, DeviceArray))
        if layouts not in self.known:
            if self.numba.fails:
                raise self.numba.fails
            self.known.add(layouts)
            self.numba.compiled.append((self.name, layouts))
        self.numba.fake.launch(self.name, 1e-6)


def layout(array: DeviceArray) -> str:
    """Rows one after another, columns, or neither."""
    return "C" if array.flags.c_contiguous else "F" if array.flags.f_contiguous else "A"


PRODUCT, RUNG = ("numba-cuda-tiled", Gemm(33, 65, 17)), ("numba-cuda", Calls("gemm", 3))
ROWS = pytest.mark.parametrize(("name", "problem"), [PRODUCT, RUNG], ids=["product", "rung"])
CACHES = (gpu.kernels, rungs._jitted)


@pytest.fixture
def cp() -> FakeCupy:
    return FakeCupy()


@pytest.fixture
def device(cp: FakeCupy) -> Cuda:
    return Cuda(0, cp)


@pytest.fixture
def fake(cp: FakeCupy, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeNumba]:
    """In a process whose environment says nothing, and that has jitted nothing yet."""
    for name in (numba.QUIET, "CUDA_HOME", "CUDA_PATH"):
        monkeypatch.setenv(name, "")  # so that what is set is taken back, too
        monkeypatch.delenv(name)
    made = FakeNumba(cp)
    monkeypatch.setitem(sys.modules, "numba", made.package())
    monkeypatch.setattr(numba, "importlib", SimpleNamespace(import_module=made.import_module))
    for cache in CACHES:
        cache.cache_clear()
    yield made
    for cache in CACHES:
        cache.cache_clear()


def bound(device: Cuda, name: str, problem: Problem) -> Launch:
    """Prepared and bound as the suite does it."""
    row = find(problem.op, name)
    bench = guards.Bench(device, problem)
    return row.prepare(problem, device, Setting(device=device.name))(bench.views)


@ROWS
def test_a_small_grid_is_no_warning(device: Cuda, fake: FakeNumba, name: str, problem: Problem) -> None:
    """pytest makes errors of warnings, and numba warns of each grid below 128 blocks if it is not told before."""
    bound(device, name, problem)
    assert not fake.warns


@ROWS
def test_what_the_user_set_stays(
    device: Cuda, fake: FakeNumba, monkeypatch: pytest.MonkeyPatch, name: str, problem: Problem
) -> None:
    monkeypatch.setenv(numba.QUIET, "1")
    with pytest.warns(Warning, match=r"Grid size \d+ will likely"):
        bound(device, name, problem)


def test_a_kernel_is_jitted_once_and_compiled_once_a_layout(device: Cuda, fake: FakeNumba) -> None:
    """However many problems are prepared, bound and launched."""
    for m in (5, 33, 70):
        for trans in ("nn", "tt"):
            bound(device, "numba-cuda-tiled", Gemm(m, 65, 17, trans)).call()
    assert sorted(fake.jitted) == ["sgemm_naive", "sgemm_tiled"]
    assert sorted(fake.compiled) == [("sgemm_tiled", "CCC"), ("sgemm_tiled", "FFC")]
    for chain in (1, 2, 3):
        bound(device, "numba-cuda", Calls("empty", chain)).call()
    assert fake.jitted[2:] == ["empty"]
    assert fake.compiled[2:] == [("empty", "C")]


@pytest.mark.parametrize("pad", [0, 3])
@pytest.mark.parametrize("trans", ["nn", "nt", "tn", "tt"])
def test_it_is_compiled_before_it_is_bound(device: Cuda, fake: FakeNumba, trans: str, pad: int) -> None:
    """The first launch at a placement is as the second."""
    problem = Gemm(33, 65, 17, trans, ld_pad=pad)
    bind = find("gemm", "numba-cuda-naive").prepare(problem, device, Setting(device=device.name))
    known = list(fake.compiled)
    assert known
    bind(guards.Bench(device, problem).views).call()
    assert fake.compiled == known


@ROWS
def test_to_bind_enqueues_nothing(device: Cuda, cp: FakeCupy, fake: FakeNumba, name: str, problem: Problem) -> None:
    """A kernel that has run before it is launched has an answer before it is checked."""
    bind = find(problem.op, name).prepare(problem, device, Setting(device=device.name))
    bench = guards.Bench(device, problem)
    device.sync()
    cp.journal.clear()
    launch = bind(bench.views)
    assert not cp.journal
    launch.call()
    assert len(cp.journal) == launch.kernels == launch.uses


class NvvmSupportError(ImportError):
    """As numba's."""


SKIPPED: list[tuple[str, Exception, str]] = [
    *(
        ("refuses", error, r"imported \(.*\): set CUDA_HOME")
        for error in (RuntimeError("driver too old"), ImportError("half of it"), AttributeError("no _core"))
    ),
    *(
        ("fails", error, r"compile \([^\n]+\): set CUDA_HOME to a CUDA toolkit")
        for error in (
            NvvmSupportError("libNVVM cannot be found.\nDo `conda install`"),
            FileNotFoundError(2, "No such file or directory", "libdevice.10.bc"),
            RuntimeError("Missing libdevice file.\nPlease ensure you have a CUDA Toolkit"),
        )
    ),
    (
        "fails",
        AttributeError("module 'numpy' has no attribute 'in1d'"),
        r"compile \(.*'in1d'\): pip install --upgrade numba-cuda, or an older NumPy$",
    ),
]


@ROWS
@pytest.mark.parametrize(("when", "error", "reason"), SKIPPED)
def test_a_toolkit_in_part_is_a_row_that_is_skipped(
    device: Cuda, fake: FakeNumba, name: str, problem: Problem, when: str, error: Exception, reason: str
) -> None:
    """While it is prepared: a reason that is one line and names the remedy."""
    setattr(fake, when, error)
    with pytest.raises(Unavailable, match=f"^numba.cuda cannot (be )?{reason}"):
        find(problem.op, name).prepare(problem, device, Setting(device=device.name))


def test_what_numpy_has_no_more_and_numba_cuda_names_is_there(fake: FakeNumba, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(np, "row_stack", raising=False)
    numba.cuda()
    assert vars(np)["row_stack"] is np.vstack


def test_a_fault_of_the_kernel_stays_one(device: Cuda, fake: FakeNumba) -> None:
    class TypingError(Exception):
        pass

    fake.fails = TypingError("cannot type it")
    with pytest.raises(TypingError):
        bound(device, *PRODUCT)


def toolkit(folder: Path) -> Path:
    """A toolkit, and the path of its nvcc."""
    (folder / "nvvm").mkdir(parents=True)
    (folder / "bin").mkdir()
    program = folder / "bin" / "nvcc"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    return program


def test_numba_is_told_where_the_toolkit_is(fake: FakeNumba, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It is that of nvcc where it is one, by way of links; else the one where NVIDIA installs it; else none."""
    own, usual = toolkit(tmp_path / "cuda-13.0"), toolkit(tmp_path / "cuda")
    (tmp_path / "bin").mkdir()
    link, script = tmp_path / "bin" / "nvcc", tmp_path / "bin" / "nvcc.sh"
    link.symlink_to(own)
    (tmp_path / "same").symlink_to(own.parents[1])
    named = tmp_path / "same" / "bin" / "nvcc"  # nvcc is then found under this name again: no other key of its cubins
    script.write_text("#!/bin/sh\n")
    monkeypatch.setattr(nvcc, "TOOLKIT", usual)
    homes = {link: own.parents[1], named: tmp_path / "same", script: usual.parents[1], None: usual.parents[1]}
    for found, home in homes.items():
        monkeypatch.delenv("CUDA_HOME", raising=False)
        monkeypatch.setattr(nvcc, "find", lambda found=found: found)
        numba.cuda()
        assert os.environ["CUDA_HOME"] == str(home)
    monkeypatch.delenv("CUDA_HOME")
    monkeypatch.setattr(nvcc, "TOOLKIT", tmp_path / "none" / "bin" / "nvcc")
    numba.cuda()
    assert "CUDA_HOME" not in os.environ


@pytest.mark.parametrize("name", ["CUDA_HOME", "CUDA_PATH"])
def test_a_toolkit_that_the_user_names_is_the_one(
    fake: FakeNumba, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    monkeypatch.setattr(nvcc, "TOOLKIT", toolkit(tmp_path))
    monkeypatch.setenv(name, "/mine")
    numba.cuda()
    assert {x: os.environ.get(x) for x in ("CUDA_HOME", "CUDA_PATH")} == {
        "CUDA_HOME": None,
        "CUDA_PATH": None,
        name: "/mine",
    }
