"""The step in its forms, by each library; and its parts alone, for the sum of the parts."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from kernels.libs import mkl, openblas
from kernels.libs import torch as torch_library
from kernels.ops.update import frameworks, native
from kernels.ops.update.accepts import called, fusable, fused_work, parts, rules, separate_work
from kernels.ops.update.problem import Update
from kernels.variant import DEFAULT, Variant

if TYPE_CHECKING:
    from kernels.libs.cblas import Blas

LIBRARIES: dict[str, tuple[Callable[[], Blas], Callable[[], str | None]]] = {
    "openblas": (partial(openblas.load, "numpy"), partial(openblas.missing, "numpy")),
    "openblas-scipy": (partial(openblas.load, "scipy"), partial(openblas.missing, "scipy")),
    "mkl": (mkl.load, mkl.missing),
}


def _told(load: Callable[[], Blas]) -> Callable[[], tuple[str | None, str | None]]:
    def kernel() -> tuple[str | None, str | None]:
        library = load()
        kernels = f" {library.kernels} kernels" if library.kernels else ""
        return f"{library.version}{kernels}", library.isa

    return kernel


def _library(name: str, fused: tuple[str, ...], separate: tuple[str, ...]) -> tuple[Variant[Update], ...]:
    """One product; a product and a pass, and the roles of these two; two buffers and their sum; the product alone."""
    load, missing = LIBRARIES[name]
    row = partial(Variant[Update], device="cpu", provider=name, missing=missing, kernel=_told(load))
    return (
        row(
            f"fused:{name}",
            prepare=native.library(load, "update_fused"),
            accepts=parts("step", also=fusable),
            blas=called(separate=False),
            work=fused_work,
            roles=fused,
        ),
        row(
            f"separate:{name}",
            prepare=native.library(load, "update_separate", 1),
            accepts=parts("step"),
            blas=called(separate=True),
            work=separate_work(1),
            roles=separate,
        ),
        row(
            f"two-buffers:{name}",
            prepare=native.library(load, "update_separate", 2),
            accepts=parts("step", also=rules("tied")),
            blas=called(separate=True),
            work=separate_work(2),
            roles=(),
        ),
        row(
            f"gradient:{name}",
            prepare=native.library(load, "update_gradient"),
            accepts=parts("wgrad"),
            blas=called(separate=True),
            roles=(),
        ),
    )


def _torch(name: str, step: frameworks.Step, *of: str, **more: Any) -> Variant[Update]:
    return Variant(
        f"{name}:torch",
        "cpu",
        "torch",
        frameworks.cpu(step),
        accepts=parts(*of, also=more.pop("also", None)),
        missing=torch_library.missing,
        kernel=torch_library.kernel,
        python=True,
        **more,
    )


def _numpy(name: str, step: frameworks.Step) -> Variant[Update]:
    return Variant(
        name,
        "cpu",
        "openblas",
        frameworks.on_arrays(step),
        accepts=parts("step", also=rules("sgd")),
        missing=partial(openblas.missing, "numpy"),
        kernel=_told(LIBRARIES["openblas"][0]),
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
    _torch("fused", frameworks.fused, "step", also=fusable, work=fused_work, roles=EVERY),
    _torch("separate", frameworks.separate, "step", also=rules(*PASSES), work=separate_work(1), roles=EVERY),
    _torch("gradient", frameworks.gradient, "wgrad", roles=()),
    _numpy("separate:numpy", frameworks.numpy_separate),
    _numpy("temporaries:numpy", frameworks.temporaries),
    Variant("c", "cpu", "suite", native.own, accepts=parts("update", "clear", "scale"), roles=("passes",)),
)
FAMILIES: dict[str, Callable[[str], Variant[Any]]] = {}
