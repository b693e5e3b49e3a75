"""The suite's kernels, one after another, by the best variant of each product: near what a step needs."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

# The suite's root, behind macro/agent: this file is run by path.
sys.path.insert(2, str(next(x for x in Path(__file__).resolve().parents if not (x / "__init__.py").exists())))

import device_clocks  # of macro/agent
import numpy_losses
import numpy_optimizers
import suite_device
import suite_layers
import suite_products
import suite_sequences
import torch_device

from kernels.build import compiler

ROWS = {"kernels-only": {"chooses": True}}  # times kernels, so nothing may run beside it
RECIPE: dict[str, Any] = {}
DEVICES = ("cpu", "cuda", "fake")
KINDS, LOSSES, OPTIMIZERS = suite_sequences.KINDS, numpy_losses.KINDS, numpy_optimizers.KINDS


def _numpy() -> Any:
    """Load NumPy's adapter by path: by name it would be the package NumPy."""
    spec = importlib.util.spec_from_file_location("plain", Path(__file__).with_name("numpy.py"))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


plain = _numpy()
trace, record = plain.trace, plain.record


def available() -> None:
    compiler()


def identity(job: dict[str, Any]) -> Any:
    flags = {"products": suite_products.USED, "among": "".join(suite_products.AMONG)}
    on_gpu = suite_device.place(job) != "cpu"
    flags.update(suite_products.ON if on_gpu else {"torch": suite_device.installed("torch")})
    release = suite_device.installed("kernelgap", "of this checkout")
    facts = {"framework": "kernels-only", "version": release, "flags": flags, "threads": job["threads"]}
    return dict(facts, faults=suite_products.FAULTS) if suite_products.FAULTS else facts


def profile(model: Any, call: Callable[..., Any], count: int, path: str) -> Any:
    """Write a GPU trace with PyTorch's profiler, which sees all kernels; return the reason of a failure."""
    if isinstance(model.clock, device_clocks.Played):
        return device_clocks.play(model.do, call, count, path)
    try:
        import cupy
        import torch

        torch.cuda.set_device(cupy.cuda.runtime.getDevice())
    except (ImportError, OSError, AssertionError, RuntimeError) as error:  # missing, or built without CUDA
        return f"its kernels are recorded only by PyTorch's profiler: {error}"
    return torch_device.profile(torch, call, count, path)


def build(job: dict[str, Any]) -> Any:
    """Return the model after one gradient pass, in which its kernels are autotuned, before any timing."""
    model = Model(job)
    model.gradient()
    if model.products.on_gpu:
        model.clock = device_clocks.Marks(model.products.device)
    return model


class Model(plain.Model):  # type: ignore[misc, name-defined]
    """NumPy's model with layers, loss and optimizer executed by the suite's kernels.

    SGD's update of dense weights, or of their velocity, is fused into the weight-gradient GEMM.
    """

    builders = KINDS

    def __init__(self, job: dict[str, Any]) -> None:
        self.products, self.stepping = suite_products.Products(job), False
        recurrent = [x for x in job["network"]["layers"] if x["kind"] == "recurrent"]
        turned = suite_sequences.TURNED
        self.turned = {f"{x['name']}.{name}" for x in recurrent for name in x["parameters"] if name.endswith(turned)}
        super().__init__(job)

    def lying(self, name: str, array: Any) -> Any:
        return array.T if name in self.turned else array

    def pick_loss(self, plan: dict[str, Any], shares: Any) -> Any:
        if plan["loss"] == "softmax" and not self.products.on_gpu:
            return suite_layers.Softmax(self.labels, plan["layers"][-1]["out"][-1], self.products)
        return super().pick_loss(plan, shares)

    def pick_optimizer(self, plan: dict[str, Any]) -> Any:
        return suite_layers.optimizer(plan, self.weights, self.products)

    def step(self) -> None:
        self.stepping = True
        super().step()
        self.stepping = False
