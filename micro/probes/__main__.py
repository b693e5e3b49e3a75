"""Run every probe: `python -m micro.probes`."""

from __future__ import annotations

import signal
import sys

from micro.probing.checklist import main

if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    sys.exit(main())
