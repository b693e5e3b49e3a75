"""Do these frameworks do the same work? Losses, gradients and steps from the same weights, against NumPy's."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from macro import command


def main(argv: Sequence[str]) -> int:
    """0 where all that can run do equal work; 1 where one does other work, or none could be compared."""
    made = command.parser("equal", __doc__)
    arguments = made.parse_args(argv)
    net = command.network(arguments)
    batch = command.batch(arguments, net)
    wanted = [
        (framework, command.setting(framework, command.threads(arguments.threads)[0], "default", "default")[0])
        for framework in command.frameworks(arguments.frameworks)
    ]
    from macro.equality.proof import prove

    print(
        f"{net.name}, batch {batch}: {net.parameters:,} parameters, {net.flops(batch) / 1e9:.2f} GFLOP a step "
        f"({net.source})"
    )
    with tempfile.TemporaryDirectory(prefix="kernelgap-equal-") as folder:
        verdicts = prove(net, batch, wanted, Path(folder), partial(command.say, arguments.quiet))
    for verdict in verdicts:
        if verdict.worst != verdict.worst:
            print(f"  {verdict.framework}: not compared: {verdict.why}")
            continue
        losses = ", ".join(f"{loss:.6g}" for loss in verdict.losses)
        how = f"largest difference {verdict.worst:.2g} of its bound, in {verdict.where}"
        told = "equal" if verdict.equal else f"NOT EQUAL: {verdict.why}"
        print(f"  {verdict.framework}: {told}; losses {losses}; {how}")
    compared = [verdict for verdict in verdicts if verdict.worst == verdict.worst]
    return 0 if compared and all(verdict.equal for verdict in compared) else 1
