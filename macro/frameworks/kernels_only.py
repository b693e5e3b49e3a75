"""The suite's kernels, one after another, by the best variant of each product: near what a step needs."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

# The suite's root, behind macro/agent: this file is run by path.
sys.path.insert(1, str(next(x for x in Path(__file__).resolve().parents if not (x / "__init__.py").exists())))

import numpy_losses  # of macro/agent
import numpy_optimizers
import suite_layers
import suite_products

from kernels.build import compiler

ROWS = {"kernels-only": {"chooses": True}}  # times kernels, so nothing may run beside it
RECIPE: dict[str, Any] = {}
DEVICES = ("cpu", "fake")
KINDS, LOSSES, OPTIMIZERS = suite_layers.KINDS, numpy_losses.KINDS, numpy_optimizers.KINDS


def _numpy() -> Any:
    """Return the adapter of NumPy, whose name a package has."""
    spec = importlib.util.spec_from_file_location("plain", Path(__file__).with_name("numpy.py"))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


plain = _numpy()
trace, profile, record = plain.trace, plain.profile, plain.record


def available() -> None:
    compiler()


def identity(job: dict[str, Any]) -> Any:
    flags: dict[str, Any] = {"products": suite_products.USED, "among": "".join(suite_products.AMONG)}
    flags["torch"] = suite_products.installed("torch")
    release = suite_products.installed("kernelgap") or "of this checkout"
    return {"framework": "kernels-only", "version": release, "flags": flags, "threads": job["threads"]}


def build(job: dict[str, Any]) -> Any:
    """Return the model with its kernels chosen, so that they are proven and reported before any timing."""
    model = Model(job)
    model.gradient()
    return model


class Model(plain.Model):  # type: ignore[misc, name-defined]
    """NumPy's model with layers, loss and optimizer of the suite's kernels.

    Steps of SGD move the weights of dense layers, or their velocity, in the product that computes a gradient.
    """

    builders = KINDS

    def __init__(self, job: dict[str, Any]) -> None:
        self.products, self.stepping = suite_products.Products(job), False
        super().__init__(job)

    def pick_loss(self, plan: dict[str, Any], shares: Any) -> Any:
        if plan["loss"] == "softmax":
            return suite_layers.Softmax(self.labels, plan["layers"][-1]["out"][0], self.products)
        return super().pick_loss(plan, shares)

    def pick_optimizer(self, plan: dict[str, Any]) -> Any:
        return suite_layers.optimizer(plan, self.weights, self.products)

    def step(self) -> None:
        self.stepping = True
        super().step()
        self.stepping = False
