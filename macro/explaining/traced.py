"""`macro explain TRACE.json.gz`: where the time of a GPU goes, by what a profiler saw of it anywhere."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from kernels.errors import UsageError

HEAD = 1 << 20  # bytes of a file in which a trace has the key of events; no network's is as long


def parser() -> argparse.ArgumentParser:
    """Return the parser of the options."""
    from reports.parser import OneLineParser

    options = OneLineParser("python -m macro explain", description=__doc__, allow_abbrev=False)
    options.add_argument("trace", metavar="TRACE.json[.gz]", type=Path, help="as torch.profiler exports it")
    options.add_argument("--step", default="", metavar="NAME", help="the annotation around a step (the profiler's own)")
    options.add_argument("--json", metavar="FILE", help="write what is told as a document (- is stdout)")
    return options


def is_trace(argv: Sequence[str]) -> bool:
    """True if the first word that is no option, nor an option's value, names a trace.
    It is compressed, has the key of events, is a bare list, or is long: `net.json` is a network."""
    valued = {name for action in parser()._actions if action.nargs != 0 for name in action.option_strings}
    words = [word for before, word in zip(["", *argv], argv, strict=False) if before not in valued]
    first = Path(next((word for word in words if not word.startswith("-")), ""))
    try:
        with first.open("rb") as file:
            head = file.read(HEAD)
    except OSError:
        return first.name.endswith(".json.gz")
    marked = b'"traceEvents"' in head or head.lstrip().startswith(b"[") or len(head) == HEAD
    return head.startswith(b"\x1f\x8b") or (first.suffix == ".json" and marked)


def main(argv: Sequence[str]) -> int:
    """Run the command; return the exit code. Raises UsageError."""
    from macro.explaining.device_time import account, facts, time_range
    from macro.traces import chrome
    from micro.command.outputs import for_people, open_outputs
    from micro.planning.options import Outputs
    from reports import device, documents

    words = parser().parse_args(argv)
    if words.json and Path(words.json).exists() and words.trace.exists() and words.trace.samefile(words.json):
        raise UsageError(f"--json {words.json}: it is the trace itself: name another")
    outputs = Outputs(documents={"json": words.json} if words.json else {})
    with ExitStack() as stack:
        opened = open_outputs(outputs, stack)
        trace = chrome.read(words.trace, words.step)
        windows = trace.steps or [time_range(trace.devices)]
        accounts = [facts(account(x, windows)) for x in trace.devices]
        print("\n".join(device.text(accounts)), file=for_people(outputs))
        for stream in opened.values():
            try:
                json.dump({"trace": str(words.trace), "step": words.step, "devices": accounts}, stream, indent=1)
                stream.write("\n")
                documents.finish(stream)
            except OSError as error:
                raise UsageError(f"--json {words.json}: {error.strerror or error}") from None
    return 0
