"""The facts of a probe, printed one by one: a crash loses only those after it."""

from __future__ import annotations

import importlib
import importlib.util
import json
import math
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from kernels.errors import Unavailable, said
from kernels.libs import cuda

_channel: list[int] = []  # the file that the runner reads; none outside of it


def listen(handle: int) -> None:
    """Facts of this process go to `handle`, a JSON line each."""
    _channel[:] = [handle]


def tell(line: dict[str, Any]) -> None:
    for handle in _channel:
        os.write(handle, json.dumps(line).encode() + b"\n")


class Facts:
    """Names and what was found under them; a question that raises is answered by what it raised."""

    def __init__(self) -> None:
        self.found: dict[str, Any] = {}

    def note(self, key: str, value: Any) -> None:
        self.found[key] = plain(value)
        tell({"key": key, "fact": self.found[key]})

    def ask(self, key: str, question: Callable[[], Any]) -> Any:
        """The answer, noted; None for one that raised."""
        try:
            answer = question()
        except Exception as error:  # whatever it raises is its answer
            self.note(key, {"error": reason(error)})
            return None
        self.note(key, answer)
        return answer


def reason(error: BaseException) -> str:
    """An exception on one line; what is not installed is unavailable, not at fault."""
    line = " ".join(said(error).split())[:600]
    if isinstance(error, Unavailable):
        return "unavailable: " + " ".join(str(error).split())[:600]
    return f"unavailable: {line}" if isinstance(error, ImportError) else line


def need(*packages: str) -> None:
    """Raise Unavailable where there is no GPU, or a package is not installed."""
    missing = cuda.missing()
    if missing and not (missing.startswith("cupy ") and "cupy" not in packages):
        raise Unavailable(missing)
    for name in packages:
        if not present(name):
            raise Unavailable(f"{name} is not installed")


def present(name: str) -> bool:
    """Whether Python would find a package, which is not imported."""
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False


def package(name: str) -> Any:
    """A module that need not be here, and is not type-checked. Raises ImportError."""
    return importlib.import_module(name)


def plain(value: Any) -> Any:
    """As JSON can say it: NaN and infinity become words, NumPy's numbers Python's, the rest its text."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, dict):
        return {str(key): plain(x) for key, x in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(x) for x in value]
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(float(value))
    item = getattr(value, "item", None)
    return plain(item()) if callable(item) and getattr(value, "size", 0) == 1 else str(value)


def fit(answer: Any, room: int) -> Any:
    """The answer in at most `room` bytes of JSON: its largest facts are left out, and said so."""
    over = len(json.dumps(answer)) - room
    if over <= 0:
        return answer
    kept = dict(answer) if isinstance(answer, dict) else {}
    sizes = {key: len(json.dumps(value)) for key, value in kept.items()}
    for key in sorted(sizes, key=lambda key: -sizes[key]):
        if over > 0:
            kept[key] = f"left out: {sizes[key]} bytes"
            over -= sizes[key] - len(json.dumps(kept[key]))
    return kept if over <= 0 and kept else f"left out: {over + room} bytes"


@contextmanager
def environment(**settings: str) -> Iterator[None]:
    """Variables of this process and of those it starts."""
    before = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
