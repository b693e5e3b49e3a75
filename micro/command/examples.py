"""The example scripts of docs/examples explained, each time in a process of its own whose run file stays."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from kernels import state, suite
from reports import store
from reports.record import Run

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "docs/examples"
MODELS = {"cnn": "net", "lstm": "model", "transformer": "model", "mlp": "net"}  # what each script calls its own
HEAP = "keep"  # of all of them


def folder() -> Path:
    """Where run files stay; who empties it begins anew."""
    path = state.folder() / "soak-own"
    path.mkdir(exist_ok=True)
    return path


def place() -> str:
    """The folder, as a person writes it."""
    path, home = folder(), Path.home()
    return f"~/{path.relative_to(home)}" if path.is_relative_to(home) else str(path)


def explained(name: str, scripts: Sequence[Path], *words: str) -> Run:
    """The run of `macro explain SCRIPTS WORDS`: one that is there, or made now. Raises RuntimeError where it fails."""
    path = folder() / f"{name}.jsonl"
    if not path.exists():
        part = path.with_suffix(".part.jsonl")
        for stale in folder().glob(f"{name}.part*"):  # of one that was killed; recordings too
            stale.unlink()
        command = suite.child("macro", "explain", *map(str, scripts), "--heap", HEAP, *words)
        command += ["-q", "-o", str(part)]
        ran = subprocess.run(
            command,
            cwd=ROOT,
            env=suite.environment(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
        if ran.returncode:
            raise RuntimeError((ran.stderr.strip().splitlines() or ["it says nothing"])[-1])
        part.replace(path)
    return store.read(path)
