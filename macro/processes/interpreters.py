"""Interpreters of a version, tried: a name on the PATH may lead nowhere, a Python may lack venv."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from kernels.errors import Unavailable, UsageError

PROBE = "import sys; print('%d.%d' % sys.version_info[:2], flush=True); import ensurepip, venv"


def candidates(version: str) -> list[Path]:
    """Return interpreters that may be of this version: the suite's, PATH's, then pyenv's, newest first."""
    paths = [Path(sys.executable)] if version == "{}.{}".format(*sys.version_info[:2]) else []
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        paths.append(Path(folder or ".") / f"python{version}")
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    pyenv = sorted(root.glob(f"{version}.*"), key=lambda x: [int(n) for n in re.findall(r"\d+", x.name)])
    return [x for x in [*paths, *(x / f"bin/python{version}" for x in reversed(pyenv))] if x.is_file()]


def interpreter(version: str) -> Path:
    """Return an interpreter that was tried and can make environments. Raises UsageError, Unavailable."""
    variable = f"PYTHON{version.replace('.', '_')}"
    if asked := os.environ.get(variable):
        if why := refused(Path(asked), version):
            raise UsageError(f"{variable}={asked}: {why}")
        return Path(asked)
    flaws = []
    for path in candidates(version):
        why = refused(path, version)
        if why is None:
            return path
        if "venv" in why:  # not a name that leads nowhere, as pyenv's on the PATH
            flaws.append(f"{path}: {why}")
    if flaws:
        raise Unavailable(f"{flaws[0]}: apt-get install python{version}-venv")
    raise Unavailable(f"no Python {version}: pyenv install {version}, or {variable}=/where/python{version} is")


def refused(path: Path, version: str) -> str | None:
    """Return the reason why this interpreter does not serve, or None."""
    try:
        completed = subprocess.run(
            [path, "-c", PROBE], capture_output=True, text=True, errors="replace", timeout=60, env=clean()
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"it does not run ({type(error).__name__})"
    answer = completed.stdout.strip()
    if answer != version:
        return f"it is Python {answer}, not {version}" if answer else f"it is no Python {version}"
    return "it has no venv or ensurepip" if completed.returncode else None


def clean() -> dict[str, str]:
    """Return the environment's variables without those that lead a Python astray."""
    return {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")}
