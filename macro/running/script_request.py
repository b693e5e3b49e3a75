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
from micro.planning.request import TIME, number

if TYPE_CHECKING:
    from macro.watching.script import Script

SECONDS, PATIENCE = "40s", "30s"
ABOUT = """\
Why does a step of this program take the time it takes? A PyTorch script is run as it is, and its steps are watched in
its own loop; a file .kg is such a recording, two of them are compared. Words behind -- are the script's own."""
EPILOG = """\
A step ends with that of an optimizer (of several, the one that steps least often); without one, with a call of the
outermost module. Or mark it in two lines, which do nothing where nobody looks:
  try: from kernelgap import step
  except ImportError: from contextlib import nullcontext as step
and then `with step():` around what is one."""


def parser() -> argparse.ArgumentParser:
    """Return the parser of the options."""
    from reports.parser import OneLineParser

    options = OneLineParser("python -m macro explain", description=ABOUT, epilog=EPILOG, allow_abbrev=False)
    options.formatter_class = argparse.RawDescriptionHelpFormatter
    options.add_argument(
        "what", nargs="+", metavar="SCRIPT.py|FILE.kg", help="a script or a recording, or two that are compared"
    )
    add_script(options, SECONDS)
    options.add_argument(
        "--heap", metavar="WORD", help="default, keep, or both: default,keep (as it starts, then freed memory kept)"
    )
    options.add_argument("--depth", type=int, metavar="N", help="of the tree of modules (all that take a hundredth)")
    options.add_argument(
        "--knock-out",
        metavar="PATHS",
        help="parameters to freeze, modules to skip: do their rows go? net.fc2.weight,net.drop",
    )
    options.add_argument("--kernels", action="store_true", help="measure its largest operations by themselves too")
    options.add_argument(
        "-o", dest="output", metavar="FILE", type=Path, help="write the run file, and FILE.kg beside it"
    )
    add_documents(options, "attribution")
    options.add_argument("--figures", metavar="DIR", type=Path, help="draw pictures into this folder")
    options.add_argument("-q", dest="quiet", action="store_true", help="no progress, no first answers")
    options.set_defaults(resume=False)
    return options


def is_script(argv: Sequence[str], others: argparse.ArgumentParser) -> bool:
    """Return whether the first positional argument names a script or a recording."""
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
class ScriptRequest:
    """Scripts to run or recordings to read, and the options of their explanation."""

    scripts: Sequence[Script]
    recordings: Sequence[Path]
    runs: int
    kernels: bool
    depth: int | None
    outputs: Outputs


def request(argv: Sequence[str]) -> ScriptRequest:
    """Parse the command line. Raises UsageError."""
    command, arguments = split(argv)
    words = parser().parse_args(command)
    outputs, paths = outputs_of(vars(words)), [Path(word) for word in words.what]
    if all(path.suffix == RECORDING for path in paths):
        if len(paths) > 2:
            raise UsageError(f"{paths[2]}: one recording, or two that are compared")
        return ScriptRequest((), paths, 1, words.kernels, words.depth, outputs)
    if len(paths) > 2 or not all(path.suffix == ".py" for path in paths):
        rest = " ".join(words.what[1:])
        raise UsageError(f"{paths[1]}: one script, or two; their own words stand behind --: {paths[0]} -- {rest}")
    return ScriptRequest(_scripts(words, paths, arguments), (), words.runs, words.kernels, words.depth, outputs)


def split(argv: Sequence[str]) -> tuple[list[str], list[str]]:
    """Split a command line at `--` into the command's arguments and the script's."""
    words = list(argv)
    at = words.index("--") if "--" in words else len(words)
    return words[:at], words[at + 1 :]


def _scripts(words: argparse.Namespace, paths: Sequence[Path], arguments: Sequence[str]) -> list[Script]:
    """Return a script for each path and each heap of --heap, two at most. Raises UsageError."""
    for path in paths:
        if not path.is_file():
            raise UsageError(f"{path}: there is no such script")
    heaps = words.heap.split(",") if words.heap else [None]
    for heap in heaps:
        if heap is not None and heap not in POLICIES:
            raise UsageError(f"--heap {heap}: there are {', '.join(POLICIES)}")
    if len(heaps) * len(paths) > 2:
        raise UsageError(f"--heap {words.heap}: one, or of a single script two that are compared")
    first = script_of(words, paths[0], arguments)
    first = replace(first, knock_out=tuple(filter(None, (words.knock_out or "").split(","))))
    return [replace(first, path=path.resolve(), heap=heap) for path in paths for heap in heaps]


def add_script(
    options: argparse.ArgumentParser, budget: str, budget_help: str = "seconds of measuring or watching"
) -> None:
    """Add the options shared by commands that run a script; `budget_help`: help text of --budget."""
    from macro.watching.script import STOPS

    options.add_argument("--python", metavar="PATH", type=Path, help="the interpreter that runs it (this one)")
    options.add_argument("--step", metavar="WHERE", help="module:function, each call of which is a step; or: forward")
    options.add_argument("--stop", choices=STOPS, default="raise", help="how it is ended when enough was seen (raise)")
    options.add_argument("--threads", type=int, metavar="N", help="set in its environment (as the script has it)")
    runs = "processes of each, one after another (1); of a changed step one"
    options.add_argument("--runs", type=int, default=1, metavar="N", help=runs)
    options.add_argument("--budget", metavar="TIME", default=budget, help=f"{budget_help} ({budget})")
    options.add_argument("--wait", metavar="TIME", default=PATIENCE, help=f"for its first steps ({PATIENCE})")


def script_of(words: argparse.Namespace, path: Path, arguments: Sequence[str]) -> Script:
    """Return the script at `path` with the parsed options. Raises UsageError."""
    from macro.watching.script import Script

    if not path.is_file():
        raise UsageError(f"{path}: there is no such script")
    step = words.step
    if step is not None and step != "forward" and not all(step.partition(":")[::2]):
        raise UsageError(f"--step {step}: module:function, of the script itself {path.stem}:function, or forward")
    if words.runs < 1:
        raise UsageError(f"--runs {words.runs}: take 1 or more")
    if words.threads is not None and words.threads < 1:
        raise UsageError(f"--threads {words.threads}: take 1 or more")
    return Script(
        path.resolve(),
        tuple(arguments),
        _interpreter(words.python),
        step,
        words.stop,
        words.threads,
        None,
        number(words.budget, TIME, "--budget", "40s"),
        number(words.wait, TIME, "--wait", "1m"),
    )


def _interpreter(asked: Path | None) -> Path:
    """Return the path of the requested interpreter, or of this one. Raises UsageError."""
    if asked is None:
        return Path(sys.executable)
    program = shutil.which(str(asked))
    if program is None:
        raise UsageError(f"--python {asked}: no such program; it is a path, or a name on the PATH")
    return Path(program)
