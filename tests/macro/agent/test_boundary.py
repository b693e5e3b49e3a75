"""Boundaries of steps in a process with PyTorch: an optimizer's closure, and calls of the outermost module only."""

from __future__ import annotations

import os
from types import ModuleType
from typing import Any

import pytest

from tests.macro.agent.test_torch_watch import seen

torch = pytest.importorskip("torch", reason="no torch: pip install torch")
from torch import nn  # noqa: E402

from macro.explaining.modules import placed  # noqa: E402


class Ends:
    """A boundary that keeps what ended."""

    pid, how = os.getpid(), None

    def __init__(self) -> None:
        self.ends: list[str] = []

    def begin(self, how: str) -> None:
        pass

    def end(self, how: str) -> None:
        self.ends.append(how)


def stepped(boundary: ModuleType, ends: Ends) -> Any:
    """Return a step of L-BFGS with the hooks of a watched script."""
    net, x = nn.Sequential(nn.Linear(4, 4), nn.Tanh()), torch.randn(8, 4)
    opt = torch.optim.LBFGS(net.parameters(), 0.1, max_iter=4, tolerance_change=0, tolerance_grad=0)
    hooks = boundary.Optimizers(torch, ends)

    def closure() -> Any:
        opt.zero_grad()
        loss = (net(x) - x).cosh().mean()
        loss.backward()
        return loss

    def step() -> None:
        args, kwargs = hooks.before(opt, (opt,), {"closure": closure})
        type(opt).step.__wrapped__(*args, **kwargs)
        hooks.after(opt, args, kwargs)

    return step


def test_a_closure_is_forward_and_backward_not_update(boundary: ModuleType, watch: ModuleType) -> None:
    called = seen(watch, stepped(boundary, Ends()))
    rows, columns = dict[str, set[str]](), dict[str, str | None]()
    for event, where, columns[event.name] in placed([x.event for x in called]):
        rows.setdefault(event.name, set()).add(where.row if where else "")
    assert rows["aten::cosh"] == {"(cosh) script"}
    assert rows["aten::tanh"] == {"net.1 forward"} and rows["aten::tanh_backward"] == {"net.1 backward"}
    assert columns["aten::cosh"] == "element-wise" and columns["aten::add_"] == "optimizer"
    assert rows["aten::dot"] == {"opt update"} and rows["kg/closure"] == {"(closure) script"}


@pytest.mark.parametrize(("patient", "ends"), [(0.0, 3), (60.0, 0)])
def test_calls_of_a_long_step_s_closure_are_steps(
    patient: float, ends: int, boundary: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(boundary, "PATIENT", patient)
    kept = Ends()
    step = stepped(boundary, kept)
    step()
    assert kept.ends.count("call of opt's closure") == ends
    kept.ends.clear()
    step()  # the optimizer has stepped: its steps are the steps
    assert "call of opt's closure" not in kept.ends


def test_hooks_set_within_a_call_take_no_inner_module_for_the_outermost(boundary: ModuleType) -> None:
    ends = Ends()
    forward = boundary.Forward(torch, ends, lambda: True)

    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(3, 3)

        def forward(self, x: Any) -> Any:
            for i in range(6):
                if i == 1 and not forward.hooks and forward.root is None:
                    forward.install()
                x = self.inner(x)
            return x

    outer = Outer()
    try:
        for _ in range(5):
            outer(torch.zeros(2, 3))
        assert forward.root is outer and set(ends.ends) == {"call of outer"}
    finally:
        forward.remove()


def test_a_module_that_an_optimizer_takes_is_no_closure(boundary: ModuleType) -> None:
    net = nn.Linear(2, 2)
    opt = torch.optim.SGD(net.parameters(), 0.1)
    hooks = boundary.Optimizers(torch, Ends())
    assert hooks.before(opt, (opt, net), {}) is None
    hooks.after(opt, (opt, net), {})
