"""What would make a step faster on this machine? Predict every applicable change, then time the best."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from kernels.errors import UsageError
from macro import command, whatif
from micro.planning.options import outputs_of

if TYPE_CHECKING:
    from reports.store import RunFile

SHARES = "15 %% for kernels by themselves, half or more for timing in turns"  # of --budget


def parser() -> argparse.ArgumentParser:
    """Return the command's parser for a network's step."""
    return _with_shell(whatif.step_options("advise", __doc__, "5m", f"total without proofs of equal work: {SHARES}"))


def _with_shell(options: argparse.ArgumentParser) -> argparse.ArgumentParser:
    options.add_argument("--shell", metavar="FILE", type=Path, help="write the best settings as a file to source")
    return options


def main(argv: Sequence[str]) -> int:
    """Run the command; return its exit code, or the exit code for the signal that stopped it."""
    from macro.running import session

    of_script = _with_shell(whatif.script_options("advise", __doc__, "5m", f"total time: {SHARES}", 1, "must be 1"))
    words, step, seconds = whatif.parsed(argv, parser(), of_script)
    if step.script and words.runs > 1:
        raise UsageError(f"--runs {words.runs}: must be 1 for a script")
    if words.shell is not None and words.shell.exists():
        raise UsageError(f"--shell {words.shell}: file exists; name another file")
    if words.shell is not None and not words.shell.parent.is_dir():
        raise UsageError(f"--shell {words.shell}: the folder does not exist")
    outputs, shell = outputs_of(vars(words)), list[str]()
    if words.shell and outputs.output and words.shell.resolve() == outputs.output.resolve():
        raise UsageError(f"--shell {words.shell}: -o writes the same file; name another file")

    def measure(file: RunFile) -> None:
        from macro.predicting import advice

        say = partial(command.say, outputs.quiet)
        shell.append(advice.advise(whatif.seeded(step, file), seconds, file, say))

    code = session.kept("advise", outputs, [f"advise {step.key}"], measure)
    if words.shell is not None and shell:
        words.shell.write_text(shell[0], "utf-8")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
