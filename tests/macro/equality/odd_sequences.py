"""PyTorch with a mistake each in layers of sequences, on the networks MASKED and GRU; they join by their file."""

import importlib.util
import sys
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT), str(ROOT / "macro" / "agent"), str(ROOT / "macro" / "agent" / "core")]

from macro.networks.base import Network  # noqa: E402
from macro.networks.layers import Dense, Embedding, Mean, Recurrent  # noqa: E402

KINDS = ("embedding", "recurrent", "mean", "dense")
ROWS = {
    "right": {"change": "right"},
    "words": {"change": "words"},
    "swapped": {"change": "swapped"},
    "reset": {"change": "reset"},
    "double": {"change": "double"},
    "forget": {"change": "forget"},
    "short": {"change": "short"},
    "carried": {"change": "carried"},
}
RECIPE = {}


def net(*layers):
    table = Embedding(name="table", rows=50, width=6)
    return Network("odd", "a test", 18, (table, *layers, Dense(name="out", outputs=3)), rate=0.1, input=(9,))


MASKED = net(Recurrent(name="lstm", hidden=7, forget=1.0), Mean(name="mean", after=("lstm", "input")))
GRU = net(Recurrent(name="gru", hidden=7, cell="gru", biases=2, last=True))
FIELDS = {"double": {"biases": 2, "forget": 0.0}, "forget": {"forget": 0.0}, "reset": {"cell": "gru-before"}}


def available():
    return None


def identity(job):
    return {"framework": "of a test", "version": "1"}


def adapter(name):
    """A framework's adapter by its path: by name it would be the framework itself."""
    spec = importlib.util.spec_from_file_location(f"plain_{name}", ROOT / f"macro/frameworks/{name}.py")
    plain = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(plain)
    return plain


def swapped(torch, y):
    """A layer whose `batch_first` is forgotten."""

    def build(torch, spec):
        module, arrays = y(torch, spec)
        module.batch_first = False
        return module, arrays

    return build


def short(torch, y):
    """A mean over one step too few."""

    def mean(torch, spec):
        class Short(torch.nn.Module):
            def forward(self, x, ids):
                count = (ids != 0).sum(1, keepdim=True) - 1
                real = (torch.arange(ids.shape[1]) < count).unsqueeze(-1).float()
                return (x * real).sum(1) / real.sum(1)

        return Short(), {}

    return mean


def carried(torch, y):
    """A layer that begins where it ended."""

    def build(torch, spec):
        module, arrays = y(torch, spec)
        kept = [None]

        def forward(x):
            states, after = torch.nn.LSTM.forward(module, x, kept[0])
            kept[0] = tuple(state.detach() for state in after)
            return states

        module.forward = forward
        return module, arrays

    return build


PATCHES = {"swapped": ("recurrent", swapped), "short": ("mean", short), "carried": ("recurrent", carried)}


def build(job):
    import numpy as np
    import torch
    import torch_layers

    change = job["knobs"]["change"]
    network = GRU if any(layer.get("cell") == "gru" for layer in job["network"]["layers"]) else MASKED
    changed = [replace(x, **FIELDS.get(change, {})) if isinstance(x, Recurrent) else x for x in network.layers]
    plan = replace(network, layers=tuple(changed)).plan()
    job = dict(job, network=plan, knobs={})
    with np.load(job["weights"]) as given, np.load(job["data"]) as data:
        shapes = {f"{x['name']}.{key}": shape for x in plan["layers"] for key, shape in x["parameters"].items()}
        weights = {
            name: given[name] if name in given.files else np.zeros(shape, "f4") for name, shape in shapes.items()
        }
        words = {name: data[name][: len(data[name]) // plan["input"][0]] for name in data.files}
    own = Path(job["weights"]).with_name(f"own-{change}.npz")
    np.savez(own, **weights)
    job["weights"] = str(own)
    if change == "words":
        job["data"] = str(own.with_name("words.npz"))
        np.savez(job["data"], **words)
    if change == "reset":
        return adapter("numpy").Model(job)
    if change in PATCHES:
        kind, patch = PATCHES[change]
        torch_layers.KINDS[kind] = patch(torch, torch_layers.KINDS[kind])
    return adapter("pytorch").Model(job)
