"""A GPU's time taken apart: a trace of an A100 beside a count of its microseconds, and synthetic traces."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kernels.errors import UsageError
from macro import explain
from macro.explaining import device_time
from macro.explaining.device_time import Account, account, short, time_range
from macro.explaining.kinds import of_kernel
from macro.traces import chrome
from macro.traces.chrome import Device, Work
from tests.conftest import Ran

KINDS = json.loads(Path(__file__).with_name("kinds.json").read_text("utf-8"))
REAL = Path(__file__).parents[1] / "traces/a100-alexnet.json.gz"  # AlexNet forward, by PyTorch
FORWARD = "[param|pytorch.model.alex_net|0|0|0|measure|forward]"


def counted(step: str) -> dict[str, float]:
    """Of the outermost annotation of this name, seconds by what each of its microseconds is; from the file itself."""
    events = json.loads(gzip.decompress(REAL.read_bytes()))["traceEvents"]
    window = max(
        (x for x in events if x.get("name") == step and x.get("cat") == "user_annotation"), key=lambda x: x["dur"]
    )
    first, many = window["ts"], window["dur"]
    kernel, other, late = np.zeros((3, many), bool)
    called = {x["args"]["correlation"]: (x["ts"], x["ts"] + x["dur"]) for x in events if x.get("cat") == "cuda_runtime"}
    work = [x for x in events if x.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")]
    for one in work:
        start, end = (min(max(x - first, 0), many) for x in (one["ts"], one["ts"] + one["dur"]))
        (kernel if one["cat"] == "kernel" else other)[start:end] = True
    # A copy may wait in its call until it is done: when that began counts, of a kernel when it had returned.
    starts = sorted(
        (x["ts"] - first, called[x["args"]["correlation"]][x["cat"] == "kernel"] - first)
        for x in work
        if x["ts"] >= first
    )
    for moment in np.flatnonzero(~(kernel | other)):
        following = next((launched for start, launched in starts if start > moment), None)
        late[moment] = following is not None and moment < following
    told = [kernel, other & ~kernel, late, ~(kernel | other)]
    return dict(zip(("kernels", "exposed", "unlaunched", "idle"), (1e-6 * float(x.sum()) for x in told), strict=True))


def test_a_real_trace_is_as_a_count_of_its_microseconds() -> None:
    trace = chrome.read(REAL, FORWARD)
    (device,) = trace.devices
    assert device.name == "NVIDIA A100-PG509-200"
    found, want = account(device, trace.steps), counted(FORWARD)
    assert (found.steps, found.seconds) == (1, pytest.approx(0.079678))
    for name, seconds in want.items():
        assert getattr(found, name) == pytest.approx(seconds, abs=1.5e-6), name
    assert found.kernels + found.exposed + found.idle == pytest.approx(found.seconds)
    assert min(want["kernels"], want["unlaunched"]) > 1e-3
    assert set(found.streams) == {7, 20}
    products = [x for x in found.each if x.name == "ampere_sgemm_32x32_sliced1x4_tn"]
    assert [(x.kind, x.calls, x.seconds) for x in products] == [("gemm", 3, pytest.approx(1.302e-3))]


def test_every_kernel_of_it_has_a_kind() -> None:
    (device,) = chrome.read(REAL).devices
    kinds = {x.name: x.kind for x in account(device).each}
    assert "unknown" not in kinds.values() and len(kinds) == 16
    of = {name.partition("<")[0].split("::")[-1]: kind for name, kind in kinds.items()}
    assert of["ampere_gcgemm_64x64_nt"] == of["void fft2d_r2c_32x32"] == "convolution"
    assert (of["max_pool_forward_nchw"], of["nchwToNhwcKernel"]) == ("pooling", "layout reorder")


@pytest.mark.parametrize(("name", "kind"), KINDS["kernel of a GPU, kind"])
def test_kinds_by_name(name: str, kind: str) -> None:
    assert of_kernel(name) == kind


def test_a_short_name_says_what_a_template_applies() -> None:
    name = (
        "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std::array<char*, 3>>()"
    )
    assert short(name) == "at::native::vectorized_elementwise_kernel"
    applied = "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MeanOps<float>>>(at)"
    assert short(applied) == "at::native::reduce_kernel ReduceOp"
    assert short("ampere_sgemm_128x64_tn") == "ampere_sgemm_128x64_tn"


def work(kind: str, start: int, end: int, launched: int | None, stream: int = 7) -> Work:
    """In microseconds."""
    return Work(kind, kind, 0, stream, 1000 * start, 1000 * end, None if launched is None else 1000 * launched, 8)


MADE = [
    work("kernel", 10, 20, 2),  # from 0 on idle: 2 for the host, 8 until it begins
    work("copy", 15, 30, 3, stream=8),  # 10 of it beside a kernel's end
    work("kernel", 40, 50, 45),  # launched after it began, as clocks may say: all of the gap is the host's
    work("kernel", 45, 48, 4, stream=8),  # at the same time
    work("clear", 60, 61, None),
]


def test_gaps_overlaps_and_copies_are_told_apart() -> None:
    found = account(Device("it", MADE), [(0, 70_000)])
    told = {
        name: round(1e6 * getattr(found, name)) for name in ("seconds", "kernels", "exposed", "unlaunched", "starting")
    }
    assert told == {"seconds": 70, "kernels": 20, "exposed": 11, "unlaunched": 12, "starting": 8}
    assert round(1e6 * found.untold) == 19 and found.copied == 8
    assert {name: round(1e6 * x) for name, x in found.streams.items()} == {7: 21, 8: 18}
    assert [(x.calls, round(1e6 * x.seconds)) for x in found.each] == [(3, 23)]


def test_steps_apart_are_counted_and_what_lies_between_is_not() -> None:
    found = account(Device("it", MADE), [(12_000, 18_000), (40_000, 50_000)])
    assert (found.steps, round(1e6 * found.seconds), round(1e6 * found.kernels)) == (2, 16, 16)
    assert (round(1e6 * found.exposed), found.idle) == (0, 0.0)
    whole = account(Device("it", MADE))
    assert round(1e6 * whole.seconds) == 51


def test_a_step_that_ends_idle_knows_what_it_waited_for() -> None:
    """What begins behind it had not been enqueued yet."""
    later = [work("kernel", 0, 10, None), work("kernel", 106, 116, 105)]
    found = account(Device("it", later), [(0, 100_000), (100_000, 200_000)])
    assert [round(1e6 * x) for x in (found.unlaunched, found.starting, found.untold)] == [95, 1, 84]


def test_of_a_kernel_that_goes_on_the_window_counts() -> None:
    found = account(Device("it", [work("kernel", 9, 109, 1)]), [(0, 10_000)])
    assert [(x.calls, round(1e6 * x.seconds)) for x in found.each] == [(1, 1)]
    assert round(1e6 * found.kernels) == 1


def test_devices_have_one_window() -> None:
    one, other = Device("a", [work("kernel", 0, 10, None)]), Device("b", [work("kernel", 30, 70, None)])
    assert time_range([one, other]) == (0, 70_000)


def written(path: Path, *events: dict[str, Any], **more: Any) -> Path:
    path.write_text(json.dumps({"traceEvents": list(events), **more}), "utf-8")
    return path


def event(cat: str, name: str, ts: float, dur: float, **args: Any) -> dict[str, Any]:
    return {"ph": "X", "cat": cat, "name": name, "ts": ts, "dur": dur, "args": args}


def test_the_profilers_own_steps_are_taken(tmp_path: Path) -> None:
    path = written(
        tmp_path / "t.json",
        event("user_annotation", "ProfilerStep#3", 1e15, 100.25),
        event("user_annotation", "ProfilerStep#4", 1e15 + 100.25, 100),
        event("cuda_driver", "cuLaunchKernel", 1e15 + 5, 1.5, correlation=9),
        event("kernel", "sgemm", 1e15 + 20, 10.125, device=1, stream=7, correlation=9),
        deviceProperties=[{"id": 1, "name": "a GPU"}],
    )
    trace = chrome.read(path)
    assert trace.steps == [(0, 100_250), (100_250, 200_250)]
    (device,) = trace.devices
    (one,) = device.work
    assert (device.name, one.start, one.end, one.launched) == ("a GPU", 20_000, 30_125, 6_500)


def test_a_bare_list_of_events_is_a_trace_too(tmp_path: Path) -> None:
    path, events = tmp_path / "t.json", [event("kernel", "sgemm", 5, 1, device=0, stream=7)]
    path.write_text(json.dumps(events), "utf-8")
    assert device_time.is_trace([str(path)]) and len(chrome.read(path).devices[0].work) == 1
    path.write_text(json.dumps({"more": " " * device_time.HEAD, "traceEvents": events}), "utf-8")
    assert device_time.is_trace(["--step", "x", str(path)]) and len(chrome.read(path).devices) == 1
    path.write_text(json.dumps({"network": "own", "layers": []}), "utf-8")
    assert not device_time.is_trace([str(path)])


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "not a trace: "),
        ("[]", "profile with ProfilerActivity.CUDA"),
        ("7", "traceEvents missing"),
        ("[" * 100_000, "not a trace"),
    ],
)
def test_what_is_no_trace_of_a_gpu_is_refused(text: str, why: str, tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text(text, "utf-8")
    with pytest.raises(UsageError) as told:
        chrome.read(path)
    assert why in str(told.value) and str(path) in str(told.value)


def test_the_command_says_it_and_writes_it(tmp_path: Path, capsys: pytest.CaptureFixture[str], in_process: Any) -> None:
    path = tmp_path / "told.json"
    ran: Ran = in_process(capsys, explain.main, [str(REAL), "--step", FORWARD, "--json", str(path)])
    assert ran.code == 0
    assert ran.out.startswith(
        "NVIDIA A100-PG509-200, 79.7 ms: kernels run in 6.6 % of the time, copies and clears alone "
    )
    assert "To try: fewer, larger launches" in ran.out and "cudnn_ampere_scudnn_128x64_relu" in ran.out
    (told,) = json.loads(path.read_text())["devices"]
    assert Account(**{**told, "each": []}).kernels == pytest.approx(0.00528, abs=1e-5)
    with pytest.raises(UsageError, match=r"--step nothing: this trace has \[param\|cuda\]"):
        explain.main([str(REAL), "--step", "nothing"])
    own = tmp_path / "own.json"
    own.write_bytes(gzip.decompress(REAL.read_bytes()))
    with pytest.raises(UsageError, match="is the trace itself; name another"):
        explain.main(["--step", FORWARD, str(own), "--json", str(own)])
    assert "traceEvents" in own.read_text()
    with pytest.raises(UsageError, match="No such file"):
        explain.main([str(tmp_path / "missing.json.gz")])
