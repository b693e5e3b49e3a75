"""Settings of a PyTorch process that decide how long a step takes, as they are when its steps are watched."""

from __future__ import annotations

import os
import sys
from typing import Any

import names  # beside this file

DENORMAL = 1e-40  # of float32; times 1 it is 0 if denormal numbers are flushed
PREFIXES = ("OMP_", "GOMP_", "KMP_", "MKL_", "OPENBLAS_", "DNNL_", "ONEDNN_", "ATEN_", "TORCH_", "PYTORCH_")
NAMES = ("LD_PRELOAD", "GLIBC_TUNABLES", "MALLOC_ARENA_MAX")
QUOTA = "/sys/fs/cgroup/cpu.max"


def settings(torch: Any, optimizers: list[Any]) -> dict[str, Any]:
    """Return switches of PyTorch, cores, loaders, optimizers and variables; unknown to this PyTorch: None."""
    return {
        "anomaly": _called(torch, "is_anomaly_enabled"),
        "deterministic": _called(torch, "are_deterministic_algorithms_enabled"),
        "default_dtype": str(torch.get_default_dtype()).rpartition(".")[2],
        "matmul": matmul_precision(torch),
        "bf16": _called(torch.cpu, "_is_avx512_bf16_supported") or _called(torch.cpu, "_is_amx_tile_supported"),
        "onednn": _called(torch._C, "_get_mkldnn_enabled"),
        "flushed": float(torch.full((1,), DENORMAL, dtype=torch.float32).mul(1.0)) == 0.0,
        "gradients": torch.is_grad_enabled(),
        "tracer": bool(sys.gettrace() or sys.getprofile()),
        "cores": cores(),
        "loaders": loaders(torch),
        "parameters": sorted({str(p.dtype).rpartition(".")[2] for x in optimizers for p in _parameters(x)}),
        "optimizers": [_optimizer(x) for x in optimizers],
        "variables": {name: x for name, x in os.environ.items() if name.startswith(PREFIXES) or name in NAMES},
    }


def cores() -> float:
    """Return the cores that this process may use, by its affinity and its control group's quota; at least 1."""
    allowed = float(len(os.sched_getaffinity(0)))
    try:
        with open(QUOTA) as file:
            quota, period = file.read().split()
    except (OSError, ValueError):
        return allowed
    return allowed if quota == "max" else max(1.0, min(allowed, float(quota) / float(period)))


def _called(holder: Any, name: str) -> Any:
    function = getattr(holder, name, None)
    return function() if function else None


def matmul_precision(torch: Any) -> str | None:
    """Return the precision of float32 products, "medium" if they run in bfloat16; None if it is set by backend."""
    try:
        return str(torch.get_float32_matmul_precision())
    except RuntimeError:  # both ways of setting it are in use
        return None


def loaders(torch: Any) -> list[dict[str, Any]]:
    """Return the data loaders: workers, batch, whether the data set is tensors in memory and taken in order.

    A loader that only a loop refers to is gone, so that its iterator stands for it. `batch`: samples that are collected
    one by one; None where the data set gives batches."""
    data = torch.utils.data
    there = [(x._index_sampler, x.dataset, x.num_workers, x._auto_collation) for x in names.instances(data.DataLoader)]
    known = {id(sampler) for sampler, *_ in there}
    iterators = names.instances(data.dataloader._BaseDataLoaderIter)
    there += [
        (x._index_sampler, x._dataset, x._num_workers, x._auto_collation)
        for x in iterators
        if id(x._index_sampler) not in known
    ]
    return [
        {
            "workers": workers,
            "batch": getattr(sampler, "batch_size", None) if collects else None,
            "in_memory": type(dataset) is data.TensorDataset,
            "in_order": isinstance(getattr(sampler, "sampler", sampler), data.SequentialSampler),
        }
        for sampler, dataset, workers, collects in there
    ]


def _parameters(optimizer: Any) -> list[Any]:
    return [p for group in optimizer.param_groups for p in group["params"]]


def _optimizer(optimizer: Any) -> dict[str, Any]:
    """Return an optimizer's class, its number of tensors, and how it updates them."""
    groups = optimizer.param_groups
    return {
        "kind": type(optimizer).__name__,
        "tensors": len(_parameters(optimizer)),
        "fused": groups[0].get("fused"),  # None: not an option of this optimizer, or not chosen
        "foreach": groups[0].get("foreach"),
        "fusible": "fused" in groups[0],
    }
