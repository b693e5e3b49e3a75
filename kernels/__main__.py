"""The doctor, `python -m kernels`: parts present, parts missing, and the command that installs each."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Print the doctor's report; return 0 if a CPU, a C compiler and OpenBLAS work, else 1."""
    parser = argparse.ArgumentParser("python -m kernels", description="Report installed and missing parts.")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    arguments = parser.parse_args(argv)

    from kernels.doctor import screen
    from kernels.doctor.survey import document, survey

    inventory = survey()
    if hasattr(sys.stdout, "reconfigure"):
        # A model's name or a path may hold what the locale cannot print.
        sys.stdout.reconfigure(errors="backslashreplace")
    report = document(inventory) | {"remarks": dict(screen.remarks(inventory))}
    print(json.dumps(report, indent=1) if arguments.json else "\n".join(screen.lines(inventory)))
    return 0 if inventory.works else 1


if __name__ == "__main__":
    sys.exit(main())
