"""PyTorch's profiler and hooks: each product of a zoo in the row of the layer of its sizes, nothing left of looking."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from macro.explaining import modules
from macro.explaining.breakdown import place
from macro.watching import reply
from macro.watching.recording import Called

torch = pytest.importorskip("torch", reason="no torch: pip install torch")
from torch import nn  # noqa: E402
from torch.utils import checkpoint  # noqa: E402

from tests.macro.agent.zoo import BATCH, PARTS, Zoo  # noqa: E402

PRODUCTS = ("aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm")
KINDS = ("gemm", "convolution", "recurrent cell", "normalization")
COLUMNS = ("name", "start", "end", "thread", "sequence", "lane", "forward")


@pytest.mark.parametrize(
    ("device", "ready", "held", "there"),
    [("cpu", False, 0, False), ("cuda", True, 0, True), ("cpu", True, 512, True), ("cpu", True, 0, False)],
)
def test_what_is_on_a_gpu_is_seen_with_an_optimizer_and_without(
    device: str, ready: bool, held: int, there: bool, watch: ModuleType
) -> None:
    parameter = SimpleNamespace(device=SimpleNamespace(type=device))
    optimizer = SimpleNamespace(param_groups=[{"params": [parameter]}])
    gpus = SimpleNamespace(
        is_initialized=lambda: ready, device_count=lambda: 2, memory_allocated=lambda one: held if one == 1 else 0
    )
    assert watch.on_gpu(SimpleNamespace(cuda=gpus), [optimizer]) is there
    assert watch.on_gpu(SimpleNamespace(cuda=gpus), []) is bool(held)


def seen(watch: ModuleType, step: Callable[[], object]) -> list[Called]:
    """What the second of two steps called, with shapes, as a script's blocks are watched."""
    looking, steps = watch.Spans(torch), []
    looking.start(True)
    try:
        for _ in range(2):
            start = time.monotonic_ns()
            step()
            steps.append((start, time.monotonic_ns()))
    finally:
        looking.stop()
    return reply.called({"traced": looking.events(), "steps": steps})


def sizes(one: Called, kind: str) -> tuple[int, ...]:
    """What tells whose it is: of a product its sizes, of others the weight's."""
    shapes = [tuple(shape) for shape in one.shapes if shape and isinstance(shape[0], int)]
    if kind == "convolution":
        return tuple(sorted(next(shape for shape in shapes if shape[2:] == (3, 3))))
    if kind in ("recurrent cell", "normalization"):
        wanted = 2 if kind == "recurrent cell" else 1
        return tuple(sorted(next((shape for shape in shapes if len(shape) == wanted), ())))
    a, b = [shape for shape in shapes if len(shape) > 1][-2:]
    batch = a[:-2] if a[:-2] != (1,) else ()
    return tuple(sorted((*batch, *a[-2:], b[-1])))


def rows(called: list[Called]) -> dict[tuple[int, ...], Counter[tuple[str, str]]]:
    """By sizes: path and phase of each product, convolution, recurrent layer and normalization."""
    by_event, found = {id(one.event): one for one in called}, dict[tuple[int, ...], Counter[tuple[str, str]]]()
    for event, where, kind in modules.placed([one.event for one in called]):
        if kind not in KINDS or event.name.startswith("aten::_thnn"):  # of a cell: its passes, after the products
            continue
        key = sizes(by_event[id(event)], kind)
        found.setdefault(key, Counter())[place(where.row) if where else ("", "")] += 1
    return found


def truth(net: Zoo) -> dict[tuple[int, ...], Counter[tuple[str, str]]]:
    """The same, as the layers say."""
    return {
        key: Counter({(path, phase): count for phase, count in phases.items()})
        for key, (path, phases) in net.truth.items()
    }


@pytest.mark.parametrize("part", PARTS)
def test_every_product_is_in_the_row_of_the_layer_that_has_its_sizes(watch: ModuleType, part: str) -> None:
    net = Zoo(part)
    assert rows(seen(watch, lambda: net().backward())) == truth(net)


def test_every_product_of_the_whole_zoo_is_in_its_row(watch: ModuleType) -> None:
    net = Zoo()
    called = seen(watch, lambda: net().backward())
    assert sum(one.event.name in PRODUCTS for one in called) >= 100
    assert rows(called) == truth(net)


def test_a_product_that_was_not_made_is_no_work(watch: ModuleType) -> None:
    """A recomputation stops in the product that saves the last of what backward needs; its time is dispatch."""
    net = Zoo("recomputed")
    (size,) = [key for key, (path, _) in net.truth.items() if path.endswith(".last")]
    called = seen(watch, lambda: net().backward())
    by_event = {id(one.event): one for one in called}
    found = [
        kind
        for event, where, kind in modules.placed([one.event for one in called])
        if event.name in PRODUCTS and sizes(by_event[id(event)], "gemm") == size
        if where == modules.Where("net.recomputed.last", "recompute")
    ]
    assert found == ["dispatch"]


def test_a_sum_of_branches_is_in_a_layer(watch: ModuleType) -> None:
    net = Zoo("residual")
    called = seen(watch, lambda: net().backward())
    sums = [place(where.row) for event, where, _ in modules.placed([x.event for x in called]) if "::add" in event.name]
    assert sums and all(path.startswith("net.residual") for path, _ in sums), sums


@pytest.mark.parametrize("reentrant", [False, True])
def test_a_checkpoint_that_no_module_asked_for_is_recomputed(watch: ModuleType, reentrant: bool) -> None:
    weight, last = torch.randn(5, 4, requires_grad=True), nn.Linear(5, 6)
    x = torch.randn(BATCH, 4, requires_grad=True)

    def step() -> None:
        checkpoint.checkpoint(lambda x: last((x @ weight.t()).tanh()), x, use_reentrant=reentrant).sum().backward()

    found = rows(seen(watch, step))
    where = "(CheckpointFunction)" if reentrant else "(checkpoint)"
    assert found[4, 5, BATCH][where, "recompute"] == 1
    assert found[5, 6, BATCH]["last", "recompute"] == int(reentrant)
    assert found[5, 6, BATCH]["last", "backward"] == 2


def test_what_another_thread_made_is_in_no_other_layers_row(watch: ModuleType) -> None:
    net, other = nn.Sequential(nn.Linear(11, 12)), nn.Linear(13, 14)
    x, y = torch.randn(BATCH, 11, requires_grad=True), torch.randn(BATCH, 13, requires_grad=True)

    def step() -> None:
        made: list[Any] = []
        thread = threading.Thread(target=lambda: made.append(other(y)))
        thread.start()
        thread.join()
        (net(x).sum() + made[0].sum()).backward()

    found = rows(seen(watch, step))
    assert found[BATCH, 11, 12] == Counter({("net.0", "forward"): 1, ("net.0", "backward"): 2})
    assert found[BATCH, 13, 14] == Counter({("(no module)", "backward"): 2})  # the profiler sees its own thread alone


def test_an_optimizers_products_are_its_update(watch: ModuleType) -> None:
    net, weight = nn.Linear(11, 12), torch.randn(12, 13)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)

    def step() -> None:
        optimizer.zero_grad()
        net(torch.randn(BATCH, 11)).sum().backward()
        with watch.fast(torch, watch.torch_modules.UPDATE + "optimizer"):  # as a script's boundary does
            net.weight.grad.t() @ weight
            optimizer.step()

    called = seen(watch, step)
    assert rows(called)[11, 12, 13] == Counter({("optimizer", "update"): 1})
    placed = {event.name: where for event, where, _ in modules.placed([one.event for one in called])}
    assert placed["Optimizer.zero_grad#SGD.zero_grad"] == modules.Where("(SGD.zero_grad)", "zero")


def hooks() -> list[Any]:
    """All that looking could leave behind."""
    kind = nn.modules.module
    named = [value for name, value in sorted(vars(kind).items()) if name.startswith("_global_") and "hook" in name]
    return [[dict(one) if isinstance(one, dict) else one for one in named], checkpoint._CheckpointFrame.__init__]


def test_nothing_is_left_of_looking(watch: ModuleType) -> None:
    net, before = Zoo(), hooks()

    def step() -> Any:
        torch.manual_seed(1)
        net.zero_grad()
        made = net()
        made.backward()
        return [made.item(), *(p.grad.sum().item() for p in net.parameters() if p.grad is not None)]

    plain, during = step(), list[Any]()
    looking = watch.Spans(torch)
    looking.start(False)
    assert hooks() != before
    during = step()
    looking.stop()
    assert hooks() == before and during == plain and step() == plain
    assert not looking.modules._open() and looking.events()["shapes"] is None
    looking.stop()  # of what is not looked at: nothing happens
    assert looking.events() == {"names": [], "columns": {x: [] for x in COLUMNS}, "shapes": None, "inputs": []}


def test_looking_ends_where_a_step_fails(watch: ModuleType) -> None:
    """Within modules, which hooks do not leave; the next look begins outside of them."""
    net, looking = Zoo("careful"), watch.Spans(torch)
    bad, before = net.careful.bad, hooks()
    looking.start(False)
    looking.modules._enter(net, ())
    with pytest.raises(ValueError):
        bad(torch.randn(BATCH, bad[0].before.in_features))
    looking.stop()
    told = looking.events()
    assert hooks() == before and not looking.modules._open() and watch.torch_modules.MODULE + "net" in told["names"]
    assert rows(seen(watch, lambda: net().backward())) == truth(net)


def test_hooks_that_failing_modules_do_not_call(watch: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """As before PyTorch 2.1: the module around them leaves for them."""
    register = nn.modules.module.register_module_forward_hook
    monkeypatch.setattr(nn.modules.module, "register_module_forward_hook", lambda hook: register(hook))
    net, looking = Zoo("careful"), watch.Spans(torch)
    looking.modules.on()
    net()
    left = looking.modules._open()
    looking.modules.off()
    assert not left


def test_spans_are_on_the_monotonic_clock(watch: ModuleType) -> None:
    net = nn.Linear(64, 64)
    looking = watch.Spans(torch)
    looking.start(False)
    start = time.monotonic_ns()
    net(torch.ones(1, 64))
    end = time.monotonic_ns()
    looking.stop()
    told = looking.events()
    at = told["columns"]["name"].index(told["names"].index(watch.torch_modules.MODULE + "net"))
    assert start <= told["columns"]["start"][at] <= told["columns"]["end"][at] <= end
    assert told["columns"]["thread"][at] == threading.get_native_id()


@pytest.mark.parametrize(
    ("trains", "recorded", "uses", "path"),
    [(True, True, False, "net"), (True, False, False, ""), (False, True, False, ""), (True, True, True, "")],
)
def test_evaluation_with_gradients_is_seen_of_what_is_trained(
    trains: bool, recorded: bool, uses: bool, path: str, watch: ModuleType
) -> None:
    """A network that is only ever called in evaluation mode may be tuned so; an attack uses gradients in it."""
    looking, net = watch.Spans(torch), nn.Sequential(nn.Linear(2, 2))
    looking.start(False)
    try:
        net.train(trains)(torch.ones(1, 2))
        with torch.set_grad_enabled(recorded):
            output = net.eval()(torch.ones(1, 2))
        if uses:
            output.sum().backward()
    finally:
        looking.stop()
    assert looking.modules.records_evaluation() == path
