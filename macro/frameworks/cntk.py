"""CNTK 2.7 (the last): Dense layers, cross_entropy_with_softmax, momentum SGD without unit gain, a Trainer.

Its gradients are sums over the batch; the learners take their mean, as CNTK itself does with `use_mean_gradient`.
"""

ROWS = {"cntk": {}}
RECIPE = {
    "environment": "cntk",
    "python": "3.6",
    "packages": ["cntk==2.7", "numpy==1.19.5", "scipy==1.5.4"],
    # It is linked to MPI, which only distributed training needs. A function of the stub ends the process.
    "stubs": {
        "libmpi.so.12": {"folder": "cntk/libs", "symbols": "MPI_|ompi_", "data": "ompi_mpi_"},
        "libmpi_cxx.so.1": {"folder": "cntk/libs", "symbols": "_Z[A-Z]*N3MPI", "data": "_ZT[VI]"},
    },
    "megabytes": 424,
    "needs": {"cntk": "gcc"},
}
TUNED = {}


def configure(job):
    import cntk

    cntk.device.try_set_default_device(cntk.device.cpu())
    cntk.cntk_py.set_max_num_cpu_threads(job["threads"]) if hasattr(
        cntk.cntk_py, "set_max_num_cpu_threads"
    ) else None


def available():
    import cntk
    import numpy as np

    x = cntk.input_variable(2)
    cntk.times(x, np.eye(2, dtype=np.float32)).eval({x: np.zeros((1, 2), np.float32)})
    return None


def build(job):
    return Model(job)
