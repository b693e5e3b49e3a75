"""Environments of frameworks: `env create jax`, `env create all`, `env list`, `env remove jax`."""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

from kernels.errors import SuiteError, UsageError
from macro import command
from macro.frameworks import Framework, find, home, names
from macro.processes import environments
from macro.processes.environments import Environment
from reports.parser import OneLineParser


def parser() -> argparse.ArgumentParser:
    """Return the command's parser."""
    options = OneLineParser("python -m macro env", description=__doc__, allow_abbrev=False)
    actions = options.add_subparsers(dest="action", required=True, metavar="create|list|remove")
    for action, about in (("create", "create from a recipe, then test"), ("remove", "delete")):
        sub = actions.add_parser(action, help=about, description=about, allow_abbrev=False)
        sub.add_argument("name", nargs="+", help="a framework, an environment, or all")
        sub.add_argument("-q", dest="quiet", action="store_true", help="no progress")
        if action == "create":
            sub.add_argument(
                "--wheels",
                metavar="FOLDER",
                type=Path,
                help="install from this folder, not an index; `pip download -d FOLDER` elsewhere fills it",
            )
    sub = actions.add_parser("list", help="show environments, sizes, and what runs", allow_abbrev=False)
    sub.add_argument("--try", dest="again", action="store_true", help="test every framework again")
    return options


def main(argv: Sequence[str]) -> int:
    """Run the command; return 0 if all named environments run, 1 if something fails. Raises UsageError."""
    words = parser().parse_args(argv)
    if words.action == "list":
        return _list(words.again)
    say, failed = partial(command.say, words.quiet), 0
    for environment in _wanted(words.name, words.action):
        try:
            if words.action == "create":
                failed |= create(environment, words.wheels, say)
            else:
                environments.remove(environment)
                print(f"{environment.name}: removed")
        except UsageError:
            raise
        except (SuiteError, OSError) as error:
            print(f"{environment.name}: not {words.action}d: {error}")
            failed = 1
    return failed


def _wanted(given: Sequence[str], action: str) -> list[Environment]:
    """Return the named environments; `all`: those missing (create) or present (remove). Raises UsageError."""
    if list(given) == ["all"]:
        return [x for x in environments.every().values() if x.folder.exists() == (action == "remove")]
    by_name = {environment.name: environment for environment in map(environments.named, given)}
    return list(by_name.values())


def create(environment: Environment, wheels: Path | None, say: Callable[[str], None]) -> int:
    """Create an environment; return 1 if something in it does not run, else 0. Raises SuiteError."""
    if environment.folder.exists():
        record = environments.kept(environment)
        runs = all(row.get("runs") for row in record.get("rows", {"": {}}).values())
        if record.get("recipe") != environment.digest or not runs:
            why = "made from another recipe" if runs else "something in it does not run"
            raise UsageError(
                f"{environment.name}: exists, but {why}: python -m macro env remove {environment.name}, then create"
            )
    else:
        record = environments.create(environment, wheels, say)
        tried(environment, record, say)
    for line in _lines(environment, record):
        print(line)
    return int(not all(row["runs"] for row in record["rows"].values()))


def tried(environment: Environment, record: dict[str, Any], say: Callable[[str], None]) -> None:
    """Try every framework of an environment on a tiny network; store the results in its record."""
    lacking = environments.missing(environment)
    record["rows"] = {}
    for row in environment.rows:
        say(f"{environment.name}: testing {row.name}")
        why = lacking.get(row.name)
        record["rows"][row.name] = {"runs": False, "why": why} if why else attempt(row)
    environments.keep(environment, record)


def attempt(row: Framework) -> dict[str, Any]:
    """Train one step in a framework; return version and seconds, or the reason why it does not run."""
    from macro.networks.base import chain
    from macro.processes import job as job_files
    from macro.processes.process import Process

    net = chain("trial", "a trial", 2, (4, 3, 2), rate=0.1, momentum=0.9)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="kernelgap-env-") as name:
        folder = Path(name)
        job = job_files.write(row, net, 2, job_files.Setting(), folder)
        with Process(row, job, job_files.Setting(), folder / "log") as process:
            try:
                version = process.expect("hello").get("version")
                process.expect("built")
                process.ask(60.0, "steps", do="steps", phase="step", count=1)
            except SuiteError as error:
                last: dict[str, Any] = process.messages[-1] if process.messages else {}
                return {"runs": False, "why": str(last.get("reason") or error)}
    return {"runs": True, "version": version, "seconds": round(time.monotonic() - began, 1)}


def _list(again: bool) -> int:
    """Print all environments; return 1 if a framework of an existing environment does not run, else 0."""
    failed = 0
    print(f"Environments, in {home()}:")
    for environment in environments.every().values():
        record = environments.kept(environment)
        if record and (again or "rows" not in record):
            tried(environment, record, partial(command.say, False))
        for line in _lines(environment, record):
            print(line)
        failed |= any(not row["runs"] for row in record.get("rows", {}).values())
    suite = [name for name in names() if not find(name).recipe]
    print(f"  the suite's environment: {', '.join(suite)}")
    return int(failed)


def _lines(environment: Environment, record: dict[str, Any]) -> list[str]:
    """Return lines about an environment and each of its frameworks."""
    recipe = environment.recipe
    head = f"  {environment.name:<11} Python {recipe['python']:<5}"
    if not record:
        rows = ", ".join(row.name for row in environment.rows)
        broken = ", and its folder holds no environment" if environment.folder.exists() else ""
        elsewhere = _suites(environment)
        return [
            f"{head} not made (about {recipe.get('megabytes', 0)} MB){broken}: "
            f"python -m macro env create {environment.name}   {rows}{elsewhere}"
        ]
    stale = "" if record["recipe"] == environment.digest else "; made from another recipe"
    lines = [f"{head} {record['megabytes']} MB, made in {record['seconds']:.0f} s{stale}"]
    for name, row in record.get("rows", {}).items():
        if row["runs"]:
            lines.append(f"    {name:<19} runs: {row['version']}, first step after {row['seconds']:.1f} s")
        else:
            lines.append(f"    {name:<19} does not run: {row['why']}")
    return lines


def _suites(environment: Environment) -> str:
    """Return a note on the package in the suite's Python, used until the environment exists, or ""."""
    from macro.frameworks import interpreter

    package = environment.recipe["packages"][0].partition("==")[0]
    try:
        version = metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""
    if interpreter(environment.rows[0]) is None:
        return ""
    return f"; until then the suite's environment is used ({package} {version})"
