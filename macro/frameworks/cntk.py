"""CNTK 2.7 (the last): its layers and losses, a Trainer; momentum of SGD without unit gain.

The criterion is summed over the batch; with `minibatch_size` equal to the batch the learner takes the mean and leaves
rate and momentum as they are.
"""

import ctypes
import os
import warnings

import cntk_layers  # of macro/agent
import numpy as np
import numpy_losses

ROWS = {"cntk": {}}
RECIPE = {
    "environment": "cntk",
    "python": "3.6",
    "packages": ["cntk==2.7", "numpy==1.19.5", "scipy==1.5.4"],
    # CNTK links to MPI, which only distributed training needs. A function of the stub ends the process.
    "stubs": {
        "libmpi.so.12": {"folder": "cntk/libs", "symbols": "MPI_|ompi_", "data": "ompi_mpi_"},
        "libmpi_cxx.so.1": {"folder": "cntk/libs", "symbols": "_Z[A-Z]*N3MPI", "data": "_ZT[VI]"},
    },
    "megabytes": 457,
    "needs": {"cntk": "gcc"},
}
KINDS, LOSSES, OPTIMIZERS = cntk_layers.KINDS, cntk_layers.LOSSES, cntk_layers.OPTIMIZERS


def configure(job):
    warnings.simplefilter("ignore")  # about a missing GPU, and a system other than Ubuntu
    import cntk

    cntk.device.try_set_default_device(cntk.device.cpu())
    cntk.cntk_py.set_max_num_cputhreads(job["threads"])
    cntk.logging.set_trace_level(cntk.logging.TraceLevel.Error)


def available():
    import cntk

    x = cntk.input_variable(2)
    cntk.times(x, np.eye(2, dtype=np.float32)).eval({x: np.zeros((1, 2), np.float32)})


def identity(job):
    import cntk

    version, isa, threads = mkl()
    return {
        "framework": "cntk",
        "version": cntk.__version__,
        "build": str(cntk.use_default_device()),
        "blas": version,
        "isa_asked": os.environ.get("MKL_ENABLE_INSTRUCTIONS"),
        "dispatch": isa,
        "threads": {"cntk": cntk.cntk_py.get_max_num_cputhreads(), "mkl": threads},
        "flags": {"unit_gain": job["network"]["optimizer"] == "adam"},
    }


def mkl():
    """Return MKL's version, detected instruction set and number of threads, as MKL reports them."""
    import cntk

    try:
        library = ctypes.CDLL(os.path.join(os.path.dirname(cntk.__file__), "libs", "libmklml_intel.so"))
        text = ctypes.create_string_buffer(200)
        library.MKL_Get_Version_String(text, 200)
        branch = library.mkl_serv_cbwr_get_auto_branch()
    except (OSError, AttributeError):
        return None, None, None
    names = {3: "compatible", 4: "sse2", 6: "ssse3", 7: "sse4.1", 8: "sse4.2", 9: "avx", 10: "avx2"}
    isa = "avx512" if branch > 10 else names.get(branch)
    return " ".join(text.value.decode().split()), isa, library.mkl_get_max_threads()


def build(job):
    return Model(job)


class Model(object):
    def __init__(self, job):
        import cntk

        self.cntk, self.batch = cntk, job["batch"]
        layers = job["network"]["layers"]
        features = cntk.input_variable(tuple(job["network"]["input"]))
        count, sparse = layers[-1]["out"][0], job["network"]["loss"] == "softmax"
        classes = cntk.input_variable(count, is_sparse=sparse)
        x, self.p = cntk_layers.network(cntk, layers, features)
        with np.load(job["weights"]) as weights, np.load(job["data"]) as data:
            for name, parameter in self.p.items():
                parameter.value = weights[name].reshape(parameter.shape)
            labels = numpy_losses.wanted(job["network"], data["labels"], np.int64)
            self.inputs = {features: cntk.Value(np.ascontiguousarray(data["x"]))}
            self.shapes = dict((name, weights[name].shape) for name in self.p)
        given = dict((spec["given"], np.ascontiguousarray(spec["mask"])) for spec in layers if "given" in spec)
        self.inputs.update((variable, cntk.Value(mask)) for variable, mask in given.items())
        self.both = dict(self.inputs)
        self.both[classes] = cntk.Value.one_hot(labels.tolist(), count) if sparse else cntk.Value(labels)
        self.logits, self.criterion = x, LOSSES[job["network"]["loss"]](cntk, x, classes)
        make = cntk_layers.OPTIMIZERS[job["network"]["optimizer"]]
        learner = make(cntk, x.parameters, job["network"], self.batch)
        self.trainer = cntk.Trainer(x, (self.criterion, None), [learner])

    def work(self):
        counts = {}
        for name, w in self.p.items():
            counts[name] = 1
            for extent in w.shape:
                counts[name] *= extent
        return {
            "parameters": counts,
            "batch": self.batch,
            "dtype": self.logits.dtype.__name__,
            "layout": "inputs x outputs",  # in NumPy's order; CNTK stores columns
        }

    def forward(self):
        return self.logits.eval(self.inputs, as_numpy=False)

    def outputs(self):
        return self.forward().asarray().reshape(self.batch, -1)

    def gradient(self):
        return self.criterion.grad(self.both, wrt=list(self.p.values()), as_numpy=False)

    def step(self):
        self.trainer.train_minibatch(self.both)

    def loss(self):
        return float(self.criterion.eval(self.both).astype("float64").mean())

    def gradients(self):
        gradients = self.criterion.grad(self.both, wrt=list(self.p.values()))
        return dict((name, gradients[w].reshape(self.shapes[name]) / self.batch) for name, w in self.p.items())

    def parameters(self):
        return dict((name, w.value.reshape(self.shapes[name]).copy()) for name, w in self.p.items())
