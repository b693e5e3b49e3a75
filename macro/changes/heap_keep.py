"""glibc's malloc that returns no memory: M_MMAP_MAX 0, M_TRIM_THRESHOLD large (mallopt(3))."""

from macro.changes import _heaps

CHANGE = _heaps.keeps()
