"""Do frameworks do the same work? Compare losses, gradients and steps from the same weights with NumPy's."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from kernels.errors import UsageError
from macro import command

if TYPE_CHECKING:
    from macro.equality.proof import Verdict
    from macro.frameworks import Framework
    from macro.networks.base import Network
    from macro.processes.job import Setting


@dataclass(frozen=True)
class EqualRequest:
    """Parsed options: the network and the frameworks to compare with NumPy's reference."""

    network: Network
    batch: int
    frameworks: Sequence[tuple[Framework, Setting]]
    quiet: bool


def parser() -> argparse.ArgumentParser:
    """Return the command's parser."""
    options = command.parser("equal", __doc__)
    command.add_device(options)
    options.add_argument("-q", dest="quiet", action="store_true", help="no progress")
    return options


def request(argv: Sequence[str]) -> EqualRequest:
    """Parse the words of the command. Raises UsageError."""
    words = parser().parse_args(argv)
    net = command.network(words.network)
    batch, counts = command.batch(words.batch, net), command.threads(words.threads)
    if len(counts) > 1:
        raise UsageError(f"--threads {words.threads}: must be a single number, for all frameworks")
    rows = command.frameworks(words.frameworks)
    variables, devices = command.variables(words.set), command.devices(words.device)
    if len(devices) > 1:
        raise UsageError(f"--device {words.device}: must be a single device, for all frameworks")
    if words.frameworks == command.DEFAULT:  # not all of them run on every device
        rows = [row for row in rows if not command.elsewhere(row, devices[0])] or rows
    if lacking := next((why for row in rows if (why := command.elsewhere(row, devices[0]))), None):
        raise UsageError(f"--device {words.device}: {lacking}")
    wanted = [(row, command.setting(counts[0], "default", variables, devices[0])) for row in rows]
    return EqualRequest(net, batch, wanted, words.quiet)


def main(argv: Sequence[str]) -> int:
    """Run the command; return 0 if all frameworks that can run do equal work, 1 if not or if none can run."""
    from macro.equality.proof import prove

    asked = request(argv)
    net, batch = asked.network, asked.batch
    print(
        f"{net.name}, batch {batch}: {net.parameters:,} parameters, {net.flops(batch) / 1e9:.2f} GFLOP a step "
        f"({net.source})"
    )
    with tempfile.TemporaryDirectory(prefix="kernelgap-equal-") as folder:
        verdicts = prove(net, batch, asked.frameworks, Path(folder), partial(command.say, asked.quiet))
    for verdict in verdicts:
        print(f"  {verdict.framework}: {_line(verdict)}")
    compared = [verdict for verdict in verdicts if verdict.compared]
    return 0 if compared and all(verdict.equal for verdict in compared) else 1


def _line(verdict: Verdict) -> str:
    """Format a framework's verdict as the rest of its line."""
    if not verdict.compared:
        return f"not compared: {verdict.why}"
    losses = ", ".join(f"{loss:.6g}" for loss in verdict.losses)
    proof = f" ({verdict.proof})" if verdict.proof else ""
    equal = "equal" if verdict.equal else f"NOT EQUAL: {verdict.why}"
    return f"{equal}; losses {losses}; largest difference {verdict.worst:.2g} of its bound, in {verdict.where}{proof}"
