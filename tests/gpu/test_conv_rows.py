"""Rows of convolutions on device "cuda", from prepare to a checked answer, on a GPU or on the fake CuPy."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from typing import Any

import pytest

from kernels.catalog import find
from kernels.devices.cuda import Cuda
from kernels.errors import LaunchError, Unavailable, UsageError, WrongResult
from kernels.ops.conv import cudnn_rows
from kernels.ops.conv.problem import Conv
from kernels.ops.conv.shape import PASSES
from kernels.ops.fft import Fft
from kernels.setting import Setting
from kernels.variant import Variant
from tests.gpu.conftest import REAL, missing
from tests.gpu.rows import once, rows, tried, tries
from tests.simulated import fake_frontend

SIZES: tuple[dict[str, Any], ...] = (
    {"n": 2, "c": 3, "h": 9, "w": 7, "k": 5, "pad": 1},
    {"n": 1, "c": 4, "h": 13, "w": 12, "k": 6, "r": 5, "s": 4, "pad": 2},
    {"n": 3, "c": 2, "h": 11, "w": 11, "k": 4, "r": 3, "s": 3, "stride": 2},
    {"n": 2, "c": 4, "h": 8, "w": 9, "k": 6, "pad": 1, "groups": 2, "dilation": 2},
    {"n": 1, "c": 1, "h": 1, "w": 1, "k": 1, "r": 1, "s": 1},
    {"n": 2, "c": 3, "h": 6, "w": 5, "k": 2, "pad_top": 1, "pad_right": 2},
)
LYING = ("nchw", "nhwc")
# Those of which some have to run on every GPU that cuDNN 9 runs on.
ALWAYS = ("cufft", *(f"cudnn-{name}" for name in ("implicit-gemm", "algo-0", "algo-1", "guessed", "find")))
CONVS = [Conv(**size, direction=x, layout=y) for size, x, y in itertools.product(SIZES, PASSES, LYING)]


@pytest.mark.parametrize(("row", "problems"), rows("conv", CONVS))
def test_convolutions(device: Cuda, row: Variant[Any], problems: list[Conv]) -> None:
    if reason := missing(row):
        pytest.skip(reason)
    refused = []
    for problem in problems:
        try:
            once(device, row, problem)
        except Unavailable as reason:
            refused.append(str(reason))
    every = len(refused) == len(problems)
    if not REAL:
        assert every is (row.name == "cudnn-winograd"), refused
    elif every and row.name not in ALWAYS:  # which algorithms a library still has for these is its affair
        pytest.skip(refused[0])
    assert not (every and row.name in ALWAYS), refused


TRANSFORMS = [Fft(*size, way) for size in ((2, 3, 4), (5, 8, 9), (3, 16, 10)) for way in ("r2c", "c2r")]


@pytest.mark.parametrize(("row", "problems"), tries("fft", *TRANSFORMS))
def test_transforms(device: Cuda, row: Variant[Any], problems: list[Fft]) -> None:
    tried(device, row, problems)


@pytest.mark.skipif(REAL, reason="what there is room for is the card's affair")
@pytest.mark.parametrize("name", ["cuda-im2col", "cuda-winograd-4x3", "cufft", "cudnn-gemm", "cudnn-engine:3"])
def test_the_workspace_that_is_named_is_enough(device: Cuda, name: str) -> None:
    """And a byte less is not."""
    problem, named = Conv(2, 3, 9, 7, 5, pad=1), r"--workspace (\d+)$"
    with pytest.raises(Unavailable, match=named) as told:
        find("conv", name).prepare(problem, device, Setting(device=device.name, workspace=1))
    enough = int(re.findall(named, str(told.value))[0])
    buffers = [device.view(device.allocate(x.nbytes), 0, x) for x in problem.operands()]
    setting = Setting(device=device.name, workspace=enough)
    assert find("conv", name).prepare(problem, device, setting)(buffers).workspace == enough
    with pytest.raises(Unavailable, match=named):
        find("conv", name).prepare(problem, device, replace(setting, workspace=enough - 1))


@pytest.mark.skipif(REAL, reason="which one it takes is the library's affair")
@pytest.mark.parametrize(("workspace", "algorithm"), [(None, 1), (4096, 1), (4095, 0)])
@pytest.mark.parametrize("name", ["cudnn-guessed", "cudnn-find", "cudnn-find:default"])
def test_a_choice_keeps_to_the_workspace(device: Cuda, name: str, workspace: int | None, algorithm: int) -> None:
    problem = Conv(**SIZES[0])
    setting = Setting(device=device.name, workspace=workspace)
    library: Any = device.dnn().api
    bind = find("conv", name).prepare(problem, device, setting)
    buffers = [device.view(device.allocate(x.nbytes), 0, x) for x in problem.operands()]
    launch = bind(buffers)
    launch.call()
    device.sync()
    assert library.ran[-1] == ("forward", algorithm, 0 if name.endswith("default") else 3)
    assert launch.workspace == (4096 if algorithm else 0)
    told = {0: "IMPLICIT_GEMM", 1: "IMPLICIT_PRECOMP_GEMM"}[algorithm]
    assert launch.kernel == (f"cuDNN 9.19.0, {told}", None)


@pytest.mark.parametrize(("r", "math", "names"), [(3, "fma", 1), (5, "fma", 0), (5, "default", 1)])
def test_a_choice_leaves_out_tiles_that_no_bound_judges(r: int, math: str, names: int) -> None:
    """In single precision, and whatever rounds more coarsely than was asked for."""
    problem = Conv(1, 4, 9, 9, 4, r, r, pad=r // 2)
    told = [
        {"algorithm": "IMPLICIT_GEMM", "status": 3000, "workspace": 0, "math": "fma"},
        {"algorithm": "FFT", "status": 0, "workspace": 0, "math": "fma" if math == "default" else "default"},
        {"algorithm": 17, "status": 0, "workspace": 0, "math": math},
        {"algorithm": "WINOGRAD_NONFUSED", "status": 0, "workspace": 10, "math": math},
        {"algorithm": "GEMM", "status": 0, "workspace": 9, "math": math},
    ]
    first = "FFT" if math == "default" else "WINOGRAD_NONFUSED" if names else "GEMM"
    assert cudnn_rows._first(told, problem, math, 10)["algorithm"] == first
    assert cudnn_rows._first(told[3:], problem, math, 9)["algorithm"] == "GEMM"
    with pytest.raises(Unavailable, match="no algorithm that fits 8 bytes"):
        cudnn_rows._first(told[2:], problem, math, 8)


@pytest.mark.skipif(REAL, reason="which engines there are is the library's affair")
@pytest.mark.parametrize("direction", PASSES)
@pytest.mark.parametrize(
    ("name", "workspace", "plan"),
    [
        ("cudnn-engine:3", None, "eng3"),
        ("cudnn-engine:38:tf32", None, "eng38"),
        ("cudnn-plan:a", None, "eng3_k11=2"),  # the first rounds factors
        ("cudnn-plan:a", 8191, "eng0"),
        ("cudnn-plan:a:tf32", None, "eng38_k2=0_k13=2"),
        ("cudnn-plan:a:2", None, "eng0"),
        ("cudnn-plan:fallback", 0, "eng0"),
    ],
)
def test_a_plan_is_what_was_asked_for(
    device: Cuda, name: str, workspace: int | None, plan: str, direction: str
) -> None:
    for layout, size in itertools.product(LYING, SIZES[:4]):
        problem = Conv(**size, direction=direction, layout=layout)
        launch = once(device, find("conv", name), problem, workspace=workspace)
        assert launch.kernel == (f"cuDNN 9.19.0, {plan}", None)
        assert launch.workspace == fake_frontend.SPACE[int(plan.partition("_")[0].removeprefix("eng"))]


@pytest.mark.skipif(REAL, reason="which engines there are is the library's affair")
@pytest.mark.parametrize(
    ("name", "edge", "why"),
    [
        ("cudnn-engine:2", 3, "CUDNN_STATUS_NOT_SUPPORTED"),
        ("cudnn-engine:38", 3, "Deselecting execution plan (excluded by numerical notes: rounded factors"),
        ("cudnn-engine:22:tf32", 3, "Deselecting execution plan"),  # half precision
        ("cudnn-engine:81", 3, "this cuDNN release has only engines 0 to 80 for this problem"),
        ("cudnn-engine:6:tf32", 5, "Deselecting execution plan"),  # tiles of 13 × 13
        ("cudnn-plan:a:7", 3, "cuDNN ranks only 3 plans for this problem in mode A"),
        ("cudnn-plan:b:0", 3, "needs 8192 bytes of workspace: --workspace 8192"),
    ],
)
def test_a_plan_that_is_not_taken_is_a_reason(device: Cuda, name: str, edge: int, why: str) -> None:
    setting = Setting(device=device.name, workspace=4096)
    with pytest.raises(Unavailable, match=re.escape(why)):
        find("conv", name).prepare(Conv(1, 2, 9, 9, 2, edge, edge, pad=edge // 2), device, setting)


@pytest.mark.skipif(REAL, reason="a real one does not refuse on demand")
def test_of_what_is_ranked_the_first_that_runs_is_taken(device: Cuda, monkeypatch: pytest.MonkeyPatch) -> None:
    def execute(self: Any, places: Any, space: int, index: int, handle: int) -> None:
        if self.plans[index].startswith("eng3_"):
            raise fake_frontend.NotSupported("CUDNN_STATUS_NOT_SUPPORTED")
        run(self, places, space, index, handle)

    run = fake_frontend.Pygraph.execute_plan_at_index
    monkeypatch.setattr(fake_frontend.Pygraph, "execute_plan_at_index", execute)
    assert once(device, find("conv", "cudnn-plan:a"), Conv(**SIZES[0])).kernel == ("cuDNN 9.19.0, eng0", None)


@pytest.mark.skipif(REAL, reason="a real one says what it rounds")
@pytest.mark.parametrize("engine", [22, 38])
def test_rounded_factors_are_no_single_precision(device: Cuda, monkeypatch: pytest.MonkeyPatch, engine: int) -> None:
    """Also where its notes do not say so."""
    monkeypatch.setitem(fake_frontend.NOTES, engine, set())
    with pytest.raises(WrongResult):
        once(device, find("conv", f"cudnn-engine:{engine}"), Conv(2, 8, 9, 9, 8, pad=1))


@pytest.mark.skipif(REAL, reason="a real one does not break on demand")
@pytest.mark.parametrize(
    ("method", "error", "kind"),
    [
        ("create_execution_plans", "No valid engine configs for ConvFwd_", Unavailable),  # the heuristic ranks nothing
        ("execute_plan_at_index", "CUDNN_STATUS_EXECUTION_FAILED", LaunchError),
    ],
)
def test_what_the_frontend_raises_is_told(
    device: Cuda, monkeypatch: pytest.MonkeyPatch, method: str, error: str, kind: type[Exception]
) -> None:
    def raises(*given: object, **more: object) -> None:
        raise RuntimeError(error)

    monkeypatch.setattr(fake_frontend.Pygraph, method, raises)
    with pytest.raises(kind, match=error):
        find("conv", "cudnn-plan:a").prepare(Conv(**SIZES[0]), device, Setting(device=device.name))


@pytest.mark.parametrize(
    "name", ["cudnn-engine:", "cudnn-engine:x", "cudnn-engine:3:fp16", "cudnn-plan:", "cudnn-plan:c", "cudnn-plan:a:x"]
)
def test_no_plan_by_such_a_name(name: str) -> None:
    with pytest.raises(UsageError, match=f"--variant {name}: write .* after the colon"):
        find("conv", name)


@pytest.mark.skipif(REAL, reason="how much it asks for is the library's affair")
def test_an_algorithm_that_asks_for_more_than_the_workspace_is_not_run(device: Cuda) -> None:
    setting = Setting(device=device.name, workspace=100)
    with pytest.raises(Unavailable, match="needs 8192 bytes of workspace: --workspace 8192"):
        find("conv", "cudnn-gemm").prepare(Conv(**SIZES[0]), device, setting)
