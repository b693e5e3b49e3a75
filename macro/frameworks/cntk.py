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
        layers, shape = job["network"]["layers"], job["network"]["input"]
        ids = [x["rows"] for x in layers if x["kind"] == "embedding"]
        if len(set(ids)) > 1:
            raise NotImplementedError("this suite's CNTK adapter has tables of one number of rows only")
        if ids or len(shape) == 2:  # sequences
            features = cntk.sequence.input_variable(ids[0] if ids else shape[1], is_sparse=bool(ids))
        else:
            features = cntk.input_variable(tuple(shape))
        count, sparse, steps = layers[-1]["out"][-1], job["network"]["loss"] == "softmax", layers[-1]["out"][:-1]
        variable = cntk.sequence.input_variable if steps else cntk.input_variable
        classes = variable(count, is_sparse=sparse)
        self.steps, self.losses = tuple(steps), self.batch * (steps[0] if steps else 1)
        x, self.p = cntk_layers.network(cntk, layers, features)
        by_name = dict((spec["name"], spec) for spec in layers)
        self.form = lambda name, array: cntk_layers.lying(by_name[name.rpartition(".")[0]], name, array)
        with np.load(job["weights"]) as weights, np.load(job["data"]) as data:
            for name, parameter in self.p.items():
                parameter.value = self.form(name, weights[name]).reshape(parameter.shape)
            labels = numpy_losses.wanted(job["network"], data["labels"], np.int64)
            self.words = _words(data["x"], layers) if ids else None
            value = cntk.Value.one_hot(self.words, ids[0]) if ids else cntk.Value(np.ascontiguousarray(data["x"]))
            self.inputs = {features: value}
            self.shapes = dict((name, weights[name].shape) for name in self.p)
        given = dict((spec["given"], np.ascontiguousarray(spec["mask"])) for spec in layers if "given" in spec)
        self.inputs.update((variable, cntk.Value(mask)) for variable, mask in given.items())
        self.features, self.ids = features, ids[0] if ids else 0
        self.both = dict(self.inputs)
        self.both[classes] = cntk.Value.one_hot(labels.tolist(), count) if sparse else cntk.Value(labels)
        self.logits, self.criterion = x, LOSSES[job["network"]["loss"]](cntk, x, classes)
        if ids and job["network"]["optimizer"] == "adam":
            raise NotImplementedError("CNTK's Adam takes no sparse gradients, which its embeddings have")
        make = cntk_layers.OPTIMIZERS[job["network"]["optimizer"]]
        learner = make(cntk, x.parameters, job["network"], self.losses)
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
        values = self.logits.eval(self.inputs)
        return np.array(values).reshape((self.batch,) + self.steps + (-1,))

    def gradient(self):
        return self.criterion.grad(self.both, wrt=list(self.p.values()), as_numpy=False)

    def step(self):
        self.trainer.train_minibatch(self.both)

    def loss(self):
        return float(np.array(self.criterion.eval(self.both)).astype("float64").mean())

    def gradients(self):
        criterion, given = self.criterion, self.both
        if self.words:  # as rows of numbers: CNTK cannot give out a gradient that only some rows of a table have
            dense = self.cntk.sequence.input_variable(self.ids)
            given = dict((x, value) for x, value in given.items() if x is not self.features)
            inputs = dict([(x, x) for x in given] + [(self.features, dense)])
            criterion = criterion.clone(self.cntk.CloneMethod.share, inputs)
            given[dense] = [_one_hot(row, self.ids) for row in self.words]
        gradients = criterion.grad(given, wrt=list(self.p.values()))
        by_name = dict((name, gradients[w].reshape(self.shapes[name]) / self.losses) for name, w in self.p.items())
        return dict((name, self.form(name, array)) for name, array in by_name.items())

    def parameters(self):
        by_name = dict((name, w.value.reshape(self.shapes[name]).copy()) for name, w in self.p.items())
        return dict((name, self.form(name, array)) for name, array in by_name.items())


def _one_hot(ids, rows):
    array = np.zeros((len(ids), rows), np.float32)
    array[np.arange(len(ids)), ids] = 1
    return array


def _words(x, layers):
    """Return the ids of each sequence, without the padding that a mean leaves out."""
    padded = any(spec["kind"] == "mean" and "input" in spec["after"] for spec in layers)
    return [[i for i in row if i or not padded] for row in x.tolist()]
