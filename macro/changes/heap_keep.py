"""glibc's malloc gives nothing back: M_MMAP_MAX 0, M_TRIM_THRESHOLD large (mallopt(3)), by variables."""

from macro.changes import _heaps

CHANGE = _heaps.keeps()
