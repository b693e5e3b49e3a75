"""Run the cases with clocks and print which reports are right: `make cases`, or `python -m tests.cases NAME…`."""

from __future__ import annotations

import subprocess
import sys
import time

from tests.cases.court import Case, cases


def judged(case: Case) -> bool:
    """Explain a case's script, and print a line of the judgment; return whether its report is right."""
    began = time.monotonic()
    words = [sys.executable, "-m", "macro", "explain", str(case.script), "--budget", "20s", "-q"]
    report = subprocess.run(words, capture_output=True, text=True, check=False)
    faults = [*case.faults(report.stdout)] if report.returncode == 0 else [report.stderr.strip()[-200:]]
    print(f"{case.name}, {time.monotonic() - began:.0f} s: {'; '.join(faults) or 'right'}", flush=True)
    return not faults


if __name__ == "__main__":
    wanted = [case for case in cases() if case.name in sys.argv[1:] or not sys.argv[1:]]
    right = sum(map(judged, wanted))
    print(f"{right} of {len(wanted)} right")
    sys.exit(right < len(wanted))
