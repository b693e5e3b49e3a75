"""PyTorch: nn.Linear layers, F.cross_entropy, torch.optim.SGD; eager and compiled."""

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
TUNED = {"heap": "keep", "optimizer": "fused"}


def configure(job):
    import torch

    torch.set_num_threads(job["threads"])
    torch.set_num_interop_threads(job["threads"])


def available():
    import torch

    torch.zeros(2, 2) @ torch.zeros(2, 2)
    return


def identity(job):
    import os

    import torch

    lines = [line.strip(" -") for line in torch.__config__.show().splitlines()]
    return {
        "framework": "pytorch",
        "version": torch.__version__,
        "build": torch.version.git_version,
        "blas": next((x for x in lines if "Math Kernel" in x), None),
        "dnn": next((x for x in lines if "DNN" in x), None),
        "dispatch": torch.backends.cpu.get_cpu_capability(),  # of its own kernels
        "isa_asked": os.environ.get("ATEN_CPU_CAPABILITY"),
        "threads": {"intra-op": torch.get_num_threads(), "inter-op": torch.get_num_interop_threads()},
        "flags": {
            "compile": job["knobs"].get("compile", False),
            "optimizer": job["knobs"].get("optimizer", "default"),
            "precision": torch.get_float32_matmul_precision(),
            "mkldnn": torch.backends.mkldnn.is_available() and torch.backends.mkldnn.enabled,
        },
    }


def build(job):
    if job["knobs"].get("compile"):
        import os
        import shutil

        if not shutil.which(os.environ.get("CXX", "g++")):  # as inductor looks for it
            raise ImportError("torch.compile needs a C++ compiler: apt-get install g++")
    return Model(job)


def trace(model, run):
    import torch_trace

    return torch_trace.spans(run, *model.order())


def record(model, run):
    """Nothing where kernels are compiled: they are called past the dispatcher."""
    import torch_record

    if model.job["knobs"].get("compile"):
        return []
    forget = lambda: model.optimizer.zero_grad(set_to_none=True)  # noqa: E731
    return torch_record.record(run, forget, *model.order())


class Model(object):
    def __init__(self, job):
        import numpy as np
        import torch

        self.torch, self.job = torch, job
        with np.load(job["weights"]) as weights, np.load(job["data"]) as data:
            modules = []
            for layer in job["network"]["layers"]:
                linear = torch.nn.Linear(layer["inputs"], layer["outputs"])
                with torch.no_grad():
                    linear.weight.copy_(torch.from_numpy(weights[layer["name"] + ".weight"].T))
                    linear.bias.copy_(torch.from_numpy(weights[layer["name"] + ".bias"]))
                modules.append(linear)
                if layer["activation"] == "sigmoid":
                    modules.append(torch.nn.Sigmoid())
                if layer["activation"] == "relu":
                    modules.append(torch.nn.ReLU())
            self.x = torch.from_numpy(data["x"].copy())
            self.labels = torch.from_numpy(data["labels"].astype(np.int64))
        self.net = torch.nn.Sequential(*modules)
        self.linears = [m for m in self.net if isinstance(m, torch.nn.Linear)]
        net = job["network"]
        how = {"fused": {"fused": True}, "foreach": {"foreach": True}}.get(job["knobs"].get("optimizer"), {})
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=net["rate"], momentum=net["momentum"], **how)
        self.call, self.logits = self._loss, self.net
        if job["knobs"].get("compile"):
            import torch._inductor.config as inductor

            inductor.cpp.enable_kernel_profile = True  # its kernels tell the profiler their names
            self.call, self.logits = torch.compile(self._loss), torch.compile(self.net)
            self.gradient()  # compiled here, not in a step
            self.forward()
            self.optimizer.zero_grad(set_to_none=True)

    def _loss(self):
        return self.torch.nn.functional.cross_entropy(self.net(self.x), self.labels)

    def order(self):
        """How many, the layers and the optimizer's parameters: what operations are told by."""
        layers = self.job["network"]["layers"]
        shapes = [(x["name"], list(p.shape)) for x, m in zip(layers, self.linears) for p in m.parameters()]
        return len(self.labels), [(x["name"], x["inputs"], x["outputs"]) for x in layers], shapes

    def work(self):
        counts = {}
        for layer, linear in zip(self.job["network"]["layers"], self.linears):
            counts[layer["name"] + ".weight"] = linear.weight.numel()
            counts[layer["name"] + ".bias"] = linear.bias.numel()
        return {
            "parameters": counts,
            "batch": len(self.labels),
            "dtype": str(self.x.dtype),
            "layout": "outputs x inputs",
        }

    def forward(self):
        with self.torch.no_grad():
            return self.logits(self.x)

    def gradient(self):
        self.optimizer.zero_grad(set_to_none=True)
        self.call().backward()

    def step(self):
        self.gradient()
        self.optimizer.step()

    def loss(self):
        with self.torch.no_grad():
            return float(self.torch.nn.functional.cross_entropy(self.logits(self.x), self.labels))

    def _named(self, of):
        arrays = {}
        for layer, linear in zip(self.job["network"]["layers"], self.linears):
            arrays[layer["name"] + ".weight"] = of(linear.weight).detach().numpy().T.copy()
            arrays[layer["name"] + ".bias"] = of(linear.bias).detach().numpy().copy()
        return arrays

    def gradients(self):
        self.gradient()
        return self._named(lambda p: p.grad)

    def parameters(self):
        return self._named(lambda p: p)
