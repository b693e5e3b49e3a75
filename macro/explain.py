"""Why does a step take its time, or A's longer than B's? Attribute the time to kernels, the gap to named causes."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from kernels.errors import UsageError
from macro import command
from micro.planning.options import Outputs, Parser, add_documents, outputs_of
from micro.planning.request import TIME, number

if TYPE_CHECKING:
    from macro.timing.entry import Plan
    from macro.watching.watch import Side

SECONDS = 40.0  # of watching, for each process
EPILOG = (
    "For a script: python -m macro explain train.py; its options: python -m macro explain train.py --help. "
    "For a GPU trace by torch.profiler: python -m macro explain trace.json.gz"
)
Value = TypeVar("Value")


def parser() -> argparse.ArgumentParser:
    """Return the command's parser."""
    from macro.networks.layer import PHASES

    options = Parser("python -m macro explain", description=__doc__, epilog=EPILOG, allow_abbrev=False)
    options.instead = command.INSTEAD
    options.add_argument("network", help="fcn-s, alexnet-r, …, or a file: net.json, net.py:NAME")
    options.add_argument("a", help="a framework")
    options.add_argument("b", help="the framework to compare A with; may be A itself, in another setting")
    options.add_argument("--phase", choices=PHASES, default="step", help="phase to explain (step)")
    options.add_argument("--batch", type=int, metavar="N", help="samples per step (the network's)")
    options.add_argument("--threads", default="1", metavar="N", help="threads of both (1)")
    options.add_argument("--heap", default="default", metavar="WORD", help="heap of both, or A's and B's: default,keep")
    command.add_device(options)
    command.add_variables(options)
    options.add_argument("--runs", type=int, default=1, metavar="N", help="processes per framework (1)")
    options.add_argument("--budget", metavar="TIME", help=f"observation time ({SECONDS:.0f}s per run)")
    options.add_argument(
        "--kernels", action="store_true", help="also measure the named products by themselves: the saving left in each"
    )
    options.add_argument("-o", dest="output", metavar="FILE", type=Path, help="write the run file, JSON lines")
    options.add_argument("--resume", action="store_true", help="continue the run in -o FILE, if any")
    add_documents(options, "attribution")
    options.add_argument("--figures", metavar="DIR", type=Path, help="draw the waterfall into this folder")
    options.add_argument("-q", dest="quiet", action="store_true", help="no progress, no first answers")
    return options


@dataclass(frozen=True)
class ExplainRequest:
    """Parsed options: the plan of watching, and the two sides to compare."""

    plan: Plan
    sides: Sequence[Side]  # A and B
    kernels: bool  # also measure the named products in isolation
    outputs: Outputs


def request(argv: Sequence[str]) -> ExplainRequest:
    """Parse the words of the command. Raises UsageError."""
    from macro.timing.entry import Plan

    words = parser().parse_args(argv)
    net = command.network(words.network)
    command.check(words)
    seconds = number(words.budget, TIME, "--budget", "60s") if words.budget else SECONDS * words.runs
    threads = _pair(command.threads(words.threads), "--threads")
    heaps = _pair(command.heaps(words.heap), "--heap")
    variables, devices = command.variables(words.set), command.devices(words.device)
    if len(devices) > 1:
        raise UsageError(
            f"--device {words.device}: must be a single device; macro run --device cpu,cuda:0 compares two"
        )
    names = [words.a, words.b]
    if devices != ["cpu"]:
        _check_device(words)
        names = command.twins(names)
    about = zip(names, threads, heaps, strict=True)
    sides = [_side(*side, variables, devices[0]) for side in about]
    if threads[0] != threads[1]:
        raise UsageError(f"--threads {words.threads}: must be the same for both sides, as it selects the clock")
    plan = Plan(net, command.batch(words.batch, net), words.phase, seconds, words.runs, asked=words.network)
    return ExplainRequest(plan, sides, words.kernels, outputs_of(vars(words)))


def _check_device(words: argparse.Namespace) -> None:
    """Raise UsageError for options that only apply to steps on a CPU."""
    asked = {"kernels": words.kernels, "json": words.json, "markdown": words.markdown, "figures": words.figures}
    if given := [option for option, value in asked.items() if value]:
        raise UsageError(f"--{given[0]}: only for steps on a CPU; -o FILE keeps the traces of a GPU step")


def _side(name: str, threads: int, heap: str, variables: dict[str, str], device: str) -> Side:
    """Return a side: a framework with its setting. Raises UsageError."""
    from macro.timing.entry import Entry
    from macro.watching.watch import Side

    rows = command.frameworks(name)
    if len(rows) > 1:
        raise UsageError(f"{name}: name one framework for each side")
    if why := command.elsewhere(rows[0], device):
        raise UsageError(f"--device {device}: {why}")
    return Side(Entry(rows[0], command.setting(threads, heap, variables, device)))


def main(argv: Sequence[str]) -> int:
    """Run the command; return its exit code."""
    from macro.explaining import device_time
    from macro.running import script, script_request

    if device_time.is_trace(argv):
        return device_time.main(argv)
    return script.main(argv, command.say) if script_request.is_script(argv, parser()) else _explain(request(argv))


def _explain(asked: ExplainRequest) -> int:
    from macro.explaining import measure
    from macro.running import on_device, script, session
    from macro.watching import resume

    outputs, say = asked.outputs, partial(command.say, asked.outputs.quiet)
    entries = [side.entry for side in asked.sides]
    if any(entry.setting.device != "cpu" for entry in entries):
        return on_device.main(asked.plan, entries, outputs, say)
    with session.opened(outputs, [resume.planned(asked.plan, asked.sides, asked.kernels)]) as (file, streams):
        kept, code = measure.Kept(asked.plan, asked.sides, file, None if outputs.quiet else say), 0
        note = measure.finished(file.run)
        if note:
            say(f"{file.path} is complete (from `{file.run.environment.command}`): nothing is measured")
        else:
            note, code = measure.measure(kept, asked.kernels, say)
            if file.path is not None and not kept.full and file.path.is_file():
                code = code or int(not measure.keep_recordings(kept.plan, kept.sides, file.path, say))
        if kept.full:
            outputs, code = replace(outputs, output=None), code or 1
        return script.say_all(replace(file.run, notes=(note,)), outputs, streams) or code


def _pair(values: list[Value], option: str) -> list[Value]:
    """Return the values of A and B, a single value for both. Raises UsageError."""
    if len(values) > 2:
        raise UsageError(f"{option}: give one value for both sides, or two: A's,B's")
    return values * 2 if len(values) == 1 else values
