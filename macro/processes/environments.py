"""Environments of frameworks, created from recipes: interpreter, packages and stubs, all or nothing."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernels.errors import Unavailable, UsageError
from macro.frameworks import Framework, find, home, names
from macro.processes import stub

PROBE = "import sys; print('%d.%d' % sys.version_info[:2], flush=True); import ensurepip, venv"
PATIENCE = 3600.0  # seconds for one call of pip
KEPT = "environment.json"  # file inside an environment with its recipe, packages, size and creation time
MEASURED = frozenset(("recipe", "seconds", "megabytes"))  # required keys of this file
SPARE = 1.5  # times the recipe's size: wheels take room beside their unpacked files
UNREACHABLE = (
    "cannot reach a package index: on another machine, python{python} -m pip download -d FOLDER {packages}, "
    "then give --wheels FOLDER"
)
FLAWS = (  # patterns in pip's log and their causes; the first match counts
    (r"No space left on device", "the disk is full: {place} or the folder of TMPDIR"),
    (r"(?s)(?:NewConnection|NameResolution|ConnectTimeout)Error.*from versions: none", UNREACHABLE),
    (r"No matching distribution found for (\S+)", "no build of {0} for Python {python}{where}"),
    (r"(?:NewConnection|NameResolution|ConnectTimeout)Error", UNREACHABLE),
)


@dataclass(frozen=True)
class Environment:
    """An environment: its name, its recipe and the frameworks that run in it."""

    name: str
    recipe: dict[str, Any]
    rows: tuple[Framework, ...]

    @property
    def folder(self) -> Path:
        """Folder of the environment, whether it exists or not."""
        return home() / self.name

    @property
    def digest(self) -> str:
        """Hash of the recipe, without its estimated size."""
        parts = {key: value for key, value in self.recipe.items() if key != "megabytes"}  # an estimate
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


def every() -> dict[str, Environment]:
    """Return all environments with a recipe, by name; frameworks of one adapter file share an environment."""
    by_environment: dict[str, list[Framework]] = {}
    for framework in map(find, names()):
        if framework.recipe:
            by_environment.setdefault(framework.environment, []).append(framework)
    return {name: Environment(name, rows[0].recipe, tuple(rows)) for name, rows in by_environment.items()}


def named(name: str) -> Environment:
    """Return the environment with this name, or that of the framework with this name. Raises UsageError."""
    environments = every()
    if name in environments:
        return environments[name]
    for environment in environments.values():
        if name in (row.name for row in environment.rows):
            return environment
    if name in names():
        raise UsageError(f"{name}: runs in the suite's environment; nothing to create or remove")
    raise UsageError(f"{name}: choose from {', '.join([*environments, 'all'])}")


def missing(environment: Environment) -> dict[str, str]:
    """Return the frameworks whose required tools are not installed, each with the remedy."""
    needs = environment.recipe.get("needs", {})
    return {row: f"needs {tool}: apt-get install {tool}" for row, tool in needs.items() if not shutil.which(tool)}


def create(environment: Environment, wheels: Path | None, say: Callable[[str], None]) -> dict[str, Any]:
    """Create an environment; return its facts (see KEPT). Raises SuiteError and then leaves no files."""
    lacking = missing(environment)
    if len(lacking) == len(environment.rows):
        raise Unavailable(next(iter(lacking.values())))
    if wheels is not None and not wheels.is_dir():
        raise UsageError(f"--wheels {wheels}: no such folder; name a folder of wheels")
    base = interpreter(environment.recipe["python"])
    home().mkdir(parents=True, exist_ok=True)
    room = shutil.disk_usage(home()).free / 1e6
    wanted = environment.recipe.get("megabytes", 0) * SPARE
    if room < wanted:
        raise Unavailable(
            f"installing needs {wanted:.0f} MB, but {home()} has {room:.0f} MB free: free more, or set "
            "KERNELGAP_STATE to a folder on a larger disk"
        )
    with _locked(environment.name):
        partial = home() / f".{environment.name}.partial"
        shutil.rmtree(partial, ignore_errors=True)  # left by a killed creation
        try:
            began = time.monotonic()
            _build(environment, base, partial, wheels, say)
            kept = {
                "environment": environment.name,
                "recipe": environment.digest,
                "python": environment.recipe["python"],
                "packages": _packages(partial),
                "seconds": round(time.monotonic() - began, 1),
                "megabytes": round(size(partial) / 1e6),
            }
            (partial / KEPT).write_text(json.dumps(kept, indent=1), "utf-8")
            partial.rename(environment.folder)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    return kept


@contextmanager
def _locked(name: str) -> Iterator[None]:
    """Hold a lock against concurrent creation or removal of an environment. Raises UsageError if taken."""
    with (home() / f".{name}.lock").open("w") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise UsageError(f"{name}: another process is creating or removing this environment") from None
        yield


def _build(environment: Environment, base: Path, folder: Path, wheels: Path | None, say: Callable[[str], None]) -> None:
    recipe = environment.recipe
    completed = _python(base, "-m", "venv", folder)
    if completed.returncode:
        raise Unavailable(f"{base} -m venv fails: {_last(completed.stdout)}")
    options = ["--no-index", "--find-links", str(wheels.resolve())] if wheels else []
    stages = [(recipe.get("before", []), []), (recipe["packages"], recipe.get("options", []))]
    for url, packages in recipe.get("index", {}).items():  # only these packages come from another index
        stages.insert(1, (packages, ["--no-deps", *([] if wheels else ["--index-url", url])]))
    for packages, more in stages:
        if packages:
            say(f"{environment.name}: Python {recipe['python']}, {', '.join(packages)}")
            _install(environment, folder, [*options, *more], packages, wheels)
    for library, symbols in recipe.get("stubs", {}).items():
        say(f"{environment.name}: a stub of {library}, {stub.make(folder, library, symbols)} symbols")


def _install(
    environment: Environment, folder: Path, options: list[str], packages: list[str], wheels: Path | None
) -> None:
    """Install packages with the environment's pip, without cache: creation time includes downloads."""
    completed = _python(folder / "bin/python", "-m", "pip", "install", "--no-cache-dir", *options, *packages)
    if completed.returncode:
        facts = {
            "python": environment.recipe["python"],
            "packages": " ".join(packages),
            "place": home(),
            "where": f" in {wheels}" if wheels else " at the package index; --wheels FOLDER installs from a folder",
        }
        raise Unavailable(_flaw(completed.stdout, facts))


def _python(interpreter: Path, option: str, module: str, *words: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a module in an interpreter, errors in its output. Raises OSError; Unavailable after PATIENCE."""
    try:
        return subprocess.run(
            (interpreter, option, module, *words),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env=clean() | {"PIP_DISABLE_PIP_VERSION_CHECK": "1"},
            timeout=PATIENCE,
        )
    except subprocess.TimeoutExpired:
        raise Unavailable(f"{module} timed out after {PATIENCE:.0f} s") from None


def _flaw(log: str, facts: dict[str, Any]) -> str:
    """Return the cause of pip's failure in one line, derived from its log."""
    for pattern, text in FLAWS:
        if match := re.search(pattern, log):
            return text.format(*match.groups(), **facts)
    return f"pip fails: {_last(log)}"


def _last(log: str) -> str:
    """Return the last error line of a log, or its last line if it has none."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    complaints = [line for line in lines if re.match(r"(?i)(\w*error\b|fatal)", line)]
    return ([*lines[-1:], *complaints] or ["no output"])[-1][:300]


def _packages(folder: Path) -> list[str]:
    completed = _python(folder / "bin/python", "-m", "pip", "list", "--format=freeze")
    return sorted(line for line in completed.stdout.splitlines() if re.fullmatch(r"\S+==\S+", line))


def size(folder: Path) -> int:
    """Return the disk space of a folder's files, in bytes."""
    return sum(x.lstat().st_blocks * 512 for x in folder.rglob("*"))


def kept(environment: Environment) -> dict[str, Any]:
    """Return the facts of an environment (see KEPT); empty if it is missing or its file is invalid."""
    try:
        record = json.loads((environment.folder / KEPT).read_bytes())
    except (OSError, ValueError):
        return {}
    return record if isinstance(record, dict) and record.keys() >= MEASURED else {}


def keep(environment: Environment, record: dict[str, Any]) -> None:
    """Write an environment's facts (see KEPT) into its folder, atomically."""
    path = environment.folder / KEPT
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps(record, indent=1), "utf-8")
    fresh.replace(path)


def remove(environment: Environment) -> None:
    """Delete an environment. Raises UsageError if it does not exist."""
    if not environment.folder.exists():
        raise UsageError(f"{environment.name}: no such environment in {home()}")
    with _locked(environment.name):
        gone = home() / f".{environment.name}.partial"
        shutil.rmtree(gone, ignore_errors=True)
        environment.folder.rename(gone)  # first: an interrupted removal leaves no incomplete environment
        shutil.rmtree(gone)


def candidates(version: str) -> list[Path]:
    """Return candidate interpreters of a version: the suite's, PATH's, then pyenv's, newest first."""
    paths = [Path(sys.executable)] if version == "{}.{}".format(*sys.version_info[:2]) else []
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        paths.append(Path(folder or ".") / f"python{version}")
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    pyenv = sorted(root.glob(f"{version}.*"), key=lambda x: [int(n) for n in re.findall(r"\d+", x.name)])
    return [x for x in [*paths, *(x / f"bin/python{version}" for x in reversed(pyenv))] if x.is_file()]


def interpreter(version: str) -> Path:
    """Return an interpreter of a version, tested to create environments. Raises UsageError, Unavailable."""
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
        if "venv" in why:  # not a shim without an interpreter, such as pyenv's on the PATH
            flaws.append(f"{path}: {why}")
    if flaws:
        raise Unavailable(f"{flaws[0]}: apt-get install python{version}-venv")
    raise Unavailable(
        f"Python {version} not found: pyenv install {version}, or set {variable}=/path/to/python{version}"
    )


def refused(path: Path, version: str) -> str | None:
    """Return the reason why this interpreter cannot be used, or None if it can."""
    try:
        completed = subprocess.run(
            [path, "-c", PROBE], capture_output=True, text=True, errors="replace", timeout=60, env=clean()
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"does not run ({type(error).__name__})"
    answer = completed.stdout.strip()
    if answer != version:
        return f"is Python {answer}, not {version}" if answer else f"is not Python {version}"
    return "has no venv or ensurepip" if completed.returncode else None


def clean() -> dict[str, str]:
    """Return the environment variables without those that redirect Python's imports."""
    return {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")}
