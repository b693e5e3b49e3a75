"""PyTorch: modules as its users write them, losses of torch.nn.functional, torch.optim; eager and compiled."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from typing import Any

import graphs  # of macro/agent
import numpy as np
import numpy_losses
import torch_device
import torch_layers
import torch_recurrent
import torch_rows
import torch_scopes

ROWS = {"pytorch": {"compile": False}, "pytorch-compile": {"compile": True}}
RECIPE = {
    "environment": "pytorch",
    "python": "3.11",
    # "+cpu": the plain build brings gigabytes of CUDA.
    "packages": ["torch==2.13.0+cpu", "numpy==2.4.6"],
    "index": {"https://download.pytorch.org/whl/cpu": ["torch==2.13.0+cpu"]},
    "megabytes": 1013,
    "needs": {"pytorch-compile": "g++"},
}
DEVICES = ("cpu", "cuda", "fake")
KINDS, LOSSES, OPTIMIZERS = torch_layers.KINDS, torch_layers.LOSSES, torch_layers.OPTIMIZERS


def configure(job: dict[str, Any]) -> None:
    import torch

    torch.set_num_threads(job["threads"])
    torch.set_num_interop_threads(job["threads"])
    torch.backends.mkldnn.set_flags(job["knobs"].get("onednn", True))
    torch_device.configure(torch, job)


def available() -> None:
    import torch

    torch.zeros(2, 2) @ torch.zeros(2, 2)


def identity(job: dict[str, Any]) -> dict[str, Any]:
    import torch

    onednn: Any = torch.backends.mkldnn
    facts = {
        "framework": "pytorch",
        **torch_device.facts(torch),
        "isa_asked": os.environ.get("ATEN_CPU_CAPABILITY"),
        "flags": {
            "compile": job["knobs"].get("compile", False),
            "optimizer": job["knobs"].get("optimizer", "default"),
            "input_gradient": job["knobs"].get("input_gradient", False),
            "update": job["knobs"].get("update", "by the optimizer"),
            "precision": torch.get_float32_matmul_precision(),
            "mkldnn": onednn.is_available() and onednn.enabled,
            "layout": "channels_last" if job["knobs"].get("channels_last") else "contiguous",
        },
    }
    return dict(facts, **torch_device.identity(torch, job))


def build(job: dict[str, Any]) -> Any:
    import torch

    torch_device.check(torch, job)
    if job["knobs"].get("compile") and torch_device.place(job) == "cpu":
        import os
        import shutil

        if not shutil.which(os.environ.get("CXX", "g++")):  # as inductor looks for it
            raise ImportError("torch.compile requires a C++ compiler: apt-get install g++")
    return Model(job)


def trace(model: Any, run: Callable[[], object]) -> Any:
    import torch_trace

    with model.scoped():
        return torch_trace.spans(run, model.align)


def profile(model: Any, call: Callable[..., Any], count: int, path: str) -> str | None:
    """Write a trace of `count` calls on a GPU; return the reason of a failure, or None."""
    if torch_device.place(model.job) == "cpu":
        return "PyTorch's profiler finds no GPU"
    torch_device.profile(model.torch, call, count, path)
    return None


def record(model: Any, run: Callable[[], object]) -> Any:
    """Return the dispatched calls; [] for a compiled model, whose kernels bypass the dispatcher."""
    import torch_record

    if model.job["knobs"].get("compile"):
        return []
    forget = lambda: model.optimizer.zero_grad(set_to_none=True)  # noqa: E731
    with model.scoped():
        return torch_record.record(run, forget, model.align)


class Model:
    def __init__(self, job: dict[str, Any]) -> None:
        import torch

        self.torch: Any = torch
        self.job = job
        self.loss_of = torch_layers.LOSSES[job["network"]["loss"]](torch.nn.functional)
        with np.load(job["weights"]) as weights, np.load(job["data"]) as data:
            self.layers = torch_recurrent.formed(job["network"]["layers"], job["knobs"], len(data["labels"]))
            place, labels = torch_device.place(job), numpy_losses.wanted(job["network"], data["labels"], np.int64)
            with torch.device(place):
                self.net, self.arrays = torch_layers.network(torch, self.layers, weights)
            self.names = list(weights.files)
            self.x, self.labels = torch.from_numpy(data["x"].copy()).to(place), torch.from_numpy(labels).to(place)
        # Whether batch and steps are exchanged in inputs; whether labels and outputs have steps
        self.exchanged = job["knobs"].get("time_major", False), len(self.layers[-1]["out"]) > 1
        if self.exchanged[0]:
            self.x = self.x.transpose(0, 1).contiguous()
        if all(self.exchanged):
            self.labels = self.labels.transpose(0, 1).contiguous()
        torch_recurrent.pack(self.net.modules(), self.x, job["knobs"])
        self.clock = torch_device.clock(torch, job)
        if job["knobs"].get("channels_last"):
            self.net.to(memory_format=torch.channels_last)
            self.x = self.x.contiguous(memory_format=torch.channels_last)
        self.x.requires_grad_(job["knobs"].get("input_gradient", False))
        dense = [x for x in self.net.modules() if isinstance(x, torch.nn.Linear)]
        if job["knobs"].get("weights") == "inputs x outputs":
            for module in dense:
                module.weight.data = module.weight.data.t().contiguous().t()
        net, self.stepping = job["network"], False
        if job["knobs"].get("update") == "in wgrad":
            for module in dense:
                module.forward = self._moving(module, -net["rate"])
        how = {"fused": {"fused": True}, "foreach": {"foreach": True}}.get(job["knobs"].get("optimizer"), {})
        make = torch_layers.OPTIMIZERS[net["optimizer"]](torch.optim, net)
        self.optimizer = make(self.net.parameters(), lr=net["rate"], **how)
        self.call: Any = self._loss
        self.logits: Any = self.net
        if job["knobs"].get("compile"):
            import torch._inductor.config as inductor

            # Kernels report their names to the profiler, which takes time: only in watched processes.
            inductor.cpp.enable_kernel_profile = job["knobs"].get("watched", False)
            self.call, self.logits = torch.compile(self._loss), torch.compile(self.net)
            with self._kept():
                self.gradient()  # compiled here, not in a step
                self.forward()
            self.optimizer.zero_grad(set_to_none=True)

    def _moving(self, module: Any, factor: float) -> Any:
        """Return a dense forward whose backward, within a step, fuses the SGD update into the wgrad GEMM."""
        torch, model = self.torch, self

        class Dense(torch.autograd.Function):  # type: ignore[misc, name-defined]
            @staticmethod
            def forward(ctx: Any, x: Any, weight: Any, bias: Any) -> Any:
                ctx.save_for_backward(x, weight)
                return torch.nn.functional.linear(x, weight, bias)

            @staticmethod
            def backward(ctx: Any, dy: Any) -> Any:
                x, weight = ctx.saved_tensors
                shape, x, dy = x.shape, x.flatten(0, -2), dy.flatten(0, -2)  # steps of sequences as rows
                dx = dy.mm(weight).view(shape) if ctx.needs_input_grad[0] else None
                if model.stepping:
                    weight.data.addmm_(dy.t(), x, alpha=factor)
                    return dx, None, dy.sum(0)
                return dx, dy.t().mm(x), dy.sum(0)

        return lambda x: Dense.apply(x, module.weight, module.bias)

    def _loss(self) -> Any:
        return self.loss_of(self.net(self.x), self.labels)

    @contextlib.contextmanager
    def scoped(self) -> Iterator[None]:
        """Run each layer in a scope of its name, for a trace; a compiled model has no scopes."""
        if not self.job["knobs"].get("compile"):
            self.net.scope = self.torch.profiler.record_function
        try:
            yield
        finally:
            self.net.scope = None

    @contextlib.contextmanager
    def _kept(self) -> Iterator[None]:
        """Restore the running statistics after the passes in this block."""
        before = [buffer.clone() for buffer in self.net.buffers()]
        yield
        for buffer, value in zip(self.net.buffers(), before):
            buffer.copy_(value)

    def align(self, events: Any) -> Any:
        """Return rows and column of each traced operation: by scope, or by order if compiled."""
        names = {id(parameter): name.rpartition(".")[0] for name, (parameter, _) in self.arrays.items()}
        moved = [(names[id(p)], list(p.shape)) for p in self.net.parameters() if p.requires_grad]
        if not self.job["knobs"].get("compile"):
            return torch_scopes.align(events, self.layers, moved)
        if not graphs.in_order(self.layers) or self.job["network"]["loss"] != "softmax":
            return [([], None) for _ in events]
        dense = [(x["name"], x["inputs"], x["outputs"]) for x in self.layers]
        return torch_rows.align(events, len(self.labels), dense, moved)

    def work(self) -> dict[str, Any]:
        dense = [x.weight for x in self.net.modules() if isinstance(x, self.torch.nn.Linear)]
        turned = bool(dense) and not any(x.is_contiguous() for x in dense)
        return {
            "parameters": {
                name: parameter.numel() for name, (parameter, _) in self.arrays.items() if parameter.requires_grad
            },
            "batch": self.labels.shape[all(self.exchanged)],
            "dtype": str((self.x if self.x.is_floating_point() else next(self.net.parameters())).dtype),
            "layout": "inputs x outputs" if turned else "outputs x inputs",
            "made": self._effective_knobs(),
        }

    def _effective_knobs(self) -> dict[str, Any]:
        """Return the settings in effect, read from the objects: a knob without effect shows the default."""
        torch = self.torch
        modules, how = list(self.net.modules()), self.optimizer.defaults
        dense = [x for x in modules if isinstance(x, torch.nn.Linear)]
        filters = [x.weight for x in modules if isinstance(x, torch.nn.Conv2d)]
        last = bool(filters) and all(x.is_contiguous(memory_format=torch.channels_last) for x in [self.x, *filters])
        moving = bool(dense) and all("forward" in vars(x) for x in dense)
        return {
            "optimizer": next((word for word in ("fused", "foreach") if how.get(word)), "default"),
            "update": "in wgrad" if moving else "by the optimizer",
            "input_gradient": self.x.requires_grad,
            "layout": "channels_last" if last else "contiguous",
            "compile": hasattr(self.call, "_torchdynamo_orig_callable"),
            **torch_recurrent.form(modules),
        }

    def forward(self) -> Any:
        with self.torch.no_grad():
            return self.logits(self.x)

    def outputs(self) -> Any:
        with self._kept():
            z = self.forward()
            return (z.transpose(0, 1) if all(self.exchanged) else z).cpu().numpy()

    def gradient(self) -> None:
        self.optimizer.zero_grad(set_to_none=True)
        self.x.grad = None
        self.call().backward()

    def step(self) -> None:
        self.stepping = True
        self.gradient()
        self.stepping = False
        self.optimizer.step()

    def loss(self) -> float:
        with self.torch.no_grad(), self._kept():
            return float(self.loss_of(self.logits(self.x), self.labels))

    def _named(self, names: Any, of: Any) -> Any:
        arrays = {}
        for name in names:
            parameter, form = self.arrays[name]
            arrays[name] = form(of(parameter).detach().cpu().numpy()).copy()
        return arrays

    def gradients(self) -> Any:
        with self._kept():
            self.gradient()
        return self._named(self.names, lambda p: p.grad)

    def parameters(self) -> Any:
        return self._named(self.names, lambda p: p)

    def state(self) -> Any:
        return self._named(
            [name for name, (parameter, _) in self.arrays.items() if not parameter.requires_grad], lambda p: p
        )
