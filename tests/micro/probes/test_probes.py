"""What the probes compute and understand, on stand-ins: a GPU is asked once, and no time is lost on a slip."""

from __future__ import annotations

import ctypes
import json
import math
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from kernels import libs
from kernels.errors import Unavailable
from kernels.libs import convolutions, cuda, cudnn, cudnn_frontend, cupti
from micro.probes import cublas_layouts, frontend_engines, frontend_plans, injection, skcuda_blas, trace_cupy, transfers
from micro.probing import accuracy, algorithms, clock, processes, programs, tracing
from micro.probing import facts as probing_facts
from tests.simulated import fake_frontend, stand_in, stand_in_cudnn


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A machine on which everything is here, and answers at once."""
    monkeypatch.setattr(cuda, "missing", lambda: None)
    monkeypatch.setattr(probing_facts, "present", lambda name: True)
    monkeypatch.setattr(clock, "warm", lambda cp: None)
    for made in (stand_in.cupy(), stand_in_cudnn.cudnn(), stand_in.cupti()):
        monkeypatch.setitem(sys.modules, made.__name__, made)
    monkeypatch.setitem(sys.modules, "cupti", stand_in.module("cupti"))
    monkeypatch.setattr(convolutions, "SMALL", (convolutions.Shape(2, 3, 6, 4, 3), convolutions.Shape(2, 3, 6, 4, 5)))
    stand_in.cupti_kernels.clear()
    return monkeypatch


def faults(found: dict[str, Any]) -> dict[str, str]:
    return {key: x["error"] for key, x in found.items() if isinstance(x, dict) and "error" in x}


@pytest.mark.parametrize("shape", convolutions.SMALL, ids=lambda shape: shape.name)
def test_a_convolution_in_double_precision(shape: convolutions.Shape) -> None:
    """One image and filter by SciPy; both gradients are what the scalar product says they are."""
    from scipy import signal  # a second, in each process that collects these tests

    given = convolutions.operands(shape)
    y = convolutions.reference("y", shape, given)
    want = sum(
        signal.correlate(given["x"][1, c].astype("f8"), given["w"][2, c].astype("f8"), "same") for c in range(shape.c)
    )
    assert np.allclose(y[1, 2], want)
    scalar = (y * given["y"]).sum()
    assert np.isclose((convolutions.reference("x", shape, given) * given["x"]).sum(), scalar)
    assert np.isclose((convolutions.reference("w", shape, given) * given["w"]).sum(), scalar)


def test_an_error_names_its_arithmetic() -> None:
    want = np.random.default_rng(1).standard_normal(10_000)
    single, half = want.astype(np.float32), want.astype(np.float16)
    assert accuracy.precision(accuracy.error(single, want)["l2"]) == "fp32"
    assert accuracy.precision(accuracy.error(half, want)["l2"]) == "tf32"  # both have ten bits
    assert accuracy.precision(accuracy.error(0 * want, want)["l2"]) == "wrong"
    unwritten = want.copy()
    unwritten[5] = math.nan
    assert accuracy.precision(accuracy.error(unwritten, want)["l2"]) == "wrong"


def test_a_row_of_cudnn_is_48_bytes() -> None:
    places = {name: getattr(cudnn.Perf, name).offset for name in ("time", "memory", "mathType", "reserved")}
    assert ctypes.sizeof(cudnn.Perf) == 48
    assert places == {"time": 8, "memory": 16, "mathType": 28, "reserved": 32}


@pytest.mark.parametrize("name", cudnn.DIRECTIONS)
def test_named_algorithms(gpu: Any, name: str) -> None:
    library = stand_in_cudnn.Library()
    gpu.setattr(cudnn, "load", lambda: library)
    gpu.setattr(algorithms, "CAPS", {"0": 0, "8 KiB": 8 << 10})
    found = algorithms.ask(name)
    direction = cudnn.DIRECTIONS[name]
    right = found[f"{direction.algorithms[1]}, fma, {convolutions.SMALL[1].name}"]
    assert right["like"] == "fp32" and right["workspace"] == 4096
    assert (
        found[f"found within 8 KiB, default, {convolutions.SMALL[0].name}"][0]["algorithm"] == direction.algorithms[1]
    )
    told = set(faults(found).values())
    assert all("answers 3000: CUDNN_STATUS_NOT_SUPPORTED in plain words" in text for text in told)
    assert len(faults(found)) == (4 if len(direction.algorithms) > 6 else 0)
    counts = dict(library.calls)  # as cudnn_cnn.h has them
    assert counts[direction.run] == counts[direction.find] == 13
    assert counts[direction.size] == 7
    assert counts[direction.guess] == 8
    assert counts["cudnnSetConvolution2dDescriptor"] == 9


def test_cudnn_without_a_device_is_unavailable() -> None:
    with pytest.raises(Unavailable, match=r"cudnnCreate answers 1001: \w+ in plain words"):
        cudnn.open_handle(stand_in_cudnn.Library(created=1001))


def test_plans(gpu: Any) -> None:
    found = frontend_plans.ask()
    assert not faults(found)
    assert found["plans B, dgrad, " + convolutions.LAYER.name] == ["eng3_k11=2", "eng0"]
    strict = found[f"built A, strict, wgrad, {convolutions.SMALL[0].name}"]
    assert strict[0] == {"plan": "eng38_k2=0_k13=2", "not": "Deselecting execution plan"}
    assert strict[2] == {"plan": "eng0", "workspace": 0, "notes": []}
    every = found[f"built A, any, wgrad, {convolutions.SMALL[0].name}"]
    assert every[0] == {"plan": "eng38_k2=0_k13=2", "workspace": 64, "notes": ["RUNTIME_COMPILATION"]}
    assert [cudnn_frontend.number(x) for x in ("eng38_k2=0", "eng4", "other")] == [38, 4, -1]


def test_engines(gpu: Any) -> None:
    found = frontend_engines.ask()
    for op in cudnn_frontend.READS:
        row = found[f"{op}, eng{frontend_engines.FIRST[op][0]}, {convolutions.SMALL[0].name}"]
        assert row["like"] == "fp32"
        assert row["kernels"] == [f"kernel of eng{frontend_engines.FIRST[op][0]}"]
    refused = faults(found)
    every = len(convolutions.SMALL) * sum(fake_frontend.COUNT.values())
    assert len(refused) == every - len(convolutions.SMALL) * len(cudnn_frontend.READS) * len(fake_frontend.NOTES)
    assert all(len(text) < 250 for text in refused.values())
    assert all(text.endswith("CUDNN_STATUS_NOT_SUPPORTED") for text in refused.values())


def test_layouts(gpu: Any) -> None:
    gpu.setattr(cublas_layouts, "SHAPES", ((33, 65, 17),))
    gpu.setattr(cuda, "load", lambda name: stand_in.Blas())
    found = cublas_layouts.ask()
    assert not faults(found)
    products = [x for key, x in found.items() if key.startswith("(33")]
    assert len(products) == 4 * 2 * 3 + 2
    assert {x.get("like", "fp32") for x in products} == {"fp32"}
    assert found["(33, 65, 17) geam of B"]["right"]


def test_products_of_scikit_cuda(gpu: Any) -> None:
    adapter: Any = stand_in.module("kernels.libs.skcuda")
    adapter.load = stand_in.Skcuda
    gpu.setitem(sys.modules, adapter.__name__, adapter)
    gpu.setattr(libs, "skcuda", adapter, raising=False)
    found = skcuda_blas.ask()
    assert not faults(found) and found["geam"]["right"]
    assert all(accuracy.precision(found[flags]["l2"]) == "fp32" for flags in ("nn", "nt", "tn", "tt"))


def test_transfers(gpu: Any) -> None:
    gpu.setattr(transfers, "SIZES", (1024, 4096))
    gpu.setattr(transfers, "SHARE", 1e-6)
    found = transfers.ask()
    assert set(faults(found)) <= {"link, idle", "link, busy"}  # no driver to ask
    assert all(set(found[kind]) == {"1024", "4096"} for kind in transfers.KINDS)
    assert set(found["both ways, pinned"]) == {"H2D", "D2H", "together"}
    assert not sys.modules["cupy"].cuda.runtime.blocks and not sys.modules["cupy"].cuda.runtime.registered


def test_a_trace(gpu: Any) -> None:
    gpu.setattr(tracing, "overhead", lambda launch, wait: launch())
    assert not faults(trace_cupy.ask())
    rows = tracing.summary([("a", 1000), ("b", 5000), ("a", 2000)])
    assert rows["count"] == 3
    assert rows["kernels"] == [{"kernel": "b", "count": 1, "us": 5.0}, {"kernel": "a", "count": 2, "us": 3.0}]
    maps = "7f-8f r-xp 0 08:01 12  /x y/libcupti.so.13\n7f-8f r-xp 0 08:01 12  /x y/libcupti.so.13\n7f rw-p 0 0 0\n"
    assert cupti.mapped("cupti", maps) == ["/x y/libcupti.so.13"]


@pytest.mark.parametrize("new", [True, False], ids=["2.9", "before"])
def test_how_torch_rounds_is_asked_by_the_switches_it_has(new: bool) -> None:
    """Since 2.9 the older ones warn, and raise where both kinds were set."""
    if new:
        cudnn_switches = SimpleNamespace(conv=SimpleNamespace(fp32_precision="tf32"))
        matmul = SimpleNamespace(fp32_precision="ieee")
    else:
        cudnn_switches, matmul = SimpleNamespace(allow_tf32=True), SimpleNamespace(allow_tf32=False)
    backends = SimpleNamespace(cudnn=cudnn_switches, cuda=SimpleNamespace(matmul=matmul))
    told = programs.rounding(SimpleNamespace(backends=backends))
    assert (told["convolutions"], told["products"]) == (("tf32", "ieee") if new else (True, False))


def test_what_the_injected_library_writes() -> None:
    assert injection.lines("1200 void f<int>(int *)\n80\nx y\n7 g\n") == [("void f<int>(int *)", 1200), ("g", 7)]


def test_the_injected_library_compiles(tmp_path: Path) -> None:
    if not injection.homes():
        pytest.skip("no CUPTI headers")
    injection.compile_to(tmp_path / "injection.so")
    ran = subprocess.run(["nm", "-D", tmp_path / "injection.so"], capture_output=True, text=True, check=True)
    assert " T InitializeInjection" in ran.stdout


def test_facts_are_json(monkeypatch: pytest.MonkeyPatch) -> None:
    odd = {1: math.nan, "x": np.float32(2.5), "y": (np.int64(3), None, math.inf), "z": b"q", "n": np.array([7])}
    assert probing_facts.plain(odd) == {"1": "nan", "x": 2.5, "y": [3, None, "inf"], "z": "b'q'", "n": 7}
    facts = probing_facts.Facts()
    facts.ask("no", lambda: 1 // 0)
    facts.ask("not here", lambda: probing_facts.package("not_here_at_all"))
    assert facts.found["no"] == {"error": "ZeroDivisionError: integer division or modulo by zero"}
    assert facts.found["not here"]["error"].startswith("unavailable: ModuleNotFoundError")


def test_a_long_answer_loses_its_largest_facts() -> None:
    answer = {"a": "x" * 5000, "b": 1, "c": ["y"] * 100}
    assert probing_facts.fit(answer, 10_000) == answer
    assert probing_facts.fit(answer, 1000) == {**answer, "a": "left out: 5002 bytes"}
    assert len(json.dumps(probing_facts.fit({str(i): i for i in range(10_000)}, 1000))) < 1000


def test_a_program_of_its_own_says_how_it_ended() -> None:
    with pytest.raises(Exception, match=r"no-such: exit code 1, KeyError: 'no-such'"):
        processes.inside("no-such", seconds=20)
    assert (processes.end(-9), processes.end(3)) == ("killed by SIGKILL", "exit code 3")


def test_a_process_ends_with_its_parent() -> None:
    """Also one whose parent has gone before it could ask for it."""
    code = f"from micro.probing import processes; processes.die_with({os.getpid()}); print('here')"
    ran = subprocess.run([sys.executable, "-c", code], cwd=processes.ROOT, capture_output=True, text=True, check=False)
    assert ran.stdout == "here\n"
    code = code.replace(str(os.getpid()), "1")
    ran = subprocess.run([sys.executable, "-c", code], cwd=processes.ROOT, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (1, "")
