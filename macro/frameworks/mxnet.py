"""MXNet 1.9.1 (the last): gluon's layers, hybridized with static memory, and its Trainer."""

import contextlib
import ctypes
import os

import layouts
import mxnet_layers  # of macro/agent
import numpy as np
import numpy_losses

ROWS = {"mxnet": {}}
RECIPE = {
    "environment": "mxnet",
    "python": "3.11",
    # MXNet uses np.bool, which NumPy 1.24 lacks.
    "packages": ["mxnet==1.9.1", "numpy==1.23.5"],
    "megabytes": 310,
}
KINDS, LOSSES, OPTIMIZERS = mxnet_layers.KINDS, mxnet_layers.LOSSES, mxnet_layers.OPTIMIZERS


def configure(job):
    # Threads that run operators; inside an operator OpenMP's threads count.
    os.environ["MXNET_CPU_WORKER_NTHREADS"] = str(job["threads"])


def available():
    import mxnet as mx

    mx.nd.dot(mx.nd.zeros((2, 2)), mx.nd.zeros((2, 2))).wait_to_read()


def identity(job):
    import mxnet as mx

    on = sorted(feature.name for feature in mx.runtime.feature_list() if feature.enabled)
    blas = [name[5:].lower() for name in on if name.startswith("BLAS_")]
    return {
        "framework": "mxnet",
        "version": mx.__version__,
        "build": " ".join(on),
        "blas": openblas() or ", ".join(blas),
        "dnn": "oneDNN, built in" if {"MKLDNN", "ONEDNN"} & set(on) else None,
        "isa_asked": os.environ.get("ONEDNN_MAX_CPU_ISA") or os.environ.get("OPENBLAS_CORETYPE"),
        "dispatch": (openblas() or "").split(" ")[-1] or None,
        "threads": {"omp": job["threads"], "engine": int(os.environ["MXNET_CPU_WORKER_NTHREADS"])},
        "flags": {"hybridize": "static_alloc", "mkldnn": os.environ.get("MXNET_MKLDNN_ENABLED", "1")},
    }


def openblas():
    """Return the version and kernels of MXNet's OpenBLAS; None if it is built without OpenBLAS."""
    import mxnet as mx

    try:
        calls = mx.base._LIB.openblas_get_config, mx.base._LIB.openblas_get_corename
    except AttributeError:
        return None
    for call in calls:
        call.restype = ctypes.c_char_p
    config, core = [call().decode() for call in calls]
    return "%s %s" % (" ".join(config.split()[:2]), core)


def build(job):
    return Model(job)


class Model(object):
    """Network with losses per sample; gradients are sums, which Trainer.step(batch) divides by the batch."""

    def __init__(self, job):
        import mxnet as mx

        self.mx, self.np, self.network, self.batch, self.taken = mx, np, job["network"], job["batch"], 0
        self.net, parameters = mxnet_layers.network(mx, self.network["layers"], self.batch)
        self.net.initialize(mx.init.Zero())
        with np.load(job["weights"]) as weights, np.load(job["data"]) as data:
            self.p = dict((name, parameters.pop(name)) for name in weights.files)
            self.kept = parameters
            tables = [x["name"] + ".weight" for x in self.network["layers"] if x["kind"] == "embedding"]
            self.form = lambda name, array: array.copy() if name in tables else turned(array)
            for name, w in self.p.items():
                w.set_data(mx.nd.array(self.form(name, weights[name])))
            self.x = mx.nd.array(data["x"])
            self.labels = mx.nd.array(numpy_losses.wanted(self.network, data["labels"], np.float32))
            classes = self.network["layers"][-1]["out"][-1]
            self.loss_in_numpy = numpy_losses.KINDS[self.network["loss"]](data["labels"], classes)
        self.criterion = mxnet_layers.LOSSES[self.network["loss"]](mx.gluon.loss)
        self.net.hybridize(static_alloc=True)
        self.criterion.hybridize(static_alloc=True)
        name, settings = mxnet_layers.OPTIMIZERS[self.network["optimizer"]](self.network)
        options = dict(settings, learning_rate=self.network["rate"], wd=0.0)
        self.trainer = mx.gluon.Trainer(self.net.collect_params(), name, options)

    def work(self):
        counts = dict((name, int(w.data().size)) for name, w in self.p.items())
        return {
            "parameters": counts,
            "batch": int(self.labels.shape[0]),
            "dtype": str(self.x.dtype.__name__),
            "layout": "outputs x inputs",
        }

    def _logits(self):
        """Return logits in training mode, which normalizes by the batch's statistics."""
        with self.mx.autograd.train_mode():
            return self.net(self.x)

    def forward(self):
        logits = self._logits()
        logits.wait_to_read()
        return logits

    def outputs(self):
        with self._unmoved():
            return self.forward().asnumpy()

    def _backward(self):
        with self.mx.autograd.record():
            loss = self.criterion(self.net(self.x), self.labels)
        loss.backward()

    def gradient(self):
        self._backward()
        self.mx.nd.waitall()

    def step(self):
        self._backward()
        self.trainer.step(self.batch)
        self.mx.nd.waitall()
        self.taken += 1

    @contextlib.contextmanager
    def _unmoved(self):
        """Restore the running statistics after the passes in this block."""
        before = dict((name, x.data().asnumpy()) for name, x in self.kept.items())
        yield
        for name, array in before.items():
            self.kept[name].set_data(self.mx.nd.array(array))

    def loss(self):
        """Return the loss in double precision from MXNet's logits.

        The built-in oneDNN's log_softmax is off by a millionth, always in one direction. Gradients are not corrected.
        """
        return self.loss_in_numpy.value(self.outputs().astype("float64"))

    def gradients(self):
        with self._unmoved():
            self.gradient()
            return dict((name, self.form(name, w.grad().asnumpy()) / self.batch) for name, w in self.p.items())

    def parameters(self):
        return dict((name, self.form(name, w.data().asnumpy())) for name, w in self.p.items())

    def state(self):
        """Return running statistics, the variance corrected by n/(n - 1), which MXNet leaves out."""
        arrays = dict((name, x.data().asnumpy()) for name, x in self.kept.items())
        return layouts.unbiased(arrays, self.network["layers"], self.batch, self.taken)


def turned(array):
    """Return a transposed copy of a matrix (MXNet's dense weights are outputs × inputs), else a copy."""
    return (array.T if array.ndim == 2 else array).copy()
