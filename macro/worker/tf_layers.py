"""The kinds of layers in TensorFlow, images N×H×W×C and filters H×W×C×K, as its own and Keras's have them.

In the style of Python 3.6. A builder gives what is called with the layer's variables, its state and the outputs of the
layers that it comes after; new state goes into `kept`, by name.
"""

import layouts  # beside this file


class Kinds(object):
    def __init__(self, tf, layers):
        self.tf, self.layers = tf, layers

        own = self.dense, self.conv, self.pool, self.norm, self.lrn, self.dropout
        self.builders = dict(zip(NAMES, own + (self.add, self.concat, self.flatten, self.shortcut, self.activation)))

    def dense(self, told):
        tf = self.tf
        return lambda p, state, kept, x: tf.nn.bias_add(tf.matmul(x, p["weight"]), p["bias"])

    def conv(self, told):
        tf = self.tf
        rows, columns = (layouts.pads(told)[i::2] for i in (0, 1))
        pads = [[0, 0], list(rows), list(columns), [0, 0]]
        if told["groups"] > 1:
            raise NotImplementedError(
                "there are no groups of a convolution here: TensorFlow has no gradient of them on a CPU"
            )

        def convolved(p, state, kept, x):
            y = tf.nn.conv2d(x, p["weight"], told["stride"], pads, dilations=told["dilation"])
            return tf.nn.bias_add(y, p["bias"]) if told["bias"] else y

        return convolved

    def pool(self, told):
        tf, largest = self.tf, told["mode"] == "max"
        if told["window"] == 0:
            whole = tf.reduce_max if largest else tf.reduce_mean
            return lambda p, state, kept, x: whole(x, axis=(1, 2), keepdims=True)
        around, counts = layouts.around(told), layouts.counts(told)
        pads, window, stride = [[0, 0]] + [list(x) for x in around] + [[0, 0]], told["window"], told["stride"]
        padded, whole = any(map(any, around)), float(window * window)

        def pooled(p, state, kept, x):
            if padded:
                x = tf.pad(x, pads, constant_values=x.dtype.min if largest else 0)
            if largest:
                return tf.nn.max_pool2d(x, window, stride, "VALID")
            y = tf.nn.avg_pool2d(x, window, stride, "VALID")
            return y * (whole / counts[:, :, None]) if (counts < whole).any() else y

        return pooled

    def norm(self, told):
        call, epsilon, share = self.tf.raw_ops.FusedBatchNormV3, told["epsilon"], told["share"]
        ones, zeros = (self.tf.fill([told["in"][0][0]], x) for x in (1.0, 0.0))

        def normed(p, state, kept, x):
            scale, shift = (p["scale"], p["shift"]) if told["affine"] else (ones, zeros)
            if told["frozen"]:
                mean, variance = state["mean"], state["variance"]
                return call(
                    x=x, scale=scale, offset=shift, mean=mean, variance=variance, epsilon=epsilon, is_training=False
                ).y
            empty = self.tf.zeros([0])
            whole = call(x=x, scale=scale, offset=shift, mean=empty, variance=empty, epsilon=epsilon, is_training=True)
            y, mean, variance = whole.y, whole.batch_mean, whole.batch_variance
            for name, seen in (("mean", mean), ("variance", variance)):  # this variance has n/(n - 1) already
                kept[told["name"] + "." + name] = state[name] + share * (seen - state[name])
            return y

        return normed

    def lrn(self, told):
        about = {"depth_radius": told["size"] // 2, "bias": told["k"], "beta": told["beta"]}
        share = told["alpha"] / told["size"]
        return lambda p, state, kept, x: self.tf.nn.local_response_normalization(x, alpha=share, **about)

    def dropout(self, told):
        if told.get("mask") is None:
            return lambda p, state, kept, x: self.tf.nn.dropout(x, told["share"])
        mask = layouts.mask(told, self.layers)
        return lambda p, state, kept, x: x * mask

    def add(self, told):
        return lambda p, state, kept, a, b: a + b

    def concat(self, told):
        return lambda p, state, kept, *given: self.tf.concat(given, axis=-1)

    def flatten(self, told):
        """Rows, columns, channels: the weights of dense layers behind lie so too."""
        tf = self.tf
        if layouts.in_order(told, self.layers):
            return lambda p, state, kept, x: tf.reshape(tf.transpose(x, (0, 3, 1, 2)), (x.shape[0], -1))
        return lambda p, state, kept, x: tf.reshape(x, (x.shape[0], -1))

    def shortcut(self, told):
        stride, more = told["stride"], told["channels"] - told["in"][0][0]
        pads = [[0, 0], [0, 0], [0, 0], [0, more]]
        return lambda p, state, kept, x: self.tf.pad(x[:, ::stride, ::stride], pads)

    def activation(self, told):
        return lambda p, state, kept, x: x


NAMES = ("dense", "conv", "pool", "norm", "lrn", "dropout", "add", "concat", "flatten", "shortcut", "activation")
LOSSES = {  # of each sample or output, whose mean is the loss
    "softmax": lambda tf, z, labels: tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=z),
    "binary": lambda tf, z, targets: tf.nn.sigmoid_cross_entropy_with_logits(labels=targets, logits=z),
    "squared": lambda tf, z, targets: tf.math.squared_difference(z, targets),
}


def network(tf, layers, p, state, scope):
    """What gives logits and new state from data; `p`, `state`: variables by name; each layer in its `scope`."""
    kinds = Kinds(tf, layers)
    calls = [(told, kinds.builders[told["kind"]](told)) for told in layers]
    activations = {"sigmoid": tf.sigmoid, "relu": tf.nn.relu}

    def apply(x):
        values, kept = {"input": x}, {}
        for told, call in calls:
            name = told["name"]
            own = dict((x, p["%s.%s" % (name, x)]) for x in told["parameters"])
            before = dict((x, state["%s.%s" % (name, x)]) for x in told["state"])
            with scope(name):
                y = call(own, before, kept, *[values[x] for x in told["after"]])
                if told["activation"] != "none":
                    y = activations[told["activation"]](y)
            values[name] = y
        return values[layers[-1]["name"]], kept

    return apply
