"""The products of a zoo of modules, every layer with sizes of its own: each in the row of the layer that has them."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from macro.explaining import modules
from macro.watching.recording import Called, Event

FOLDER = Path(__file__).parents[3] / "macro/worker"
NAMES = ("recorder", "names", "torch_watch")
BATCH = 7
PRODUCTS = ("aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm")


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """As a script's process has it."""
    pytest.importorskip("torch", reason="no torch: pip install torch")
    monkeypatch.syspath_prepend(str(FOLDER))
    monkeypatch.setenv("KINETO_LOG_LEVEL", "6")
    yield importlib.import_module("torch_watch")
    for name in NAMES:
        sys.modules.pop(name, None)


def seen(watch: ModuleType, step: Callable[[], object]) -> list[Called]:
    """What a step called, with shapes."""
    import torch

    looking = watch.Spans(torch)
    looking.start(True)
    try:
        step()
    finally:
        looking.stop()
    told = looking.events()
    columns = told["columns"]
    order = ("start", "end", "thread", "sequence", "lane", "forward")
    rows = zip(columns["name"], *(columns[name] for name in order), strict=True)
    events = [Event(told["names"][name], *rest) for name, *rest in rows]
    return [Called(event, *more) for event, more in zip(events, told["shapes"], strict=True)]


def products(called: list[Called]) -> list[tuple[frozenset[int], str]]:
    """Of each the sizes that are no batch, and its row."""
    by_event = {id(one.event): one for one in called}
    found = []
    for event, where, _ in modules.placed([one.event for one in called]):
        if event.name in PRODUCTS:
            sizes = {n for shape in by_event[id(event)].shapes if len(shape) > 1 for n in shape} - {BATCH}
            found.append((frozenset(sizes), where.row if where else ""))
    return found


class Sizes:
    """Of each layer two sizes that no other has; by them its path."""

    def __init__(self) -> None:
        self.next, self.paths = 11, dict[frozenset[int], str]()

    def linear(self, path: str) -> Any:
        """A layer that is known by its sizes."""
        from torch import nn

        a, b = self.next, self.next + 2
        self.next += 4
        self.paths[frozenset((a, b))] = path
        return nn.Linear(a, b)


def zoo(sizes: Sizes) -> tuple[Any, Callable[[], Any]]:
    """A model of many kinds of layers, and what is made of all of them: a sum."""
    import torch
    from torch import nn
    from torch.nn import functional as f
    from torch.utils.checkpoint import checkpoint

    class Double(torch.autograd.Function):
        """A product of its own, with one in its gradient."""

        @staticmethod
        def forward(ctx: Any, x: Any, w: Any) -> Any:
            ctx.save_for_backward(x, w)
            return x.mm(w.t())

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            x, w = ctx.saved_tensors
            return gradient.mm(w), gradient.t().mm(x)

    class Held(nn.Module):
        """Layers in lists, dictionaries, unregistered, shared, functional, raising, recomputed."""

        def __init__(self) -> None:
            super().__init__()
            self.many = nn.ModuleList(sizes.linear(f"net.many.{i}") for i in range(12))
            self.named = nn.ModuleDict({x: sizes.linear(f"net.named.{x}") for x in ("one", "two", "three")})
            self.row = nn.Sequential(*(nn.Sequential(sizes.linear(f"net.row.{i}.0")) for i in range(8)))
            self.shared, self.functional = sizes.linear("net.shared"), sizes.linear("net")
            self.own, self.again = sizes.linear("net"), sizes.linear("net.again")
            self.failing = Failing()
            self.hidden = [sizes.linear("net.hidden[0]"), sizes.linear("net.hidden[1]")]

        def forward(self) -> Any:
            def of(layer: Any) -> Any:
                return torch.ones(BATCH, layer.in_features, requires_grad=True)

            each = [layer(of(layer)).sum() for layer in (*self.many, *self.named.values())]
            each += [layer(of(layer[0])).sum() for layer in self.row]
            each += [self.shared(of(self.shared)).sum() for _ in range(3)]
            each.append(f.linear(of(self.functional), self.functional.weight, self.functional.bias).sum())
            each.append(Double.apply(of(self.own), self.own.weight).sum())
            each.append(checkpoint(self.again, of(self.again), use_reentrant=False).sum())
            try:
                self.failing(of(self.many[0]))
            except ValueError:
                pass
            each += [layer(of(layer)).sum() for layer in self.hidden]
            with torch.no_grad():
                self.many[0](of(self.many[0]))
            return torch.stack(each).sum()

    class Failing(nn.Module):
        """A module that raises, and is caught."""

        def forward(self, x: Any) -> Any:
            raise ValueError

    net = Held()
    return net, net


def test_every_product_of_a_zoo_is_in_its_row(watch: ModuleType) -> None:
    sizes = Sizes()
    net, make = zoo(sizes)
    count = 0

    def step() -> None:
        for _ in range(2):
            make().backward()

    for sizes_of, row in products(seen(watch, step)):
        path, _, phase = row.rpartition(" ")
        assert sizes_of in sizes.paths, sizes_of
        assert path == sizes.paths[sizes_of], row
        assert phase in ("forward", "backward", "recompute"), row
        count += 1
    assert count >= 150
    recomputed = {row for _, row in products(seen(watch, step)) if row.endswith("recompute")}
    assert recomputed == {"net.again recompute"} and net.training


def test_a_gradient_of_a_gradient_is_in_its_layers_row(watch: ModuleType) -> None:
    import torch

    sizes = Sizes()
    net = torch.nn.Sequential(sizes.linear("net.0"))
    x = torch.ones(BATCH, net[0].in_features, requires_grad=True)

    def step() -> None:
        (gradient,) = torch.autograd.grad((net(x) ** 2).sum(), x, create_graph=True)
        (gradient**2).sum().backward()

    found = products(seen(watch, step))
    assert found and {row.partition(" ")[0] for _, row in found} == {"net.0"}
    assert {row.partition(" ")[2] for _, row in found} == {"forward", "backward", "double backward"}


def test_nothing_is_left_of_looking(watch: ModuleType) -> None:
    import torch

    kind = torch.nn.modules.module
    net = torch.nn.Linear(4, 4)
    before = net(torch.ones(1, 4)).tolist()
    seen(watch, lambda: net(torch.ones(1, 4)))
    assert not kind._global_forward_hooks and not kind._global_forward_pre_hooks
    assert net(torch.ones(1, 4)).tolist() == before


def test_spans_are_on_the_monotonic_clock(watch: ModuleType) -> None:
    import time

    import torch

    net, start = torch.nn.Linear(64, 64), time.monotonic()
    called = seen(watch, lambda: net(torch.ones(1, 64)))
    end = time.monotonic()
    own = [one.event for one in called if one.event.name == watch.MODULE + "net"]
    assert len(own) == 1 and start * 1e9 <= own[0].start <= own[0].end <= end * 1e9
