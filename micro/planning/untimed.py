"""Refusal of options about timing where nothing is timed."""

from __future__ import annotations

from kernels.errors import UsageError
from micro.planning.options import Options


def refuse(options: Options) -> None:
    """Raise UsageError for options about timing or files, beside an option that times or writes nothing."""
    timing = {
        "--replicate": options.replicate if options.replicate != "1" else None,
        "--budget": options.budget,
        "--target": options.target if options.target != "1%" else None,
        "--margin": options.margin,
    }
    for option, given in (("--until", options.until != "time"), ("--profile", options.profile is not None)):
        for name, text in timing.items():
            if given and text is not None:
                raise UsageError(f"{name} {text}: with {option} nothing is timed; leave one of the two out")
    if options.profile is None:
        return
    outputs = options.outputs
    files = {"-o": outputs.output, "--figures": outputs.figures}
    for name, path in (*files.items(), *((f"--{kind}", path) for kind, path in outputs.documents.items())):
        if path is not None:
            raise UsageError(f"{name} {path}: --profile writes no run file; leave one of the two out")
    if options.until != "time":
        raise UsageError(f"--until {options.until}: --profile stops after one launch; leave one of the two out")
