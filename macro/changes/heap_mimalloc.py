"""mimalloc in place of glibc's malloc."""

from macro.changes import _heaps

CHANGE = _heaps.mimalloc()
