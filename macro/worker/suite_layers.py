"""Layers of the suite's kernels: products and convolutions by the fastest variant of each.

Passes are those of suite_passes.py, all else is NumPy's. Launches are bound to addresses: a layer's arrays stay in
place from step to step, except gradients that PyTorch returns for a normalization.
"""

import graphs
import numpy as np
import numpy_layers
import suite_passes


class Dense(numpy_layers.Dense):
    """A dense layer whose products are the fastest rows of the table of `micro.gemm`."""

    def __init__(self, model, spec):
        numpy_layers.Dense.__init__(self, model, spec)
        self.bound = suite_passes.Bound(model.products)
        self.inputs, self.outputs = spec["in"][0][0], spec["out"][0]

    def forward(self, inputs):
        from kernels.ops.gemm import Gemm

        self.x = inputs[0]
        self.do(self.row("forward"), "element-wise", np.copyto, self.z, self.weight("bias"))
        problem = Gemm(self.batch, self.outputs, self.inputs, beta=1.0)
        self.do(self.row("forward"), "gemm", self.bound("forward", problem, [self.x, self.weight("weight"), self.z]))
        return self.z

    def backward(self, dz):
        from kernels.ops.gemm import Gemm

        problem = Gemm(self.inputs, self.outputs, self.batch, "tn")
        self.do(self.row("wgrad"), "gemm", self.bound("wgrad", problem, [self.x, dz, self.grad("weight")]))
        self.do(self.row("bias gradient"), "reduction", dz.sum, axis=0, out=self.grad("bias"))
        if self.dx[0] is not None:
            problem = Gemm(self.batch, self.inputs, self.outputs, "nt")
            self.do(self.row("dgrad"), "gemm", self.bound("dgrad", problem, [dz, self.weight("weight"), self.dx[0]]))
        return self.dx


class Conv(numpy_layers.Layer):
    """A convolution whose passes are the fastest rows of the table of `micro.conv`."""

    def __init__(self, model, spec):
        numpy_layers.Layer.__init__(self, model, spec)
        self.bound = suite_passes.Bound(model.products)

    def problem(self, direction):
        from kernels.ops.conv.problem import Conv as Problem
        from kernels.ops.conv.shape import SIDES

        (c, h, w), spec = self.spec["in"][0], self.spec
        sizes = {"n": self.batch, "c": c, "h": h, "w": w, "k": spec["filters"]}
        sizes.update(r=spec["kernel"], s=spec["kernel"])
        sizes.update((name, spec[name]) for name in ("stride", "groups", "dilation"))
        sizes.update(zip(SIDES, spec["pads"]) if spec["pads"] else {"pad": spec["pad"]})
        return Problem(direction=direction, **sizes)

    def run(self, direction, arrays):
        call = self.bound(direction, self.problem(direction), arrays)
        self.do(self.row(direction), numpy_layers.CONVOLUTION, call)

    def forward(self, inputs):
        self.x = inputs[0]
        self.run("forward", [self.x, self.weight("weight"), self.z])
        if self.spec["bias"]:
            bias = self.weight("bias")[:, None, None]
            self.do(self.row("forward"), "element-wise", np.add, self.z, bias, self.z)
        return self.z

    def backward(self, dz):
        self.run("wgrad", [self.x, dz, self.grad("weight")])
        if self.spec["bias"]:
            self.do(self.row("bias gradient"), "reduction", dz.sum, axis=(0, 2, 3), out=self.grad("bias"))
        if self.dx[0] is not None:
            self.run("dgrad", [dz, self.weight("weight"), self.dx[0]])
        return self.dx


BUILDERS = {"dense": Dense, "conv": Conv, "pool": suite_passes.Pool, "norm": suite_passes.Norm}
KINDS = dict(
    (kind, suite_passes.activated(builder))
    for kind, builder in dict(dict(numpy_layers.KINDS, **graphs.builders("numpy")), **BUILDERS).items()
)
