"""NumPy: a step written by hand, with its buffers kept; the reference, and what always runs."""

from functools import partial

import numpy as np
import recorder

ROWS = {"numpy": {}}
RECIPE = {}
TUNED = {}


def available():
    return None


def identity(job):
    facts = {"framework": "numpy", "version": np.__version__, "blas": None}
    try:
        import threadpoolctl

        pools = threadpoolctl.threadpool_info()
        facts["threads"] = dict((pool["internal_api"], pool["num_threads"]) for pool in pools)
        own = [pool for pool in pools if pool["internal_api"] == "openblas"]
        if own:
            facts["blas"] = "OpenBLAS %s %s" % (own[0]["version"], own[0].get("architecture"))
            facts["dispatch"] = own[0].get("architecture")
    except ImportError:
        pass
    return facts


def trace(model, run):
    return model.do.trace(run)


def record(model, run):
    return model.do.record(run)


def build(job):
    """For the bound of equal work: with the knob `order` the terms of every sum come in another order, with `shares`
    the shares of the softmax are so many times what they should be."""
    return Model(job, ORDERS.get(job["knobs"].get("order")), job["knobs"].get("shares"))


def _shuffled(count):
    return np.random.RandomState(count).permutation(count)


ORDERS = {"reversed": lambda count: np.arange(count)[::-1], "shuffled": _shuffled}


class Model(object):
    """Weights are inputs×outputs; every array of a step but those of the loss is allocated once."""

    def __init__(self, job, order=None, shares=None):
        with np.load(job["weights"]) as weights, np.load(job["data"]) as data:
            self.layers = job["network"]["layers"]
            self.weights = dict((name, weights[name].copy()) for name in weights.files)
            self.x, self.labels = data["x"], data["labels"]
        self.rate, self.momentum = np.float32(job["network"]["rate"]), np.float32(job["network"]["momentum"])
        self.batch, self.order = len(self.labels), order  # the order of the terms of each sum, if another
        self.shares = shares and np.float32(shares)
        self.do = recorder.Steps()
        self.share = np.float32(1.0 / self.batch)
        self.velocity = dict((name, np.zeros_like(w)) for name, w in self.weights.items() if self.momentum)
        outputs = [layer["outputs"] for layer in self.layers]
        self.z = [np.empty((self.batch, n), np.float32) for n in outputs]
        self.y = [np.empty((self.batch, n), np.float32) for n in outputs]
        self.dx = [np.empty((self.batch, layer["inputs"]), np.float32) for layer in self.layers]
        self.grads = dict((name, np.empty_like(w)) for name, w in self.weights.items())

    def work(self):
        counts = dict((name, int(w.size)) for name, w in self.weights.items())
        return {"parameters": counts, "batch": self.batch, "dtype": "float32", "layout": "inputs x outputs"}

    def _dot(self, row, a, b, out):
        """a·b; in another order of its terms where the model has one."""
        if self.order is None:
            self.do([row], "gemm", np.dot, a, b, out=out)
        else:
            order = self.order(a.shape[1])
            np.dot(np.ascontiguousarray(a[:, order]), np.ascontiguousarray(b[order]), out=out)

    def forward(self):
        x = self.x
        for i, layer in enumerate(self.layers):
            row = layer["name"] + " forward"
            self._dot(row, x, self.weights[layer["name"] + ".weight"], self.z[i])
            self.do([row], "element-wise", np.add, self.z[i], self.weights[layer["name"] + ".bias"], self.z[i])
            x = self._activate(layer, self.z[i], self.y[i])
        self.logits = x

    def _activate(self, layer, z, y):
        pass_ = partial(self.do, [layer["name"] + " activation"], "element-wise")
        if layer["activation"] == "sigmoid":
            pass_(np.negative, z, out=y)
            pass_(np.exp, y, out=y)
            pass_(np.add, y, np.float32(1), out=y)
            return pass_(np.reciprocal, y, out=y)
        if layer["activation"] == "relu":
            return pass_(np.maximum, z, np.float32(0), out=y)
        return z

    def loss(self):
        self.forward()
        top = self.logits.max(axis=1, keepdims=True)
        sums = np.log(np.exp((self.logits - top).astype(np.float64)).sum(axis=1)) + top[:, 0]
        return float((sums - self.logits[np.arange(self.batch), self.labels]).mean())

    def gradient(self):
        self.forward()
        self.do(["loss"], "softmax", self._softmax, self.logits)
        self._backward(self.logits)

    def _softmax(self, dz):
        """Softmax minus one-hot, over the batch, in place of the logits."""
        dz -= dz.max(axis=1, keepdims=True)
        np.exp(dz, out=dz)
        dz /= dz.sum(axis=1, keepdims=True)
        if self.shares:
            dz *= self.shares
        dz[np.arange(self.batch), self.labels] -= np.float32(1)
        dz *= self.share

    def _backward(self, dz):
        """Gradients of all weights from that of the logits."""
        for i in reversed(range(len(self.layers))):
            layer, x = self.layers[i], self.y[i - 1] if i else self.x
            name = layer["name"]
            self._dot(name + " wgrad", x.T, dz, self.grads[name + ".weight"])
            self.do([name + " bias gradient"], "reduction", dz.sum, axis=0, out=self.grads[name + ".bias"])
            if not layer["first"]:
                self._dot(name + " dgrad", dz, self.weights[name + ".weight"].T, self.dx[i])
                dz = self._derive(self.layers[i - 1], self.y[i - 1], self.z[i - 1], self.dx[i])

    def _derive(self, layer, y, z, dy):
        """dy times the derivative, in place of dy; z is scratch from here on."""
        pass_ = partial(self.do, [layer["name"] + " activation gradient"], "element-wise")
        if layer["activation"] == "sigmoid":
            pass_(np.subtract, np.float32(1), y, out=z)
            pass_(np.multiply, z, y, out=z)
            pass_(np.multiply, dy, z, out=dy)
        elif layer["activation"] == "relu":
            alive = pass_(np.greater, y, 0)
            pass_(np.multiply, dy, alive, out=dy)
        return dy

    def step(self):
        self.gradient()
        for name, w in self.weights.items():
            change, pass_ = self.grads[name], partial(self.do, [name.split(".")[0] + " update"], "update")
            if self.momentum:
                v = self.velocity[name]
                pass_(np.multiply, v, self.momentum, out=v)
                pass_(np.add, v, change, out=v)
                pass_(np.multiply, v, self.rate, out=change)
            else:
                pass_(np.multiply, change, self.rate, out=change)
            pass_(np.subtract, w, change, out=w)

    def gradients(self):
        self.gradient()
        return dict((name, array.copy()) for name, array in self.grads.items())

    def parameters(self):
        return dict((name, array.copy()) for name, array in self.weights.items())
