"""The step in its forms by each library, and its parts alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kernels.libs.openblas import OPENBLAS
from kernels.libs.torch import TORCH
from kernels.ops.gemm.variants import LIBRARIES
from kernels.ops.update import libraries, native
from kernels.ops.update.accepts import called, fusable, fused_work, parts, rules, separate_work
from kernels.ops.update.problem import Update
from kernels.provider import SUITE
from kernels.variant import DEFAULT, Variant, row

if TYPE_CHECKING:
    pass


def _library(name: str, fused: tuple[str, ...], separate: tuple[str, ...]) -> tuple[Variant[Update], ...]:
    """Return the rows of a library: fused, separate, with two buffers, and the product alone.

    `fused` and `separate` are the roles of the first two.
    """
    provider, load = LIBRARIES[name]
    fuse, apart = native.library(load, "update_fused"), called(separate=True)
    once, twice = (native.library(load, "update_separate", buffers) for buffers in (1, 2))
    step, tied, gradient = parts("step"), parts("step", also=rules("tied")), native.library(load, "update_gradient")
    fusing = {"accepts": parts("step", also=fusable), "blas": called(separate=False), "work": fused_work}
    return (
        row(provider, f"fused:{name}", fuse, **fusing, roles=fused),
        row(provider, f"separate:{name}", once, accepts=step, blas=apart, work=separate_work(1), roles=separate),
        row(provider, f"two-buffers:{name}", twice, accepts=tied, blas=apart, work=separate_work(2), roles=()),
        row(provider, f"gradient:{name}", gradient, accepts=parts("wgrad"), blas=apart, roles=()),
    )


def _torch(name: str, step: libraries.Step, *of: str, **more: Any) -> Variant[Update]:
    return row(TORCH, f"{name}:torch", libraries.cpu(step), accepts=parts(*of, also=more.pop("also", None)), **more)


def _numpy(name: str, step: libraries.Step) -> Variant[Update]:
    return row(
        OPENBLAS,
        name,
        libraries.on_arrays(step),
        accepts=parts("step", also=rules("sgd")),
        python=True,
        work=separate_work(2),
        roles=("ways",),
    )


PASSES = ("sgd", "decay", "momentum", "unit", "nesterov", "clip", "tied")
EVERY = (DEFAULT, "ways")
VARIANTS: tuple[Variant[Update], ...] = (
    *_library("openblas", fused=EVERY, separate=EVERY),
    *_library("openblas-scipy", fused=("all",), separate=()),
    *_library("mkl", fused=EVERY, separate=(DEFAULT,)),
    _torch("fused", libraries.fused, "step", also=fusable, work=fused_work, roles=EVERY),
    _torch("separate", libraries.separate, "step", also=rules(*PASSES), work=separate_work(1), roles=EVERY),
    _torch("gradient", libraries.gradient, "wgrad", roles=()),
    _numpy("separate:numpy", libraries.numpy_separate),
    _numpy("temporaries:numpy", libraries.temporaries),
    row(SUITE, "c", native.c_pass, accepts=parts("update", "clear", "scale"), roles=("passes",)),
)
