"""The list of benchmarks, `python -m micro`.

`python -m micro all` runs useful defaults of each and prints the answers; `--mechanisms` lists what each tests."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from kernels.devices import check_name
from kernels.errors import Unavailable, UsageError
from micro.command.line import guarded
from micro.planning.options import Parser, outputs_of
from micro.planning.request import TIME, number, replicates

BUDGET = "180s"


def parser() -> Parser:
    """Return the parser of `python -m micro`."""
    options = Parser("python -m micro", description=__doc__, allow_abbrev=False)
    options.add_argument("what", nargs="?", choices=("list", "all"), default="list", help="list benchmarks, or run all")
    options.add_argument("--device", default="cpu", help="cpu, cuda:0 (default cpu)")
    options.add_argument("--budget", default=BUDGET, metavar="TIME", help=f"measuring time (default {BUDGET})")
    options.add_argument("--replicate", default="1", metavar="N", help="repeat N times in fresh processes (default 1)")
    options.add_argument("--small", action="store_true", help="tiny sizes, to test the complete command")
    options.add_argument("-o", dest="output", metavar="FILE", type=Path, help="write the run file (JSON lines)")
    options.add_argument("--resume", action="store_true", help="continue the run in -o FILE, if it exists")
    options.add_argument(
        "--mechanisms",
        nargs="*",
        metavar="FILE",
        type=Path,
        help="list each mechanism, its test command and its last verdict in these run files or folders (default runs/)",
    )
    options.add_argument("-q", dest="quiet", action="store_true", help="no progress, only the answers")
    return options


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; return the exit code: 1 where a kernel was wrong or failed."""
    options = parser()
    arguments = options.parse_args(argv)
    if arguments.mechanisms is not None:
        from micro.answers import mechanisms

        _refuse_unused(options, arguments, "--mechanisms")
        return guarded("micro", lambda: mechanisms.show(arguments.mechanisms))
    if arguments.what == "list":
        _refuse_unused(options, arguments, "the list")
        return guarded("micro", _listed)
    return guarded("micro", lambda: measure(arguments))


def _refuse_unused(options: Parser, arguments: argparse.Namespace, what: str) -> None:
    """Raise a usage error for options of `all` beside a command that measures nothing."""
    for name, value in vars(arguments).items():
        if name not in ("what", "mechanisms") and value != options.get_default(name):
            option = {"output": "-o", "quiet": "-q"}.get(name, f"--{name}")
            options.error(f"{option}: no effect with {what}; use it with python -m micro all")
    if what == "--mechanisms" and arguments.what == "all":
        options.error("all: --mechanisms measures nothing; leave one of the two out")


def _listed() -> int:
    from micro.command.everything import benchmarks

    for name, benchmark in benchmarks().items():
        print(f"python -m micro.{name}")
        print(f"  {benchmark.about}")
        for flag, question in benchmark.questions.items():
            print(f"  --{flag.replace('_', '-')}: {question.help}")
    print("python -m micro all --budget 180s runs useful defaults of each")
    return 0


def measure(words: argparse.Namespace, ranks: range | None = None) -> int:
    """Measure the useful command lines of all benchmarks, of some ranks on a GPU; return the exit code."""
    from micro.command import everything

    device, outputs = words.device, outputs_of(vars(words))
    if outputs.resume and outputs.output is None:
        raise UsageError("--resume: requires a run file, -o FILE")
    check_name(device)
    budget, count = number(words.budget, TIME, "--budget", "180s"), replicates(words.replicate)
    todo, failed, checked = everything.parts(device, words.small, ranks or everything.ALL), False, 0
    todo = [replace(part, plan=replace(part.plan, replicates=count)) for part in todo]
    try:
        for i, (part, run) in enumerate(everything.run(todo, device, budget, outputs), 1):
            print(f"[{i}/{len(todo)}] {part.title}")
            for sentence in everything.answer(part, todo, run):
                print(f"  {sentence}")
            sys.stdout.flush()
            failed |= any(result.status in ("wrong", "failed") for result in run.results[checked:])
            checked = len(run.results)
    except Unavailable as error:
        raise UsageError(f"--device {device}: {error}") from None
    if outputs.output:
        print(f"run file: {outputs.output}: python -m reports show {outputs.output}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
