"""NumPy: a step written by hand, with its buffers kept; the reference, and what always runs."""

import numpy as np

ROWS = {"numpy": {}}
RECIPE = {}
TUNED = {}


def available():
    return None


def identity(job):
    told = {"framework": "numpy", "version": np.__version__, "blas": None}
    try:
        import threadpoolctl

        pools = threadpoolctl.threadpool_info()
        told["threads"] = dict((pool["internal_api"], pool["num_threads"]) for pool in pools)
        own = [pool for pool in pools if pool["internal_api"] == "openblas"]
        if own:
            told["blas"] = "OpenBLAS %s %s" % (own[0]["version"], own[0].get("architecture"))
            told["isa_observed"] = own[0].get("architecture")
    except ImportError:
        pass
    return told


def build(job):
    """With the knob `order` the terms of every sum come in another order, for the bound of equal work."""
    kind = DEFECTIVE.get(job["knobs"].get("defect"), Model)
    return kind(job, ORDERS.get(job["knobs"].get("order")))


def _shuffled(count):
    return np.random.RandomState(count).permutation(count)


ORDERS = {"reversed": lambda count: np.arange(count)[::-1], "shuffled": _shuffled}


class Model(object):
    """Weights are inputs×outputs; every array of a step but those of the loss is allocated once."""

    def __init__(self, job, order=None):
        with np.load(job["weights"]) as weights, np.load(job["data"]) as data:
            self.layers = job["network"]["layers"]
            self.weights = dict((name, weights[name].copy()) for name in weights.files)
            self.x, self.labels = data["x"], data["labels"]
        self.rate, self.momentum = np.float32(job["network"]["rate"]), np.float32(job["network"]["momentum"])
        self.batch, self.order = len(self.labels), order  # the order of the terms of each sum, if another
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

    def _dot(self, a, b, out):
        """a·b; in another order of its terms where the model has one."""
        if self.order is None:
            np.dot(a, b, out=out)
        else:
            order = self.order(a.shape[1])
            np.dot(np.ascontiguousarray(a[:, order]), np.ascontiguousarray(b[order]), out=out)

    def forward(self):
        x = self.x
        for i, layer in enumerate(self.layers):
            self._dot(x, self.weights[layer["name"] + ".weight"], self.z[i])
            self.z[i] += self.weights[layer["name"] + ".bias"]
            x = self._activate(layer["activation"], self.z[i], self.y[i])
        self.logits = x

    @staticmethod
    def _activate(kind, z, y):
        if kind == "sigmoid":
            np.negative(z, out=y)
            np.exp(y, out=y)
            y += np.float32(1)
            return np.reciprocal(y, out=y)
        if kind == "relu":
            return np.maximum(z, np.float32(0), out=y)
        return z

    def loss(self):
        self.forward()
        top = self.logits.max(axis=1, keepdims=True)
        sums = np.log(np.exp((self.logits - top).astype(np.float64)).sum(axis=1)) + top[:, 0]
        return float((sums - self.logits[np.arange(self.batch), self.labels]).mean())

    def gradient(self):
        self.forward()
        dz = self.logits  # softmax minus one-hot, over the batch, in its place
        dz -= dz.max(axis=1, keepdims=True)
        np.exp(dz, out=dz)
        dz /= dz.sum(axis=1, keepdims=True)
        dz[np.arange(self.batch), self.labels] -= np.float32(1)
        dz *= self.share
        self._backward(dz)

    def _backward(self, dz):
        """Gradients of all weights from that of the logits."""
        for i in reversed(range(len(self.layers))):
            layer, x = self.layers[i], self.y[i - 1] if i else self.x
            self._dot(x.T, dz, self.grads[layer["name"] + ".weight"])
            dz.sum(axis=0, out=self.grads[layer["name"] + ".bias"])
            if not layer["first"]:
                self._dot(dz, self.weights[layer["name"] + ".weight"].T, self.dx[i])
                dz = self._derive(self.layers[i - 1]["activation"], self.y[i - 1], self.z[i - 1], self.dx[i])

    @staticmethod
    def _derive(kind, y, z, dy):
        """dy times the derivative, in place of dy; z is scratch from here on."""
        if kind == "sigmoid":
            np.subtract(np.float32(1), y, out=z)
            z *= y
            dy *= z
        elif kind == "relu":
            dy *= y > 0
        return dy

    def step(self):
        self.gradient()
        for name, w in self.weights.items():
            change = self.grads[name]
            if self.momentum:
                v = self.velocity[name]
                v *= self.momentum
                v += change
                change = v
                np.multiply(change, self.rate, out=self.grads[name])
                w -= self.grads[name]
            else:
                change *= self.rate
                w -= change

    def gradients(self):
        self.gradient()
        return dict((name, array.copy()) for name, array in self.grads.items())

    def parameters(self):
        return dict((name, array.copy()) for name, array in self.weights.items())


class ReluLogits(Model):
    """A defect to be told by name: ReLU on the logits, which the loss should get as they are."""

    def __init__(self, job, order):
        super(ReluLogits, self).__init__(job, order)
        self.layers = [dict(layer) for layer in self.layers]
        self.layers[-1]["activation"] = "relu"

    def gradient(self):
        super(ReluLogits, self).forward()
        alive = self.logits > 0
        dz = np.exp(self.logits - self.logits.max(axis=1, keepdims=True))
        dz /= dz.sum(axis=1, keepdims=True)
        dz[np.arange(self.batch), self.labels] -= np.float32(1)
        dz *= self.share
        dz *= alive
        self._backward(dz)


class SumLoss(Model):
    """A defect to be told by name: the loss summed over the batch where its mean is meant."""

    def __init__(self, job, order):
        super(SumLoss, self).__init__(job, order)
        self.share = np.float32(1)

    def loss(self):
        return self.batch * super(SumLoss, self).loss()


class DoubleSoftmax(Model):
    """A defect to be told by name: a softmax as the last layer, and a loss that applies it again."""

    def _softmax(self):
        super(DoubleSoftmax, self).forward()
        p = np.exp(self.logits - self.logits.max(axis=1, keepdims=True))
        return p / p.sum(axis=1, keepdims=True)

    def loss(self):
        p = self._softmax().astype(np.float64)
        sums = np.log(np.exp(p).sum(axis=1))
        return float((sums - p[np.arange(self.batch), self.labels]).mean())

    def gradient(self):
        p = self._softmax()
        q = np.exp(p)
        q /= q.sum(axis=1, keepdims=True)
        q[np.arange(self.batch), self.labels] -= np.float32(1)
        q *= self.share
        self._backward(p * (q - (p * q).sum(axis=1, keepdims=True)))


class UnitGain(Model):
    """A defect to be told by name: momentum that takes (1 - mu) of each gradient."""

    def step(self):
        self.gradient()
        for name, w in self.weights.items():
            v = self.velocity[name]
            v *= self.momentum
            v += (np.float32(1) - self.momentum) * self.grads[name]
            w -= self.rate * v


DEFECTIVE = {
    "relu-logits": ReluLogits,
    "sum-loss": SumLoss,
    "double-softmax": DoubleSoftmax,
    "unit-gain": UnitGain,
}
