"""A kernel of the user's own: a Variant, or any function that is called as `function(problem, *operands)`."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import itertools
import os
import sys
import zlib
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from kernels.dtypes import UNIT_ROUNDOFF
from kernels.errors import UsageError, said
from kernels.launch import Bind, Launch
from kernels.variant import Variant

if TYPE_CHECKING:
    from kernels.devices.base import Device


def load(name: str) -> Variant[Any]:
    """`module:NAME` or `file.py:NAME`. Raises UsageError.

    A function gets arrays in the problem's order, inputs first, and writes the outputs; or it returns a
    Launch, which is then what is timed. Its attribute `precision` says what it computes in, fp32 if none;
    `device` which kind of device its arrays are on, cpu if none.
    """
    place, _, attribute = name.rpartition(":")
    try:
        module = _module(place)
        found = getattr(module, attribute)
    except FileNotFoundError:
        raise UsageError(f"--variant {name}: there is no file {place}") from None
    except (Exception, SystemExit) as error:  # the file is the user's: anything may be wrong with it
        raise UsageError(f"--variant {name}: {said(error)}") from None
    if isinstance(found, Variant):
        return found
    if not callable(found):
        raise UsageError(f"--variant {name}: neither a function nor a Variant (kernels.variant.Variant)")
    precision = getattr(found, "precision", "fp32")
    if precision not in UNIT_ROUNDOFF:
        raise UsageError(f"--variant {name}: its precision {precision!r}: there are {', '.join(UNIT_ROUNDOFF)}")
    return Variant(
        name,
        getattr(found, "device", "cpu"),
        "user",
        partial(_prepare, found),
        precision,
        kernel=lambda: (_digest(module), None),
        python=True,
    )


def _module(place: str) -> ModuleType:
    if not place.endswith(".py"):
        return importlib.import_module(place)
    # A name of its own: two files may be called alike, or like an installed package.
    name = f"kernelgap_users_{zlib.crc32(os.path.abspath(place).encode()):08x}"
    spec = importlib.util.spec_from_file_location(name, place)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # where a dataclass looks its module up
    spec.loader.exec_module(module)
    return module


def _digest(module: ModuleType) -> str | None:
    """Its file, and what was in it."""
    if module.__file__ is None:
        return None
    content = Path(module.__file__).read_bytes()
    return f"{Path(module.__file__).name} sha256:{hashlib.sha256(content).hexdigest()[:12]}"


def _prepare(function: Callable[..., Any], problem: Any, device: Device, setting: object) -> Bind:
    """Called once on scratch operands: its compilers run here, and it shows whether it returns a Launch."""
    import numpy as np

    unit = device.kind.alignment
    sizes = [-(-x.nbytes // unit) * unit for x in problem.operands()]
    block = device.allocate(sum(sizes))
    offsets = itertools.accumulate(sizes, initial=0)
    device.scatter(block, seed=1)  # garbage would overflow, and warn
    views = [device.view(block, at, x) for at, x in zip(offsets, problem.operands(), strict=False)]
    for view, x in zip(views, problem.operands(), strict=True):
        if x.below:
            device.put(view, problem.indices(x, np.random.default_rng(1)))
    launches = isinstance(function(problem, *views), Launch)

    def bind(views: Sequence[Any]) -> Launch:
        if not launches:
            return Launch(partial(function, problem, *views))
        launch: Launch = function(problem, *views)
        return launch

    return bind
