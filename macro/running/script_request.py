"""Command lines of `macro explain SCRIPT` and `macro explain FILE.kg`, parsed into a request."""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from kernels.errors import UsageError
from kernels.heap import POLICIES
from macro.watching.kg import SUFFIX as RECORDING
from micro.planning.options import Outputs, add_documents, outputs_of
from micro.planning.request import SHARE, TIME, number

if TYPE_CHECKING:
    from macro.watching.script import Script

SECONDS, PATIENCE = "40s", "30s"
PROCESSES = 6  # of each script for --gate, the fewest that its interval needs
GATED = "compares two scripts, old.py new.py, or two modules, -m old.train -m new.train"
EXPLAINED = 0.5  # share of the budget for the explained pair of processes, with --gate
ABOUT = """\
Why does a step of this script take its time? A PyTorch script is run unmodified, and its steps are observed in
its training loop, or a module of a package, by -m app.train. Two are compared, also two .kg files, which are
recordings. Words after -- are passed to the script."""
EPILOG = """\
A step ends when the optimizer has stepped (of several, the one that steps least often); without optimizers, when the
outermost module is called. Or mark steps by these lines, without effect in other runs:
  try: from kernelgap import step
  except ImportError: from contextlib import nullcontext as step
and then `with step():` around each step."""


def parser() -> argparse.ArgumentParser:
    """Return the parser of the options."""
    from reports.parser import OneLineParser

    options = OneLineParser("python -m macro explain", description=ABOUT, epilog=EPILOG, allow_abbrev=False)
    options.formatter_class = argparse.RawDescriptionHelpFormatter
    options.add_argument(
        "what", nargs="*", metavar="SCRIPT.py|FILE.kg", help="a script or a recording, or two to compare"
    )
    add_script(options, SECONDS)
    options.add_argument(
        "--heap", metavar="WORD", help="default, keep, or both: default,keep (the initial heap, then freed memory kept)"
    )
    options.add_argument("--depth", type=int, metavar="N", help="depth of the module tree (modules of 1 %% or more)")
    options.add_argument(
        "--knock-out",
        metavar="PATHS",
        help="check rows by freezing parameters or skipping modules: net.fc2.weight,net.drop",
    )
    options.add_argument("--kernels", action="store_true", help="also measure the largest operations by themselves")
    options.add_argument(
        "--gate",
        metavar="SHARE",
        help=f"of two scripts: exit 1 if the second's step is significantly slower and its interval reaches SHARE, 2 "
        f"without a verdict; starts {PROCESSES} processes of each, or as many as --runs",
    )
    options.add_argument("--full", action="store_true", help="of two: also print the report of each by itself")
    options.add_argument(
        "-o", dest="output", metavar="FILE", type=Path, help="write the run file, and FILE.kg beside it"
    )
    add_documents(options, "attribution")
    options.add_argument("--figures", metavar="DIR", type=Path, help="draw pictures into this folder")
    options.add_argument("-q", dest="quiet", action="store_true", help="no progress, no first answers")
    options.add_argument("--resume", action="store_true", help=argparse.SUPPRESS)  # of networks
    options.set_defaults(runs=None)
    return options


def is_script(argv: Sequence[str], others: argparse.ArgumentParser) -> bool:
    """Return whether -m names a module, the first positional argument a script or a recording, or --gate is given."""
    if any(word.startswith(("-m", "--gate")) for word in split(argv)[0]):
        return True
    words = iter(argv)
    flags = {
        name
        for options in (others, parser())
        for action in options._actions
        if action.nargs == 0
        for name in action.option_strings
    }
    for word in words:
        if word == "--":
            return False
        if not word.startswith("-"):
            return word.endswith((".py", RECORDING))
        if word not in flags and "=" not in word:
            next(words, None)
    return False


@dataclass(frozen=True)
class GateRequest:
    """A gate of two scripts: pairs of processes that run plain steps alone, after the explained pair."""

    share: float
    pairs: int
    seconds: float  # of each


@dataclass(frozen=True)
class ScriptRequest:
    """Scripts to run or recordings to read, and the options of their explanation."""

    scripts: Sequence[Script]
    recordings: Sequence[Path]
    runs: int  # explained processes of each script
    kernels: bool
    depth: int | None
    outputs: Outputs
    gate: GateRequest | None = None
    full: bool = False  # also print the report of each of two scripts


def request(argv: Sequence[str]) -> ScriptRequest:
    """Parse the command line. Raises UsageError."""
    command, arguments = split(argv)
    words = parser().parse_intermixed_args(command)
    if words.resume:
        raise UsageError("--resume: a script's steps cannot be resumed; leave it out and name a new -o FILE")
    outputs, paths = outputs_of(vars(words)), [Path(word) for word in words.what]
    if paths and not words.module and all(path.suffix == RECORDING for path in paths):
        if len(paths) > 2:
            raise UsageError(f"{paths[2]}: give one recording, or two to compare")
        if words.gate is not None:
            raise UsageError(f"--gate {words.gate}: recordings ran apart; name the two scripts, which then take turns")
        return ScriptRequest((), paths, 1, words.kernels, words.depth, outputs, full=words.full)
    if words.module and paths:
        raise UsageError(f"-m {words.module[0]} {paths[0]}: give scripts or modules; arguments follow --")
    others = [path for i, path in enumerate(paths) if i > 1 or path.suffix != ".py"]
    if others and words.gate is not None:
        raise UsageError(f"{others[0]}: --gate {words.gate} {GATED}")
    if others:
        rest = " ".join(words.what[1:])
        raise UsageError(f"{others[0]}: give one or two scripts; their arguments follow --: {paths[0]} -- {rest}")
    share = None if words.gate is None else _share(words, len(paths) + len(words.module or ()))
    words.runs = words.runs or (1 if share is None else PROCESSES)
    scripts = _scripts(words, paths, arguments)
    known = words.kernels, words.depth, outputs
    if share is None:
        return ScriptRequest(scripts, (), words.runs, *known, full=words.full)
    seconds, pairs = scripts[0].seconds, words.runs
    scripts = [replace(script, seconds=EXPLAINED * seconds) for script in scripts]
    gate = GateRequest(share, pairs, (1 - EXPLAINED) * seconds / pairs)
    return ScriptRequest(scripts, (), 1, *known, gate, words.full)


def _share(words: argparse.Namespace, scripts: int) -> float:
    """Return the share of --gate. Raises UsageError for options that do not go with it."""
    text = f"--gate {words.gate}"
    share = number(words.gate, SHARE, "--gate", "5%")
    if scripts != 2:
        raise UsageError(f"{text}: {GATED}")
    if words.runs is not None and words.runs < PROCESSES:
        raise UsageError(f"--runs {words.runs}: {text} needs {PROCESSES} or more processes of each; leave --runs out")
    if words.stop == "never":
        raise UsageError(f"--stop never: {text} starts each script several times and ends it; leave --stop out")
    return share


def split(argv: Sequence[str]) -> tuple[list[str], list[str]]:
    """Split a command line at `--` into the command's arguments and the script's."""
    words = list(argv)
    at = words.index("--") if "--" in words else len(words)
    return words[:at], words[at + 1 :]


def _scripts(words: argparse.Namespace, paths: Sequence[Path], arguments: Sequence[str]) -> list[Script]:
    """Return a script for each path or module and each heap of --heap, two at most. Raises UsageError."""
    heaps = words.heap.split(",") if words.heap else [None]
    for heap in heaps:
        if heap is not None and heap not in POLICIES:
            raise UsageError(f"--heap {heap}: choose from {', '.join(POLICIES)}")
    scripts = [script_of(words, path, None, arguments) for path in paths]
    scripts += [script_of(words, None, module, arguments) for module in words.module]
    if not scripts:
        raise UsageError("name a script, or a module: -m app.train")
    if len(scripts) > 2:
        raise UsageError(f"-m {scripts[2].name}: give one or two modules")
    if len(heaps) * len(scripts) > 2:
        raise UsageError(f"--heap {words.heap}: give one heap; two only with a single script")
    knock_out = tuple(filter(None, (words.knock_out or "").split(",")))
    return [replace(script, knock_out=knock_out, heap=heap) for script in scripts for heap in heaps]


def add_script(
    options: argparse.ArgumentParser,
    budget: str,
    budget_help: str = "measuring and observation time",
    runs: int = 1,
    runs_help: str = "processes per script, one after another",
) -> None:
    """Add the options shared by commands that run a script, with the help texts of --budget and --runs."""
    from macro.watching.script import STOPS

    options.add_argument(
        "-m", dest="module", metavar="MODULE", action="append", default=[], help="run a module, as python -m does"
    )
    options.add_argument("--python", metavar="PATH", type=Path, help="interpreter that runs the script (this one)")
    options.add_argument("--step", metavar="WHERE", help="module:function, called once per step; or: forward")
    options.add_argument(
        "--stop", choices=STOPS, default="raise", help="how to end the script after enough steps (raise)"
    )
    options.add_argument("--threads", type=int, metavar="N", help="set the script's number of threads (unchanged)")
    options.add_argument("--runs", type=int, default=runs, metavar="N", help=f"{runs_help} ({runs})")
    options.add_argument("--budget", metavar="TIME", default=budget, help=f"{budget_help} ({budget})")
    options.add_argument(
        "--wait", metavar="TIME", default=PATIENCE, help=f"time limit for the first steps ({PATIENCE})"
    )


def script_of(words: argparse.Namespace, path: Path | None, module: str | None, arguments: Sequence[str]) -> Script:
    """Return the script at `path`, or the module, with the parsed options. Raises UsageError."""
    from macro.watching.script import Script

    if path is not None and not path.is_file():
        raise UsageError(f"{path}: no such script")
    if module is not None and ("/" in module or module.endswith(".py") or not all(module.split("."))):
        raise UsageError(f"-m {module}: must be a module's name, such as app.train; a file is named without -m")
    step, name = words.step, path.stem if path else module
    if step is not None and step != "forward" and not all(step.partition(":")[::2]):
        raise UsageError(f"--step {step}: must be module:function (in the script, {name}:function) or forward")
    if words.runs < 1:
        raise UsageError(f"--runs {words.runs}: must be 1 or more")
    if words.threads is not None and words.threads < 1:
        raise UsageError(f"--threads {words.threads}: must be 1 or more")
    return Script(
        path.resolve() if path else Path.cwd(),
        tuple(arguments),
        _interpreter(words.python),
        step,
        words.stop,
        words.threads,
        None,
        number(words.budget, TIME, "--budget", "40s"),
        number(words.wait, TIME, "--wait", "1m"),
        module=module,
    )


def _interpreter(asked: Path | None) -> Path:
    """Return the path of the requested interpreter, or of this one. Raises UsageError."""
    if asked is None:
        return Path(sys.executable)
    program = shutil.which(str(asked))
    if program is None:
        raise UsageError(f"--python {asked}: no such program; give a path, or a name on the PATH")
    return Path(program)
