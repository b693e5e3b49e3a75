"""Frameworks that do other work, a defect each, and some that are odd but right: plain NumPy, one class a row.

They join by their file: `python -m macro equal fcn-r --frameworks tests/macro/defects.py:relu-logits`.
"""

import numpy as np

ROWS = {
    "relu-logits": {"model": "ReluLogits"},
    "double-softmax": {"model": "DoubleSoftmax"},
    "dropped-layer": {"model": "DroppedLayer"},
    "trainable-input": {"model": "TrainableInput"},
    "sum-loss": {"model": "SumLoss"},
    "float64": {"model": "Float64"},
    "float64-told": {"model": "Float64Told"},
    "unit-gain": {"model": "UnitGain"},
    "nan-gradients": {"model": "NanGradients"},
    "transposed": {"model": "Transposed"},
    "log-softmax-twice": {"model": "LogSoftmaxTwice"},
    "no-forward": {"model": "NoForward"},
}
RECIPE = {}


def available():
    return None


def identity(job):
    return {"framework": "of a test", "version": "1"}


def build(job):
    return globals()[job["knobs"]["model"]](job)


def softmax(z):
    powers = np.exp(z - z.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


class Model:
    """All of it right: weights inputs x outputs, cross-entropy of the logits, its mean over the batch."""

    def __init__(self, job):
        with np.load(job["weights"]) as weights, np.load(job["data"]) as data:
            self.weights = {name: weights[name] for name in weights.files}
            self.x, self.labels = data["x"], data["labels"]
        self.layers = job["network"]["layers"]
        self.rate, self.momentum = (np.float32(job["network"][x]) for x in ("rate", "momentum"))
        self.velocity = {name: np.zeros_like(w) for name, w in self.weights.items()}
        self.grads = {name: np.zeros_like(w) for name, w in self.weights.items()}

    def work(self):
        counts = {name: w.size for name, w in self.weights.items()}
        return {"parameters": counts, "batch": len(self.labels), "dtype": "float32"}

    def activations(self):
        """The input of each layer, and the logits."""
        found = [self.x]
        for layer in self.layers:
            z = found[-1] @ self.weights[layer["name"] + ".weight"] + self.weights[layer["name"] + ".bias"]
            found.append(1 / (1 + np.exp(-z)) if layer["activation"] == "sigmoid" else z)
        return found

    def entropy(self, z):
        """Loss, and its gradient of the logits."""
        p, rows = softmax(z), np.arange(len(z))
        loss = -np.log(p[rows, self.labels]).mean()
        p[rows, self.labels] -= 1
        return loss, p / np.float32(len(z))

    def forward(self):
        return self.activations()[-1]

    def outputs(self):
        return self.forward()

    def loss(self):
        return float(self.entropy(self.activations()[-1])[0])

    def gradient(self):
        """Of every weight; what it returns is that of the input."""
        *inputs, z = self.activations()
        _, dz = self.entropy(z)
        for layer, x in zip(reversed(self.layers), reversed(inputs), strict=True):
            self.grads[layer["name"] + ".weight"][:] = x.T @ dz
            self.grads[layer["name"] + ".bias"][:] = dz.sum(axis=0)
            dx = dz @ self.weights[layer["name"] + ".weight"].T
            dz = dx * x * (1 - x)
        return dx

    def step(self):
        self.gradient()
        for name, w in self.weights.items():
            self.velocity[name] = self.momentum * self.velocity[name] + self.grads[name]
            w -= self.rate * self.velocity[name]

    def gradients(self):
        self.gradient()
        return {name: grad.copy() for name, grad in self.grads.items()}

    def parameters(self):
        return {name: w.copy() for name, w in self.weights.items()}


class ReluLogits(Model):
    def entropy(self, z):
        loss, dz = super().entropy(np.maximum(z, 0))
        return loss, dz * (z > 0)


class DoubleSoftmax(Model):
    """The loss gets what a softmax has made of the logits already."""

    def entropy(self, z):
        p = softmax(z)
        loss, dp = super().entropy(p)
        return loss, p * (dp - (p * dp).sum(axis=1, keepdims=True))


class NoForward(Model):
    """Its forward pass by itself, which is timed, computes nothing."""

    def forward(self):
        return np.zeros((len(self.labels), self.layers[-1]["outputs"]), np.float32)


class LogSoftmaxTwice(Model):
    """Wasted work, and the same answer: log-softmax of a log-softmax is that log-softmax."""

    def entropy(self, z):
        return super().entropy(np.log(softmax(z)))


class DroppedLayer(Model):
    """The second layer is not there; the third takes what the first gives."""

    def __init__(self, job):
        super().__init__(job)
        first, second, third, *rest = self.layers
        self.layers = [first, third, *rest]
        for arrays in (self.weights, self.velocity, self.grads):
            del arrays[second["name"] + ".weight"], arrays[second["name"] + ".bias"]
            arrays[third["name"] + ".weight"] = arrays[third["name"] + ".weight"][: first["outputs"]]


class TrainableInput(Model):
    """The batch is moved like a weight."""

    def work(self):
        told = super().work()
        return {**told, "parameters": {**told["parameters"], "x": self.x.size}}

    def gradient(self):
        self.dx = super().gradient()

    def step(self):
        super().step()
        self.x -= self.rate * self.dx


class SumLoss(Model):
    def entropy(self, z):
        loss, dz = super().entropy(z)
        return len(z) * loss, len(z) * dz


class Float64(Model):
    """Its input is never cast, and what comes of it is in double precision; it does not say so."""

    def __init__(self, job):
        super().__init__(job)
        self.x = self.x.astype(np.float64)
        self.grads = {name: grad.astype(np.float64) for name, grad in self.grads.items()}


class Float64Told(Float64):
    """The same, and says so."""

    def work(self):
        return {**super().work(), "dtype": str(self.x.dtype)}


class UnitGain(Model):
    """Momentum that takes (1 - mu) of each gradient."""

    def step(self):
        self.gradient()
        for name, w in self.weights.items():
            v = self.momentum * self.velocity[name] + (1 - self.momentum) * self.grads[name]
            self.velocity[name] = v
            w -= self.rate * v


class NanGradients(Model):
    """Right: gradients begin as NaN, and are written whole before they are read."""

    def __init__(self, job):
        super().__init__(job)
        for grad in self.grads.values():
            grad.fill(np.nan)


class Transposed(Model):
    """Right: weights lie in memory as outputs x inputs."""

    def __init__(self, job):
        super().__init__(job)
        self.weights = {name: np.asfortranarray(w) for name, w in self.weights.items()}
