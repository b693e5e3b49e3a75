"""Losses in NumPy: means over outputs (batch x classes, or batch x steps x classes) and a label or targets for each.

For Python 3.6. Values are in double precision; gradients overwrite the outputs.
"""

import numpy as np


def wanted(network, labels, label_type):
    """Return a loss's targets: labels as `label_type`, or one-hot rows; numbers are targets already."""
    if network["loss"] == "softmax":
        return labels.astype(label_type)
    return _ones(labels, network["layers"][-1]["out"][-1])


def _ones(labels, classes):
    if labels.dtype.kind == "f":
        return labels
    targets = np.zeros((labels.size, classes), np.float32)
    targets[np.arange(labels.size), labels.reshape(-1)] = 1
    return targets.reshape(labels.shape + (classes,))


class Softmax(object):
    """Cross-entropy of softmax(z) against the label, mean over the batch.

    `shares`: a factor on the probabilities, for measuring the bounds of equal work.
    """

    def __init__(self, labels, classes, shares=None):
        self.rows, self.labels, self.shares = np.arange(labels.size), labels.reshape(-1), shares
        self.share = np.float32(1.0 / labels.size)

    def value(self, z):
        z = z.reshape(len(self.rows), -1)
        top = z.max(axis=1, keepdims=True)
        sums = np.log(np.exp((z - top).astype(np.float64)).sum(axis=1)) + top[:, 0]
        return float((sums - z[self.rows, self.labels]).mean())

    def gradient(self, z):
        """Compute (softmax - one-hot) / batch in place."""
        z = z.reshape(len(self.rows), -1)
        z -= z.max(axis=1, keepdims=True)
        np.exp(z, out=z)
        z /= z.sum(axis=1, keepdims=True)
        if self.shares:
            z *= self.shares
        z[self.rows, self.labels] -= np.float32(1)
        z *= self.share


class Binary(object):
    """Cross-entropy of sigmoid(z) against the one-hot label, mean over batch and classes."""

    def __init__(self, labels, classes, shares=None):
        self.targets, self.shares = _ones(labels, classes), shares
        self.share = np.float32(1.0 / self.targets.size)

    def value(self, z):
        z = z.astype(np.float64)
        return float((np.logaddexp(0, z) - self.targets * z).mean())

    def gradient(self, z):
        np.multiply(z, np.float32(-1), out=z)
        np.minimum(z, np.float32(80), out=z)  # above 80 the exponential overflows, and the sigmoid is 0
        np.exp(z, out=z)
        z += np.float32(1)
        np.reciprocal(z, out=z)
        if self.shares:
            z *= self.shares
        z -= self.targets
        z *= self.share


class Squared(object):
    """Squared difference of z and the one-hot label, mean over batch and classes."""

    def __init__(self, labels, classes, shares=None):
        self.targets = _ones(labels, classes)
        self.share = np.float32(2.0 / self.targets.size)

    def value(self, z):
        return float(((z.astype(np.float64) - self.targets) ** 2).mean())

    def gradient(self, z):
        z -= self.targets
        z *= self.share


KINDS = {"softmax": Softmax, "binary": Binary, "squared": Squared}
