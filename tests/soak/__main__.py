"""Promises that take minutes a figure to measure, on a quiet machine, campaign by campaign."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import TypeAlias

from kernels.errors import UsageError
from micro.command.figure import Promise, document, exit_code, write
from micro.command.line import guarded
from micro.command.outputs import for_people, open_outputs
from micro.planning.options import Outputs, Parser
from tests.soak import busy, gates, generations, injections, kept, predictions, scripts

Campaign: TypeAlias = Callable[[], Iterator[Promise]]
# A name before a colon stands for all that begin with it. All go on where they were stopped.
CAMPAIGNS: dict[str, Campaign] = {
    "generations": generations.figures,
    "explain": injections.in_numpy,
    "graphs": injections.in_graphs,
    "sequences": injections.in_sequences,
    "predictions": predictions.figures,
    "own:injected": scripts.injected,
    "own:equal": scripts.equal,
    "own:knock": scripts.knocked_out,
    "own:plain": scripts.plain,
    "own:busy": busy.figures,
    "own:foretold": predictions.of_scripts,
    "gate:equal": gates.equal,
    "gate:busy": gates.busy,
    "gate:slower": gates.slower,
}


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    options = Parser("python -m tests.soak", description=__doc__, allow_abbrev=False)
    names = ", ".join(CAMPAIGNS)
    options.add_argument(
        "campaigns", nargs="*", metavar="NAME", help=f"{names}; a name before a colon stands for all of it (all)"
    )
    options.add_argument("--json", metavar="FILE", help="write the figures as JSON (- is stdout)")
    return options


def main(argv: Sequence[str] | None = None) -> int:
    """Run the campaigns; return 0 where every figure is as promised or not judged, else 1."""
    arguments = parser().parse_args(argv)
    return guarded("tests.soak", lambda: run(arguments.campaigns, arguments.json))


def run(words: Sequence[str], json_file: str | None = None) -> int:
    """Print each figure as soon as it is known; return the exit code. Raises UsageError."""
    names = [name for word in words or [""] for name in _named(word)]
    outputs, started = Outputs(documents={"json": json_file} if json_file else {}), datetime.now(UTC).isoformat()
    figures: list[Promise] = []
    with ExitStack() as stack:
        opened = open_outputs(outputs, stack)
        for name in names:
            for figure in _until_failed(name):
                print(figure.say(), file=for_people(outputs), flush=True)
                figures.append(figure)
        write(document(started, figures), opened.get("json"))
    return exit_code(figures)


def _named(word: str) -> list[str]:
    """Return the names of the campaigns that a word stands for, all for an empty one. Raises UsageError."""
    names = [name for name in CAMPAIGNS if word in ("", name, name.partition(":")[0])]
    if not names:
        raise UsageError(f"{word}: there are {', '.join(CAMPAIGNS)}")
    return names


def _until_failed(name: str) -> Iterator[Promise]:
    """Yield the figures of a campaign; a command of it that fails ends this campaign, not those after it."""
    try:
        yield from CAMPAIGNS[name]()
    except kept.Failed as failed:
        text, busy = ("skipped", str(failed)) if failed.missing else (str(failed), None)
        yield Promise(name, text, "to be measured", False, busy)


if __name__ == "__main__":
    sys.exit(main())
