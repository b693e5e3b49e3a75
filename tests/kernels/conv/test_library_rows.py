"""Convolutions of PyTorch and oneDNN: right on odd problems, between guards, and named as what really ran."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from kernels.catalog import find
from kernels.devices import open_device
from kernels.devices.cpu import instruction_sets
from kernels.errors import Unavailable, WrongResult
from kernels.launch import Launch
from kernels.libs import onednn
from kernels.libs import torch as torch_library
from kernels.ops.conv import torch as torch_rows
from kernels.ops.conv.problem import Conv, Spread
from kernels.ops.conv.shape import PASSES
from kernels.repeated import repeated
from kernels.setting import Setting
from kernels.variant import Variant
from micro.planning.contest import Case
from micro.worker.client import ask
from micro.worker.messages import Prepare
from micro.worker.process import Worker
from tests.kernels.rows import checked

AROUND = {"pad_top": 1, "pad_left": 1, "pad_bottom": 1, "pad_right": 1}
SIDES = {"pad_top": 0, "pad_left": 1, "pad_bottom": 1, "pad_right": 0}
torch_here = pytest.mark.skipif(torch_library.missing() is not None, reason=str(torch_library.missing()))
onednn_here = pytest.mark.skipif(onednn.missing() is not None, reason=str(onednn.missing()))


def problem(direction: str = "forward", layout: str = "nchw", **fields: int) -> Conv:
    return Conv(**{"n": 2, "c": 6, "h": 9, "w": 8, "k": 10, **fields}, direction=direction, layout=layout)


def bound(row: Variant[Conv], one: Conv) -> Launch:
    """Bind `row` to aligned operands with normally distributed values; skip if the processor lacks the kernel."""
    device = open_device("cpu")
    x = one.fill(np.random.default_rng(1))
    views = []
    for operand in one.operands():
        views.append(device.view(device.allocate(operand.nbytes), 0, operand))
        device.put(views[-1], x[operand.name] if operand.role != "out" else np.full(1, np.nan, "f4"))
    try:
        return row.prepare(one, device, Setting())(views)
    except Unavailable as reason:
        pytest.skip(str(reason))


def work(name: str, one: Conv) -> float:
    return find("conv", name).executed(one).flops


# PyTorch


@torch_here
@pytest.mark.parametrize(
    "layout, direction, reorders", [("nchw", "forward", 3), ("nhwc", "forward", 1), ("nhwc", "dgrad", 1)]
)
def test_torch_names_its_kernel_by_its_log(layout: str, direction: str, reorders: int) -> None:
    """In nhwc the images are taken as they lie: only the filter is reordered."""
    kernel, isa = bound(find("conv", "torch"), problem(direction, layout, c=64, k=64, h=20, w=20, **AROUND)).kernel
    name, _, copies = str(kernel).partition(", ")[2].partition(", ")
    assert name.startswith("oneDNN ") and copies.startswith(f"{reorders} reorder")
    assert isa == onednn.named("", name, 0)[1]


@torch_here
def test_torch_without_onednn_names_its_other_library() -> None:
    """One small image it takes by im2col, which leaves no line in the log."""
    launch = bound(find("conv", "torch"), problem(n=1, c=16, k=16, h=20, w=20, **AROUND))
    assert launch.kernel == torch_library.kernel()


@torch_here
@pytest.mark.parametrize("asked, level", [(None, 0), ("1", 1)])
def test_the_log_is_read_once_and_left_as_it_was(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], asked: str | None, level: int
) -> None:
    import torch

    levels: list[int] = []
    lines = "onednn_verbose,v1,info,cpu\nonednn_verbose,v1,primitive,exec,cpu,reorder,jit:uni,undef\n"
    monkeypatch.setattr(torch._C._verbose, "mkldnn_set_verbose", levels.append)
    if asked is None:
        monkeypatch.delenv("ONEDNN_VERBOSE", raising=False)
    else:
        monkeypatch.setenv("ONEDNN_VERBOSE", asked)
    assert torch_library.executed(torch, lambda: os.write(1, lines.encode())) == [("reorder", "jit:uni")]
    assert levels == [1, level]
    os.write(1, b"after")
    assert capfd.readouterr().out == "after"


@torch_here
def test_the_columns_of_all_images_are_its_workspace() -> None:
    sized = problem(c=3, k=4, r=3, s=2)
    assert bound(find("conv", "torch-im2col"), sized).workspace == 4 * 2 * 3 * 3 * 2 * sized.outputs_of_image
    assert torch_rows.columns_bytes(problem(r=1, s=1)) == 0


@torch_here
@pytest.mark.parametrize("direction", PASSES)
def test_what_converts_runs_the_kernel_of_the_other_layout(direction: str) -> None:
    one = problem(direction, c=64, k=64, h=20, w=20, **AROUND)
    """Its library reorders nothing but the filter then."""
    converting, last, first = (
        bound(find("conv", name), x).kernel
        for name, x in (("torch-relayout", one), ("torch", replace(one, layout="nhwc")), ("torch", one))
    )
    assert converting == last != first
    assert "--layout nchw" in str(find("conv", "torch-relayout").accepts(replace(one, layout="nhwc")))


@torch_here
def test_a_bias_is_added(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ones in its place are seen in every result."""
    import torch

    one, device = problem(**AROUND), open_device("cpu")
    x = one.fill(np.random.default_rng(1))
    results = []
    for fill in (torch.zeros, torch.ones):
        monkeypatch.setattr(torch, "zeros", fill)
        views = [device.view(device.allocate(y.nbytes), 0, y) for y in one.operands()]
        for operand, view in zip(one.operands()[:2], views, strict=False):
            device.put(view, x[operand.name])
        find("conv", "torch-bias").prepare(one, device, Setting())(views).call()
        results.append(np.array(device.get(views[2])))
    assert results[1] - results[0] == pytest.approx(1, abs=1e-4)


@torch_here
def test_a_bias_s_gradient_is_asked_for_with_the_filter_s(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    backward, masks = torch.ops.aten.convolution_backward, []

    def seen(*arguments: Any) -> Any:
        gradients = backward(*arguments)
        masks.append([gradient is not None and tuple(gradient.shape) for gradient in gradients])
        return gradients

    monkeypatch.setattr(torch.ops.aten, "convolution_backward", seen)
    bound(find("conv", "torch-bias"), problem("wgrad", **AROUND)).call()
    assert masks[-1] == [False, (10, 6, 3, 3), (10,)]
    assert "--direction" in str(find("conv", "torch-bias").accepts(problem("dgrad")))


# oneDNN


@onednn_here
@pytest.mark.parametrize("name, word", [("direct", ":"), ("winograd", "wino"), ("gemm", "gemm"), ("auto", ":")])
@pytest.mark.parametrize("direction", PASSES)
def test_onednn_names_its_implementation(name: str, word: str, direction: str) -> None:
    one = problem(direction, c=16, k=32, **AROUND)
    kernel = str((bound(find("conv", f"onednn-{name}"), one).kernel or (None,))[0])
    assert kernel.startswith(onednn.load().version) and word in kernel


@onednn_here
@pytest.mark.parametrize("direction", PASSES)
def test_images_in_blocks_need_no_reorder(direction: str) -> None:
    """A filter may: dgrad wants its blocks the other way round."""
    one = problem(direction, "nchw16c", c=32, k=32, **AROUND)
    row = find("conv", "onednn-direct")
    in_blocks, plain = bound(row, one), bound(row, replace(one, layout="nchw"))
    assert in_blocks.kernel and plain.kernel and "3 reorders" in str(plain.kernel[0])
    assert in_blocks.workspace < plain.workspace
    assert "reorder" not in str(in_blocks.kernel[0]) or direction == "dgrad"


@onednn_here
def test_winograd_is_refused_where_it_is_wrong() -> None:
    """The rule that it is refused by rests on this."""
    row = find("conv", "onednn-winograd")
    one = problem("dgrad", c=16, k=16, **SIDES)
    assert "--pad-bottom" in str(row.accepts(one)) and "--pad-bottom" in str(find("conv", "onednn-auto").accepts(one))
    assert row.accepts(replace(one, direction="wgrad")) is None
    try:
        with pytest.raises(WrongResult):
            checked(one, row)
    except Unavailable as reason:
        pytest.skip(str(reason))


def test_a_choice_that_is_none_is_judged_as_a_sum() -> None:
    auto = find("conv", "onednn-auto")
    assert isinstance(auto.judged(problem(**AROUND)), Spread)
    assert not isinstance(auto.judged(problem(r=5, s=5)), Spread)


@onednn_here
def test_winograd_takes_aligned_operands_alone() -> None:
    """Its stores would end the process."""
    one, device = problem("wgrad", "nchw16c", c=16, k=16, **AROUND), open_device("cpu")
    try:
        bind = find("conv", "onednn-winograd").prepare(one, device, Setting())
    except Unavailable as reason:
        pytest.skip(str(reason))
    shifted = [device.view(device.allocate(x.nbytes + 64), 16, x) for x in one.operands()]
    with pytest.raises(Unavailable, match="operands aligned to 64 bytes"):
        bind(shifted)


@onednn_here
def test_a_worker_records_what_ran() -> None:
    """Of the launch, not of the row: with fewer instructions it is another kernel."""
    if "avx2" not in instruction_sets():
        pytest.skip("no AVX2 here")
    worker = Worker(Setting(isa="avx2"))
    try:
        reply = ask(worker, Prepare(Case(problem(**AROUND), "onednn-direct", Setting(isa="avx2"))), 60.0)
    finally:
        worker.close()
    assert reply.isa == "avx2" and reply.kernel.startswith(onednn.load().version)


@onednn_here
def test_a_repeated_row_names_the_same_kernel() -> None:
    one, row = problem(**AROUND), find("conv", "onednn-direct")
    launch = bound(repeated(row, 3, "thrice"), one)
    launch.call()
    assert launch.kernel == bound(row, one).kernel and launch.entry is not None


def test_winograds_work_is_its_tiles() -> None:
    """AlexNet's third layer: 2.56 times less than nominal, transforms included, in every pass."""
    for direction in PASSES:
        third = problem(direction, n=16, c=256, h=13, w=13, k=384, **AROUND)
        assert third.flops / work("onednn-winograd", third) == pytest.approx(2.56, abs=0.03)


@pytest.mark.parametrize(
    "name, isa",
    [
        ("jit_wino_4x3:avx512_core", "avx512"),
        ("brg_conv_bwd:avx2_vnni+brg_conv_fwd:avx2", "avx2"),
        ("jit_dw:avx", "avx"),
        ("jit:sse41", "sse4.2"),
        ("x64:gemm:jit", None),
    ],
)
def test_an_implementation_tells_its_instructions(name: str, isa: str | None) -> None:
    assert onednn.named("oneDNN 3.1.0", name, 0) == (f"oneDNN 3.1.0 {name}", isa)
    assert onednn.named("x", name, 1)[0] == f"x {name}, 1 reorder"
