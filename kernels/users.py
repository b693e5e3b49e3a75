"""A user's kernel: a Variant, or any function that is called as `function(problem, *operands)`."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import itertools
import os
import re
import sys
import traceback
import zlib
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from kernels import state, suite, users_c
from kernels.dtypes import UNIT_ROUNDOFF
from kernels.errors import UsageError, summary
from kernels.launch import Bind, Launch
from kernels.variant import Variant

if TYPE_CHECKING:
    from kernels.devices.base import Device


MODULE = "kernelgap_users_"  # prefix of the names of modules loaded from users' files
PICKLED = ".pkl"


def load(name: str) -> Variant[Any]:
    """Return the variant of a user's kernel. Raises UsageError.

    A name is `module:NAME`, `file.py:NAME`, `file.c:NAME`, `file.so:NAME`, or the result of `name_of`. A function
    gets arrays in the problem's order, inputs first, and writes the outputs; or it returns a Launch, which is then
    timed. Attributes of a function: `precision`, its arithmetic, fp32 by default; `device`, the kind of device of
    its arrays, cpu by default."""
    place, _, attribute = name.rpartition(":")
    try:
        if place.endswith(users_c.SUFFIXES):
            return _compiled(name, Path(place), attribute)
        kernel, path = _pickled(Path(place)) if place.endswith(PICKLED) else _attribute(place, attribute)
    except FileNotFoundError:
        raise UsageError(f"--variant {name}: no file {place}") from None
    except UsageError as error:
        raise UsageError(f"--variant {name}: {error}") from None
    except (Exception, SystemExit) as error:  # the file is the user's: anything may be wrong with it
        raise UsageError(f"--variant {name}: {raised(error)}") from None
    if isinstance(kernel, Variant):
        return kernel
    if not callable(kernel):
        raise UsageError(f"--variant {name}: must be a function or a Variant (from kernelgap import Variant)")
    precision = getattr(kernel, "precision", "fp32")
    precisions = [x for x in UNIT_ROUNDOFF if x != "fp64"]  # no operation has outputs of fp64
    if precision not in precisions:
        raise UsageError(f"--variant {name}: precision {precision!r}: choose from {', '.join(precisions)}")
    return Variant(
        name,
        getattr(kernel, "device", "cpu"),
        "user",
        partial(_prepare, kernel),
        precision,
        kernel=lambda: (_digest(path), None),
        python=True,
    )


def _compiled(name: str, path: Path, function: str) -> Variant[Any]:
    """Return the variant of a function in C."""
    prepare = users_c.prepare_of(path, function)
    return Variant(name, "cpu", "user", prepare, kernel=lambda: (_digest(path), None))


def name_of(function: Callable[..., Any]) -> str:
    """Return the variant name of a Python function. Raises UsageError if it cannot be pickled.

    A top-level function of a module is named by the module's file; a function of a script or notebook, and a nested
    function, is pickled into the state folder with the objects that it refers to."""
    module, qualname = sys.modules.get(function.__module__), getattr(function, "__qualname__", "")
    source = getattr(module, "__file__", None) or ""
    if module and source.endswith(".py") and module.__name__ != "__main__" and vars(module).get(qualname) is function:
        return f"{source}:{qualname}"
    import cloudpickle

    try:
        content = cloudpickle.dumps(function)
    except Exception as error:  # of whatever it refers to
        raise UsageError(
            f"variant {qualname or function!r}: cannot be pickled ({summary(error)}): define it in a file"
        ) from None
    name = re.sub(r"\W+", "_", qualname.rpartition(".")[2]).strip("_") or "function"
    path = state.write_bytes(f"functions/{name}-{hashlib.sha256(content).hexdigest()[:12]}{PICKLED}", content)
    return f"{path}:{name}"


def raised(error: BaseException) -> str:
    """Return an exception of a user's code on one line, with the file and line that raised it."""
    lines = [
        f"{Path(frame.f_code.co_filename).name}, line {number}"
        for frame, number in traceback.walk_tb(error.__traceback__)
        if str(frame.f_globals.get("__name__")).startswith(MODULE)
    ]
    return summary(error) + (f" ({lines[-1]})" if lines else "") + suite.import_hint(error)


def _pickled(path: Path) -> tuple[Any, Path]:
    """Return a function that `name_of` pickled, and its file."""
    import pickle

    return pickle.loads(path.read_bytes()), path


def _attribute(place: str, name: str) -> tuple[Any, Path | None]:
    """Return a module's attribute, and the module's file. Raises UsageError."""
    module = module_of(place)
    if name not in vars(module):
        functions = [x for x, value in vars(module).items() if callable(value) and not x.startswith("_")]
        defined = [x for x in functions if getattr(vars(module)[x], "__module__", None) == module.__name__]
        raise UsageError(f"{Path(place).name} has no {name}; it has {', '.join(defined or functions) or 'no function'}")
    return vars(module)[name], Path(module.__file__) if module.__file__ else None


def module_of(place: str) -> ModuleType:
    """Import a user's file or module, which can import files beside it and in the current folder."""
    if "." not in place and Path(f"{place}.py").is_file():  # before an installed module of that name
        place = f"{place}.py"
    folders = [os.getcwd(), *([os.path.dirname(os.path.abspath(place))] if place.endswith(".py") else [])]
    sys.path += [folder for folder in dict.fromkeys(folders) if folder not in sys.path]  # a worker's path has neither
    if not place.endswith(".py"):
        return importlib.import_module(place)
    # A unique name, because two files may be called alike, or like an installed package.
    name = f"{MODULE}{zlib.crc32(os.path.abspath(place).encode()):08x}"
    spec = importlib.util.spec_from_file_location(name, place)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # where a dataclass looks its module up
    spec.loader.exec_module(module)
    return module


def _digest(path: Path | None) -> str | None:
    """Return a file's name and the digest of its content."""
    return f"{path.name} sha256:{hashlib.sha256(path.read_bytes()).hexdigest()[:12]}" if path else None


def _prepare(function: Callable[..., Any], problem: Any, device: Device, setting: object) -> Bind:
    """Call the function once on scratch operands, which compiles it and shows whether it returns a Launch."""
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
