"""The suite's own kernels, one after another, the best variant of each product as measured: what a step needs, or near
it."""

import contextlib
import json
import re
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
import recorder
import suite_layers  # beside the worker's loop
import suite_passes

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))  # run by path: the suite lies there

ROWS = {"kernels-only": {"chooses": True}}  # the fastest kernels, by their times: beside nobody
RECIPE = {}

CANDIDATES = {
    "gemm": ("openblas", "openblas-scipy", "mkl", "onednn", "blocked", "torch"),
    "conv": (
        "onednn-auto",
        "onednn-direct",
        "onednn-winograd",
        "onednn-gemm",
        "torch",
        "im2col",
        "im2col-blocks",
        "gemm-1x1",
        "winograd-4x3",
        "nnpack-ft16x16",
        "fft-pyfftw",
        "fft-tiled-32-pyfftw",
    ),
    "activation": ("c",),
    "optimizer": ("c",),
}
LIBRARIES = ("numpy", "scipy", "mkl", "torch", "onednn-cpu-gomp", "pyfftw")
TALKS = re.compile("VERBOSE|PROFILE")  # variables by which a library says what it does, and does nothing else
TRIES = 2  # calls of a candidate that comes near; the least counts
NEAR = 1.1  # times the fastest first call: what is slower is not called again


def kinds():
    """Of layers, that it has."""
    return tuple(suite_layers.KINDS)


def losses():
    """That it has."""
    import numpy_losses

    return tuple(numpy_losses.KINDS)


def optimizers():
    """That it has."""
    import numpy_optimizers

    return tuple(numpy_optimizers.KINDS)


def available():
    from kernels import build

    build.compiler()
    return


def identity(job):
    from importlib.metadata import PackageNotFoundError, version

    def installed(package, otherwise):
        try:
            return version(package)
        except PackageNotFoundError:
            return otherwise

    flags = {"products": USED, "torch": installed("torch", None), "among": "".join(AMONG)}  # without loading them
    release = installed("kernelgap", "of this checkout")
    return {"framework": "kernels-only", "version": release, "flags": flags, "threads": job["threads"]}


CHOSEN = {}  # by product: the variant that was fastest for it
USED = {}  # those of this network
AMONG = []  # the digest of what they were chosen among, before a library sets variables of its own


def trace(model, run):
    return model.do.trace(run)


def record(model, run):
    return model.do.record(run)


def build(job):
    """A chain of dense layers, the last without an activation, has the updates of SGD fused into its products; of any
    other graph, loss or optimizer the updates are passes. All products are chosen here: it says which they are, and is
    proven with them."""
    layers, before = job["network"]["layers"], ["input"] + [layer["name"] for layer in job["network"]["layers"]]
    usual = job["network"]["loss"] == "softmax" and job["network"]["optimizer"] == "sgd"
    straight = all(layer["after"] == [name] for layer, name in zip(layers, before))
    dense = all(layer["kind"] == "dense" for layer in layers) and layers[-1]["activation"] == "none"
    if straight and dense and usual:
        model = Model(job)
        model.choose()
        return model
    model = _graph(job)
    model.gradient()
    return model


def _graph(job):
    import importlib.util

    spec = importlib.util.spec_from_file_location("plain", str(Path(__file__).with_name("numpy.py")))
    plain = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(plain)

    class Graph(plain.Model):
        builders = suite_layers.KINDS

        def __init__(self, job):
            self.products = Products(job)
            plain.Model.__init__(self, job)
            self.optimizer = suite_passes.optimizer(job["network"], self.weights, self.products)

    return Graph(job)


def _circumstances(job):
    """A digest of what makes one variant faster than another, the code of all of them too."""
    import hashlib
    from importlib.metadata import PackageNotFoundError, version

    from kernels.devices.cpu import processor
    from kernels.steering import TUNING, variables

    def installed(package):
        try:
            return version(package)
        except PackageNotFoundError:
            return None

    steered = dict((name, value) for name, value in variables(TUNING).items() if not TALKS.search(name))
    parts = [processor(), job["threads"], job.get("preload"), steered, list(map(installed, LIBRARIES))]
    found = hashlib.sha256(json.dumps(parts, sort_keys=True).encode())
    for path in [Path(__file__), *sorted((ROOT / "kernels").rglob("*.[pc]*"))]:
        if path.suffix in (".py", ".c"):
            found.update(path.read_bytes())
    return found.hexdigest()[:24]


def _stored(name):
    """By product; nothing where it was never stored, or is torn."""
    from kernels import state

    try:
        return dict(json.loads((state.folder() / name).read_text("utf-8")))
    except (OSError, ValueError, TypeError):
        return {}


class Products(object):
    """Each product and convolution by the variant that was fastest for it on scratch operands of the same size. Chosen
    once for a processor, its libraries and so many threads, in the state folder: what is timed is what was proven."""

    def __init__(self, job):
        from kernels.devices.cpu import open_device
        from kernels.launch import Setting

        AMONG[:] = [_circumstances(job)]
        self.device, self.kept = open_device(), "products/%s.json" % AMONG[0]
        self.setting = Setting(job["threads"], data="uniform")  # squares are not negative
        CHOSEN.update(_stored(self.kept))

    def prepared(self, problem):
        """What binds the best variant to buffers."""
        from kernels import state
        from kernels.catalog import find

        if problem.name not in CHOSEN:
            candidates = CANDIDATES[problem.op]
            CHOSEN[problem.name] = self._best(problem) if len(candidates) > 1 else candidates[0]
            CHOSEN.update(_stored(self.kept))  # who was first has chosen
            with contextlib.suppress(OSError):  # one lost costs another choice, and another proof
                state.write(self.kept, json.dumps(CHOSEN))
        USED[problem.name] = CHOSEN[problem.name]
        return find(problem.op, USED[problem.name]).prepare(problem, self.device, self.setting)

    def bind(self, problem, buffers):
        """The call of the best variant on these buffers."""
        return self.prepared(problem)(buffers).call

    def _best(self, problem):
        blocks = [self.device.allocate(x.nbytes) for x in problem.operands()]
        for i, block in enumerate(blocks):
            self.device.scatter(block, i)
        views = [self.device.view(b, 0, x) for b, x in zip(blocks, problem.operands())]
        calls = dict((name, self._call(name, problem, views)) for name in CANDIDATES[problem.op])
        seconds = dict((name, self._seconds(call)) for name, call in calls.items() if call)
        if not seconds:
            told = problem.name, self.setting.threads
            raise NotImplementedError("no kernel of %s runs on %d threads here: pip install torch" % told)
        near = NEAR * min(seconds.values())
        for name in [name for name in seconds if seconds[name] <= near]:
            again = [self._seconds(calls[name]) for _ in range(TRIES - 1)]
            seconds[name] = min([seconds[name]] + again)
        return min(seconds, key=lambda name: seconds[name])

    def _call(self, name, problem, views):
        """None where it cannot be had."""
        from kernels.catalog import find
        from kernels.errors import SuiteError

        row = find(problem.op, name)
        if row.missing() or row.accepts(problem):
            return None
        try:
            return row.prepare(problem, self.device, self.setting)(views).call
        except SuiteError:
            return None

    def _seconds(self, call):
        clock = time.process_time if self.setting.threads == 1 else time.perf_counter
        start = clock()
        call()
        return clock() - start


def kernel(problem, variant, buffers, threads):
    """The call of a kernel of the suite on these buffers."""
    from kernels.catalog import find
    from kernels.devices.cpu import open_device
    from kernels.launch import Setting

    return find(problem.op, variant).prepare(problem, open_device(), Setting(threads))(buffers).call


def _wgrad(inputs, outputs, batch, mean):
    """The product that makes a gradient of weights."""
    from kernels.ops.gemm import Gemm

    return Gemm(alpha=mean, m=inputs, n=outputs, k=batch, trans="tn")


class Model(object):
    """Weights are inputs×outputs. A step of plain SGD makes each gradient and the weights' change in one product;
    with momentum the product adds to the velocity, and one pass moves the weights."""

    def __init__(self, job):
        with np.load(job["weights"]) as weights, np.load(job["data"]) as data:
            self.layers = job["network"]["layers"]
            self.weights = dict((name, weights[name].copy()) for name in weights.files)
            self.x, self.labels = data["x"].copy(), data["labels"].astype(np.int64)
        self.rate, self.mu = job["network"]["rate"], job["network"]["momentum"]
        self.batch, self.threads = len(self.labels), job["threads"]
        self.products = Products(job)
        self.velocity = dict((name, np.zeros_like(w)) for name, w in self.weights.items()) if self.mu else {}
        self.y = [np.zeros((self.batch, layer["outputs"]), np.float32) for layer in self.layers]
        self.dx = [np.zeros((self.batch, layer["inputs"]), np.float32) for layer in self.layers]
        self.grads, self.do = None, recorder.Steps()
        self._forward = [call for i in range(len(self.layers)) for call in self._layer(i)]
        self.dz = self.losses = None
        self._loss = self._softmax()
        self._step = self._backward(moves=True)
        self._gradient = None

    def work(self):
        counts = dict((name, int(w.size)) for name, w in self.weights.items())
        return {"parameters": counts, "batch": self.batch, "dtype": "float32", "layout": "inputs x outputs"}

    def choose(self):
        """What no step has but a gradient by itself, whose arrays are made when it is asked for."""
        for layer in self.layers:
            mean = 1.0 / self.batch if layer is self.layers[-1] else 1.0
            self.products.prepared(_wgrad(layer["inputs"], layer["outputs"], self.batch, mean))

    def _input(self, i):
        return self.y[i - 1] if i else self.x

    def _layer(self, i):
        """The bias laid out, the product added to it, the activation in place."""
        from kernels.ops.activation.problem import Activation
        from kernels.ops.gemm import Gemm

        layer, y = self.layers[i], self.y[i]
        bias = self.weights[layer["name"] + ".bias"]
        problem = Gemm(self.batch, layer["outputs"], layer["inputs"], beta=1.0)
        product = self.products.bind(problem, [self._input(i), self.weights[layer["name"] + ".weight"], y])
        rows = [layer["name"] + " forward"]
        calls = [(rows, "element-wise", lambda: np.copyto(y, bias)), (rows, "gemm", product)]
        if layer["activation"] != "none":
            activation = Activation(y.size, layer["activation"], place="in")
            call = kernel(activation, "c", [y.reshape(1, -1)], self.threads)
            calls.append(([layer["name"] + " activation"], "element-wise", call))
        return calls

    def _softmax(self):
        """p − y for every sample, and each one's loss."""
        from kernels.ops.softmax.problem import Softmax

        logits, classes = self.y[-1], self.layers[-1]["outputs"]
        self.dz, self.losses = np.zeros_like(logits), np.zeros(self.batch, np.float32)
        call = kernel(Softmax(self.batch, classes), "c", [logits, self.labels, self.dz, self.losses], 1)
        return [(["loss"], "softmax", call)]

    def _backward(self, moves):
        """Calls from the last layer to the first; where it `moves`, the weights follow at once, after the
        gradient of the layer's input has been taken with them as they were."""
        from kernels.ops.activation.problem import Activation
        from kernels.ops.gemm import Gemm

        calls, dz = [], self.dz
        mean = 1.0 / self.batch
        for i in reversed(range(len(self.layers))):
            layer = self.layers[i]
            inputs, outputs, w = layer["inputs"], layer["outputs"], self.weights[layer["name"] + ".weight"]
            if not layer["first"]:
                problem = Gemm(self.batch, inputs, outputs, "nt", alpha=mean)
                product = self.products.bind(problem, [dz, w, self.dx[i]])
                calls.append(([layer["name"] + " dgrad"], "gemm", product))
            calls += self._weight(layer["name"], self._input(i), dz, mean, moves)
            if i:
                dz, mean = self.dx[i], 1.0
                kind = self.layers[i - 1]["activation"]
                if kind != "none":
                    derivative = Activation(dz.size, kind, phase="dgrad", place="in")
                    call = kernel(derivative, "c", self._sources(derivative, i, dz), self.threads)
                    row = self.layers[i - 1]["name"] + " activation gradient"
                    calls.append(([row], "element-wise", call))
        return calls

    def _sources(self, problem, i, dz):
        """A derivative's operands by name: what the forward gave, and the gradient that it scales in place."""
        by_name = {"x": self._input(i).reshape(1, -1), "y": dz.reshape(1, -1), "dy": dz.reshape(1, -1)}
        return [by_name[operand.name] for operand in problem.operands()]

    def _weight(self, name, x, dz, mean, moves):
        """Weight and bias of a layer: their gradient, or the step itself."""
        from kernels.ops.gemm import Gemm
        from kernels.ops.optimizer.problem import Optimizer

        inputs, outputs = x.shape[1], dz.shape[1]
        row = np.zeros(outputs, np.float32)
        bias = self.weights[name + ".bias"]
        grad, moving, both = [name + " wgrad"], [name + " update"], [name + " wgrad", name + " update"]
        sums = [([name + " bias gradient"], "reduction", lambda: np.add.reduce(dz, axis=0, out=row))]
        size = {"m": inputs, "n": outputs, "k": self.batch, "trans": "tn"}
        if not moves:
            target = self.grads[name + ".weight"]
            product = self.products.bind(_wgrad(inputs, outputs, self.batch, mean), [x, dz, target])
            scaled = partial(np.multiply, row, np.float32(mean), out=self.grads[name + ".bias"])
            return [(grad, "gemm", product), *sums, ([name + " bias gradient"], "element-wise", scaled)]
        weight = self.weights[name + ".weight"]
        if not self.mu:
            product = self.products.bind(Gemm(alpha=-self.rate * mean, beta=1.0, **size), [x, dz, weight])

            def moved_bias():
                np.subtract(bias, row * np.float32(self.rate * mean), out=bias)

            return [(both, "gemm", product), *sums, (moving, "update", moved_bias)]
        v, vb = self.velocity[name + ".weight"], self.velocity[name + ".bias"]
        product = self.products.bind(Gemm(alpha=mean, beta=self.mu, **size), [x, dz, v])
        # By the velocity, as by a gradient.
        by_velocity = Optimizer(rule="sgd", tensors=1, size=weight.size, lr=self.rate, decay=0.0)
        moved = kernel(by_velocity, "c", [v.reshape(-1), weight.reshape(-1)], self.threads)

        def move_bias():
            np.multiply(vb, np.float32(self.mu), out=vb)
            np.add(vb, row * np.float32(mean), out=vb)
            np.subtract(bias, vb * np.float32(self.rate), out=bias)

        return [(grad, "gemm", product), (moving, "update", moved), *sums, (moving, "update", move_bias)]

    def forward(self):
        self._all(self._forward)

    def outputs(self):
        self.forward()
        return self.y[-1].copy()

    def _all(self, calls):
        for rows, column, call in calls:
            self.do(rows, column, call)

    def gradient(self):
        if self._gradient is None:
            self.grads = dict((name, np.zeros_like(w)) for name, w in self.weights.items())
            self._gradient = self._backward(moves=False)
        self.forward()
        self._all(self._loss + self._gradient)

    def step(self):
        self.forward()
        self._all(self._loss + self._step)

    def loss(self):
        self.forward()
        self._all(self._loss)
        return float(self.losses.astype(np.float64).mean())

    def gradients(self):
        self.gradient()
        return dict((name, array.copy()) for name, array in self.grads.items())

    def parameters(self):
        return dict((name, array.copy()) for name, array in self.weights.items())
