"""Names of a user's objects, by the variables and attributes that hold them.

Only references are read: variables of frames, items of containers, attribute dicts.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

Holds = Callable[[Any], "dict[int, str]"]
NOT_NAMES = ("self", "module", "mod", "m", "layer", "block", "cls", "obj", "_")
COMPILED = "_orig_mod"  # attribute of a module that torch.compile wraps
DEEP = 40  # frames to search
PACKAGES = ("site-packages", "dist-packages")  # names of folders of packages, on the path wherever they are


def in_frames(wanted: Any, skip: tuple[str, ...], holds: Holds | None = None) -> str | None:
    """Return the outermost variable in non-library frames that is or holds the object `wanted`, or None.

    `skip`: prefixes of library file names; `holds(value)`: {id of an object inside `value`: its path}.
    """
    frame: FrameType | None = sys._getframe(1)
    best = None
    for _ in range(DEEP):
        if frame is None:
            break
        if not frame.f_code.co_filename.startswith(skip):
            name = _among(frame.f_locals, wanted, holds)
            best = name or best
        frame = frame.f_back
    return best


def _among(variables: dict[str, Any], wanted: Any, holds: Holds | None) -> str | None:
    for name, value in list(variables.items()):
        if value is wanted and name not in NOT_NAMES and not name.startswith("__"):
            return name
    for name, value in list(variables.items()):
        if name.startswith("__"):
            continue
        below = _below(value, wanted, holds)
        if below:
            return below[1:] if name in NOT_NAMES and below.startswith(".") else name + below
    return None


def _below(value: Any, wanted: Any, holds: Holds | None) -> str:
    """Return the path to the object `wanted` inside `value`, such as `[0]` or `.net`; '' if not inside."""
    item = _item(value, wanted)
    if item:
        return item
    path = holds(value).get(id(wanted)) if holds else None
    return "." + path if path else inside(value, wanted, holds)


def _item(value: Any, wanted: Any) -> str:
    if type(value) in (list, tuple):
        return next((f"[{i}]" for i, item in enumerate(value[:64]) if item is wanted), "")
    if type(value) is dict:
        return next((f"[{key!r}]" for key, item in list(value.items())[:64] if item is wanted), "")
    return ""


def inside(value: Any, wanted: Any, holds: Holds | None = None) -> str:
    """Return the path to `wanted` by an attribute of `value`, such as `.hidden[0]`; '' if not inside."""
    attributes = getattr(value, "__dict__", None)
    if type(attributes) is not dict:
        return ""
    attributes = [(name, held) for name, held in list(attributes.items())[:256] if name != "_modules"]
    for name, held in attributes:
        if held is wanted:
            return f".{name}"
    for name, held in attributes:
        item = _item(held, wanted)
        if item:
            return f".{name}{item}"
        path = holds(held).get(id(wanted)) if holds else None
        if path:
            return f".{name}.{path}"
    return ""


def instances(kind: type) -> list[Any]:
    """Return all objects of a class that exist in this process."""
    return [x for x in gc.get_objects() if issubclass(type(x), kind)]


def tidy(path: str) -> str:
    """Return a path without the attribute by which torch.compile wraps a module."""
    return ".".join(part for part in path.split(".") if part != COMPILED) or path


def library_folders() -> tuple[str, ...]:
    """Return prefixes of library file names: this folder, standard library, packages, built-in code (<)."""
    import sysconfig

    paths = sysconfig.get_paths()
    folders = {paths[x] for x in ("stdlib", "platstdlib", "purelib", "platlib") if paths.get(x)}
    folders |= {path for path in sys.path if os.path.basename(path.rstrip("/")) in PACKAGES}
    return tuple(folders | {os.path.dirname(os.path.abspath(__file__)), "<"})
