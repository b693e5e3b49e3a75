"""What is seen of a script's PyTorch: paths of modules, spans, calls made again, what its libraries print."""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from macro.watching.library_log import talked
from micro.planning.library_log import read
from tests.macro.agent.conftest import FOLDER

torch = pytest.importorskip("torch", reason="no torch: pip install torch")


def named(watch: ModuleType, call: Callable[[], object]) -> list[str]:
    """The paths of the modules that are called, in order."""
    looking = watch.Spans(torch)
    looking.modules.on()
    paths: list[str] = []
    enter = looking.modules.enter
    looking.modules.enter = lambda module, path: (paths.append(path), enter(module, path))
    try:
        call()
    finally:
        looking.modules.off()
    return paths


def test_torch_sees_only_the_scripts_global_hooks(watch: ModuleType) -> None:
    kind, modules = torch.nn.modules.module, watch.Spans(torch).modules
    test = kind._has_any_global_hook
    modules.on()
    try:
        assert not kind._has_any_global_hook()
        mine = kind.register_module_forward_hook(lambda *_: None)
        assert kind._has_any_global_hook()
        mine.remove()
        assert not kind._has_any_global_hook()
    finally:
        modules.off()
    assert kind._has_any_global_hook is test and not test()


def test_a_warning_printed_once_stays_printed_once(watch: ModuleType) -> None:
    with warnings.catch_warnings(record=True) as printed:
        warnings.simplefilter("default")
        for _ in range(3):
            named(watch, lambda: warnings.warn("mine", stacklevel=1))
    assert [str(x.message) for x in printed] == ["mine"]


class Holder:
    """No module, and has some."""

    def __init__(self) -> None:
        self.model, self.hidden = (
            torch.nn.Sequential(torch.nn.Linear(2, 2)),
            [torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)],
        )


def test_modules_are_called_as_variables_hold_them(watch: ModuleType) -> None:
    trainer, many, by_name = Holder(), [torch.nn.Linear(2, 2)], {"a": torch.nn.Linear(2, 2)}
    x = torch.ones(1, 2)
    assert named(watch, lambda: trainer.model(x)) == ["trainer.model", "trainer.model.0"]
    assert named(watch, lambda: trainer.model[0](x)) == ["trainer.model.0"]
    assert named(watch, lambda: [layer(x) for layer in trainer.hidden]) == ["trainer.hidden[0]", "trainer.hidden[1]"]
    assert named(watch, lambda: (many[0](x), by_name["a"](x))) == ["many[0]", "by_name['a']"]
    assert named(watch, lambda: torch.nn.Tanh()(x)) == ["Tanh"]


def test_layers_that_a_module_holds_without_registering_them_have_its_name(watch: ModuleType) -> None:
    class Plain(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.hidden, self._named = [torch.nn.Linear(2, 2)], {"a": torch.nn.Linear(2, 2)}

        def forward(self, x: Any) -> Any:
            return self._named["a"](self.hidden[0](x))

    net, x = Plain(), torch.ones(1, 2)
    assert named(watch, lambda: net(x)) == ["net", "net.hidden[0]", "net._named['a']"]


def test_the_outermost_frame_gives_the_name(watch: ModuleType) -> None:
    net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Sequential(torch.nn.Linear(2, 2)))

    def train(model: Any) -> None:
        inner = model[1]
        model(torch.ones(1, 2))
        inner[0](torch.ones(1, 2))

    def call() -> None:
        train(net)

    assert named(watch, call) == ["net", "net.0", "net.1", "net.1.0", "net.1.0"]


@pytest.fixture
def spans(watch: ModuleType, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, list[bool]]:
    """What starts and stops, and what was told of other profilers."""
    kind, told = torch.autograd.profiler.profile, list[bool]()
    monkeypatch.setattr(kind, "_start_trace", kind._start_trace)
    return watch.Spans(torch, lambda: told.append(True)), told


def test_a_span_that_is_open_when_the_profiler_stops_ends_there(spans: tuple[Any, list[bool]]) -> None:
    ours, told = spans
    kind = torch.autograd.profiler.record_function
    ways = kind.__enter__, kind.__exit__
    for _ in range(3):
        ours.start(False)
        long: Any = kind("epoch")
        long.__enter__()
        torch.ones(3)
        ours.stop()
        seen = ours.events()
        at = seen["columns"]["name"].index(seen["names"].index("epoch"))
        assert seen["columns"]["end"][at] > seen["columns"]["start"][at]
        ours.start(False)
        long.__exit__(None, None, None)  # wrote into the memory of the first
        with kind("short"):
            torch.ones(3)
        ours.stop()
        assert {"short", "aten::ones"} <= set(ours.events()["names"])
    assert (kind.__enter__, kind.__exit__) == ways and not told and not ours.open and not ours.cut


def test_another_profiler_is_told_of(spans: tuple[Any, list[bool]]) -> None:
    ours, told = spans
    ours.start(False)
    ours.stop()
    assert not told
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
        torch.ones(3)
    assert told == [True]


@pytest.fixture
def again(watch: ModuleType, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    import torch_again  # type: ignore[import-not-found]

    monkeypatch.setattr(torch_again, "LEAST", 1e-4)
    monkeypatch.setattr(torch_again, "SHORT", 0.0)
    module: ModuleType = torch_again
    return module


def call(name: str, *inputs: tuple[list[int], list[int], str, Any]) -> dict[str, Any]:
    shapes, strides, types, arguments = (list(one) for one in zip(*inputs, strict=True))
    return {"name": name, "shapes": shapes, "strides": strides, "types": types, "arguments": arguments}


def tensor(*shape: int, stride: tuple[int, ...] = ()) -> tuple[list[int], list[int], str, Any]:
    return list(shape), list(stride or torch.empty(shape).stride()), "float", None


def value(x: Any) -> tuple[list[int], list[int], str, Any]:
    return [], [], "ScalarList" if isinstance(x, list) else "Scalar" if x is not None else "", x


LINEAR = call("aten::addmm", tensor(8), tensor(4, 16), tensor(16, 8, stride=(1, 16)), value(1), value(2))
LARGE = call("aten::mm", tensor(512, 512), tensor(512, 512))
CONVOLUTION = call(
    "aten::convolution_backward",
    *(tensor(2, 8, 6, 6), tensor(2, 3, 8, 8), tensor(8, 3, 3, 3), value([8]), value([1, 1]), value([0, 0])),
    *(value([1, 1]), value(False), value([0, 0]), value(1), value([True, True, True])),
)


def test_it_is_the_same_call(again: ModuleType) -> None:
    """Words of its schema that cannot stand by their place among them."""
    operands = again._operands(torch, LINEAR)
    assert operands[2].stride() == (1, 16) and operands[3:] == [1, 2]
    made = again._overload(torch, "aten::addmm", operands)(operands)
    assert torch.allclose(made, operands[0] + 2 * operands[1] @ operands[2])
    image, filters, bias = again._overload(torch, CONVOLUTION["name"], inputs := again._operands(torch, CONVOLUTION))(
        inputs
    )
    assert (image.shape, filters.shape, bias.shape) == (inputs[1].shape, inputs[2].shape, (8,))


def test_operands_are_the_same_or_so_many_that_no_cache_holds_them(
    again: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts, timed = list[int](), again._timed
    monkeypatch.setattr(again, "_timed", lambda call, sets: counts.append(len(sets)) or 1.0)
    for cache in (0, 7 * 4 * (8 + 64 + 128) // 2):
        again.seconds(torch, LINEAR, cache)
    assert counts == [1, 2, 1, 8]
    with pytest.raises(LookupError, match="sets of operands fit in the cache"):
        again.seconds(torch, LINEAR, 1 << 40)
    monkeypatch.setattr(again, "_timed", timed)
    assert all(seconds > 0 for seconds in again.seconds(torch, LARGE, 0))
    monkeypatch.setattr(again, "SHORT", 60.0)
    with pytest.raises(LookupError, match="a call takes"):
        again.seconds(torch, LINEAR, 0)


def test_the_programs_random_numbers_stay_its_own(again: ModuleType) -> None:
    torch.manual_seed(1)
    want = torch.rand(3)
    torch.manual_seed(1)
    again.seconds(torch, LINEAR, 0)
    assert torch.equal(torch.rand(3), want)


@pytest.mark.parametrize(
    ("name", "inputs"),
    [
        ("aten::embedding", (tensor(8, 4), ([3], [1], "long int", None))),
        ("aten::cat", (([[3], [4]], [], "TensorList", None), value(0))),
        ("aten::mm", (tensor(8, 4),)),
        ("aten::mm", (tensor(8, 4), tensor(5, 6))),
    ],
)
def test_what_cannot_be_made_again_is_refused(again: ModuleType, name: str, inputs: tuple[Any, ...]) -> None:
    with pytest.raises(LookupError):
        again.seconds(torch, call(name, *inputs), 0)


SCRIPT = f"""
import os, sys
sys.path.insert(0, {str(FOLDER)!r})
import library_talk, torch
a, b = torch.ones(64, 512), torch.ones(512, 256)
talk = library_talk.Talk(torch)
print("before", end=" ")
talk.start()
print("mine")
for _ in range(200):
    a @ b
    print("again", flush=True)
    print("open", end=" ", flush=True)
told = talk.stop()
print("after")
a @ b
sys.stderr.write(told)
"""


def ran(script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120)


@pytest.mark.slow
@pytest.mark.skipif(not torch.backends.mkl.is_available(), reason="a torch without MKL")
def test_every_call_is_told_and_every_line_of_the_programs_is_its_own() -> None:
    told = ran(SCRIPT)
    assert told.stdout == "before mine\n" + 200 * "again\nopen " + "after\n"
    products = [calls for (_, problem), calls in read(told.stderr).calls.items() if problem is not None]
    assert [calls.count for calls in products] == [200]
    assert list(talked(told.stderr, 200)) == ["MKL SGEMM"]


@pytest.mark.slow
def test_a_program_that_has_closed_its_output_is_left_alone() -> None:
    closed = SCRIPT.replace("talk.start()", "sys.stdout.flush(); os.close(1); sys.stdout = sys.stderr; talk.start()")
    told = ran(closed)
    assert told.stderr == "mine\n" + 200 * "again\nopen " + "after\n" and told.stdout == "before "


@pytest.mark.slow
def test_a_library_that_the_program_asks_itself_is_left_to_it() -> None:
    told = ran("import os; os.environ['MKL_VERBOSE'] = '1'; " + SCRIPT.strip())
    assert not told.stderr and told.stdout.startswith("before mine\n")


@pytest.mark.slow
@pytest.mark.skipif(not torch.backends.mkl.is_available(), reason="a torch without MKL")
def test_a_child_prints_where_the_program_would_have() -> None:
    forks = "talk.start()\nif not os.fork():\n    talk.forked(); print('child', flush=True); os._exit(0)\nos.wait()"
    told = ran(SCRIPT.replace("talk.start()", forks))
    assert "child\n" in told.stdout and "MKL_VERBOSE" not in told.stdout
    assert told.stdout.endswith("after\n") and told.stderr.count("MKL_VERBOSE SGEMM") == 200


def test_libraries_that_cannot_be_asked_say_nothing(beside: None) -> None:
    import library_talk  # type: ignore[import-not-found]

    talk = library_talk.Talk(SimpleNamespace(_C=SimpleNamespace()))
    talk.start()
    assert talk.stop() == ""


def test_seconds_are_of_a_step_and_of_what_multiplies() -> None:
    lines = [
        "MKL_VERBOSE SGEMM(N,N,512,64,256,0x1,0x2,512,0x3,256,0x4,0x5,512) 3.00ms CNR:OFF Dyn:1 FastMM:1",
        "onednn_verbose,v1,primitive,exec,cpu,matmul,brg,undef,src:f32::x wei:f32::x dst:f32::x,,,8x8:8x8,1.5",
        "MKL_VERBOSE SAXPY(512,0x1,0x2,1,0x3,1) 7.00ms CNR:OFF Dyn:1 FastMM:1",
        "MKL_VERBOSE SGEMM_BATCH_STRIDED(N,N,8,8,8) 1.00ms CNR:OFF Dyn:1 FastMM:1",
        "onednn_verbose,v1,primitive,exec,cpu,eltwise,jit,forward,data_f32::x,,alg:relu,8x8,9.0",
    ]
    assert talked("\n".join(lines), 2) == pytest.approx(
        {"MKL SGEMM": 1.5e-3, "MKL SGEMM_BATCH_STRIDED": 0.5e-3, "oneDNN matmul": 0.75e-3}
    )
