"""What PyTorch's own allocator gives a call; oneDNN inside it has its memory from there too."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from typing import Any

EVENT = "[memory]"  # bytes given, or taken back with a minus
LEVEL, SILENT = "KINETO_LOG_LEVEL", "9"  # its profiler writes two lines to stderr else


def peak(torch: Any, call: Callable[[], object]) -> int:
    """Bytes that a call holds at a time, at most, of what it allocates itself."""
    os.environ.setdefault(LEVEL, SILENT)
    with torch.autograd.profiler.profile(profile_memory=True) as profile:
        call()
    events = [event for event in profile.kineto_results.events() if event.name() == EVENT]
    sizes = (int(event.nbytes()) for event in sorted(events, key=lambda event: event.start_ns()))
    return max(itertools.accumulate(sizes, initial=0))
