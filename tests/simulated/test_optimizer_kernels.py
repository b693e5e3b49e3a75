"""The kernels of optimizer.cu on a CPU: every rule, pieces that begin anywhere, and kernels broken on purpose."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kernels import nvcc
from kernels.errors import UsageError
from kernels.ops.optimizer import variants as gpu
from kernels.ops.optimizer.problem import Optimizer
from tests.simulated import cases, launcher

needs_shim = pytest.mark.skipif(launcher.missing() is not None, reason=launcher.missing() or "")
needs_nvcc = pytest.mark.skipif(nvcc.missing() is not None, reason=nvcc.missing() or "")
HOW: tuple[dict[str, Any], ...] = ({"align": 16}, {"align": 4, "backward": True})
TEXT = gpu.SOURCE.read_text()


def right(problem: Optimizer, text: str = TEXT, each: bool = False, **how: Any) -> bool:
    """Whether the launches of a problem answer it."""
    x = problem.fill(np.random.default_rng(1))
    launches = gpu.launches(problem, gpu.kernel(problem), 1, each)
    try:
        found = launcher.launch(text, launches, problem.operands(), x, **how)
    except launcher.LaunchFailed:
        return False
    return cases.compare(problem, x, found).allowed


@needs_shim
@pytest.mark.parametrize("each", [False, True])
@pytest.mark.parametrize("rule", gpu.RULES)
def test_every_rule(rule: str, each: bool) -> None:
    for (tensors, size), how in ((x, y) for x in ((1, 17), (3, 333), (5, 1024)) for y in HOW):
        assert right(Optimizer(rule, tensors, size, eps=0.25, decay=0.1), each=each, **how)


BROKEN = [
    ("decay", "-lr, keep)", "-lr, 1)"),
    ("decay", "keep * p[i] - lr", "p[i] - lr"),
    ("sgd", "g += first, p += first;", "p += first;"),
    ("momentum", "gain * g[i];", "g[i] * 0;"),
    ("unit", "mu, gain);\n        ((float4 *)v)", "mu, 1);\n        ((float4 *)v)"),
    ("nesterov", "of_g = ahead", "of_g = 0"),
    ("momentum", "ahead == 0 ? 1 : mu", "mu"),
    ("momentum", "v[i] = moved;", ""),
    ("adam", "rho, rest), w", "rho, rho), w"),
    ("adam", "(sqrtf(b.z) + eps)", "(sqrtf(b.z + eps))"),
    ("adam", "sqrtf(b) + eps", "b + eps"),
    ("adam", "m += first, v += first;", "m += first;"),
    ("adam", "4 * whole + at", "4 * whole"),
    ("sgd", "count / 4", "(count + 3) / 4"),
]


@needs_shim
@pytest.mark.parametrize(("rule", "old", "new"), BROKEN, ids=[f"{x}-{y}" for x, y, _ in BROKEN])
def test_broken_kernel_is_refused(rule: str, old: str, new: str) -> None:
    assert old in TEXT
    problem = Optimizer(rule, 3, 1027, eps=0.25, decay=0.1)
    tries = [(each, how) for each in (False, True) for how in HOW]
    assert all(right(problem, each=each, **how) for each, how in tries)
    assert not all(right(problem, TEXT.replace(old, new), each=each, **how) for each, how in tries)


def test_launches_cover_every_parameter_once() -> None:
    problem = Optimizer("adam", 5, 1000)
    (whole,) = gpu.launches(problem, "optimizer_adam")
    assert whole.grid == (5, 1, 1) and whole.arguments[4:6] == (("int64", 0), ("int64", 5000))
    each = gpu.launches(problem, "optimizer_adam", each=True)
    assert [x.arguments[4:6] for x in each] == [(("int64", 1000 * t), ("int64", 1000)) for t in range(5)]
    (large,) = gpu.launches(Optimizer("sgd", 1, 1 << 28), "optimizer_sgd", processors=148)
    assert large.grid == (8 * 148, 1, 1)


def test_no_such_kernel() -> None:
    with pytest.raises(UsageError, match="makes copy"):
        gpu.kernel(Optimizer("copy", 1, 8))


@needs_nvcc
@pytest.mark.parametrize("arch", cases.ARCHS)
def test_compiled_within_registers_of_eight_blocks(arch: str, own_state: Path) -> None:
    """sgd and momentum: 32 registers a thread let eight blocks of 256 run. Adam's five arrays take 48: five."""
    found = nvcc.resources(gpu.SOURCE, arch)
    assert set(found) == set(gpu.KERNELS)
    for name, it in found.items():
        assert it.registers <= (48 if name == "optimizer_adam" else 32)
        assert (it.spill_stores, it.spill_loads, it.stack, it.shared) == (0, 0, 0, 0)
