"""Conversion of a network's arrays to channels last, and padding of pooling windows.

For Python 3.6, with NumPy only. The suite's layouts: images N×C×H×W, filters K×C×R×S, flattened images C×H×W.
"""

import numpy as np

BLIND = ("dropout", "activation")  # element-wise kinds, independent of the layout


def takers(spec, layers):
    """Return the layers that use a layer's output, directly or through element-wise layers."""
    taking = []
    for other in layers:
        if spec["name"] in other["after"]:
            taking += takers(other, layers) if other["kind"] in BLIND else [other]
    return taking


def source(spec, layers):
    """Return the previous layer, skipping element-wise layers; None for the data."""
    by_name = dict((other["name"], other) for other in layers)
    layer = by_name.get(spec["after"][0])
    while layer is not None and layer["kind"] in BLIND:
        layer = by_name.get(layer["after"][0])
    return layer


def mask(spec, layers):
    """Return a dropout layer's mask with channels last, where its input lies so."""
    array, flat = spec["mask"], source(spec, layers)
    if array.ndim == 4:
        return Last.data(array)
    if flat is None or flat["kind"] != "flatten" or len(flat["in"][0]) < 3 or in_order(flat, layers):
        return array
    return turned(array, (0, 2, 3, 1), [-1] + list(flat["in"][0]))


def in_order(spec, layers):
    """Return whether a flattened image must be C×H×W: unless only dense layers use it."""
    taking = takers(spec, layers)
    return len(spec["in"][0]) == 3 and not (taking and all(other["kind"] == "dense" for other in taking))


def turned(array, axes, split=None):
    """Return an array with transposed axes; with `split`, reshaped so before, and back afterwards."""
    if split is None:
        return np.ascontiguousarray(array.transpose(axes))
    return np.ascontiguousarray(array.reshape(split).transpose(axes)).reshape(array.shape)


class Last(object):
    """Conversion of weights, by name, to channels last and back; `layers`: those of a network's plan."""

    def __init__(self, layers):
        self.ways = {}  # {weight: arguments of `turned` to channels last, and back}
        for spec in layers:
            before = source(spec, layers)
            if spec["kind"] == "conv":
                self.ways[spec["name"] + ".weight"] = ((2, 3, 1, 0),), ((3, 2, 0, 1),)
            elif spec["kind"] == "dense" and before is not None and before["kind"] == "flatten":
                if len(before["in"][0]) == 3 and not in_order(before, layers):
                    c, h, w = before["in"][0]
                    self.ways[spec["name"] + ".weight"] = (((1, 2, 0, 3), (c, h, w, -1)), ((2, 0, 1, 3), (h, w, c, -1)))

    def to(self, name, array):
        """Return a weight in the layout with channels last."""
        return turned(array, *self.ways[name][0]) if name in self.ways else array

    def back(self, name, array):
        """Return a weight in the suite's layout."""
        return turned(array, *self.ways[name][1]) if name in self.ways else array

    @staticmethod
    def data(x):
        """Return images with channels last, anything else unchanged."""
        return np.ascontiguousarray(x.transpose(0, 2, 3, 1)) if x.ndim == 4 else x


def begin(layers, batch):
    """Return the initial running statistics, and states of a batch of sequences, by name."""
    return dict(
        (
            "%s.%s" % (spec["name"], name),
            np.full([batch] * (spec["kind"] == "recurrent") + shape, name == "variance", np.float32),
        )
        for spec in layers
        for name, shape in spec["state"].items()
    )


def unbiased(arrays, layers, batch, steps):
    """Return running statistics with the variance corrected by n/(n - 1), which a library omits.

    The part of the initial variance 1 that is left after `steps` steps is not corrected.
    """
    arrays = dict((name, np.array(array)) for name, array in arrays.items())
    for spec in layers:
        name = spec["name"] + ".variance"
        if name in arrays and not spec["frozen"]:
            count, left = batch * spec["out"][1] * spec["out"][2], (1 - spec["share"]) ** steps
            arrays[name] = (left + (arrays[name] - left) * (count / max(1.0, count - 1.0))).astype(np.float32)
    return arrays


def pads(spec):
    """Return a layer's padding: above, left, below, right."""
    return tuple(spec["pads"] or [spec.get("pad", 0)] * 4)


def around(spec):
    """Return a pooling's padding (before, after) of rows and of columns, so that all windows fit."""
    margins, lines = pads(spec), []
    for i in (0, 1):
        before, length, places = margins[i], spec["in"][0][1 + i], spec["out"][1 + i]
        reach = (places - 1) * spec["stride"] + spec["window"]
        lines.append((before, max(0, reach - before - length)))
    return tuple(lines)


def counts(spec):
    """Return the number of image elements in each window of a pooling, without padding."""
    lines = []
    for i in (0, 1):
        before, length, places = pads(spec)[i], spec["in"][0][1 + i], spec["out"][1 + i]
        starts = np.arange(places) * spec["stride"] - before
        lines.append(np.minimum(starts + spec["window"], length) - np.maximum(starts, 0))
    return np.outer(*lines).astype(np.float32)
