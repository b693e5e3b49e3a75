"""Compiled kernels, cached for all tests by source, compiler and flags."""

from __future__ import annotations

import functools
import os
import tempfile
from pathlib import Path


@functools.cache
def kept() -> Path:
    """Of this user alone."""
    folder = Path(tempfile.gettempdir()) / f"kernelgap-tests-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    assert folder.stat().st_uid == os.getuid(), f"{folder} is somebody else's"
    return folder


def share(state: Path) -> Path:
    """Return a state folder, empty but for its builds, which are those of all tests."""
    build = kept() / "build"
    build.mkdir(mode=0o700, exist_ok=True)
    state.mkdir(parents=True, exist_ok=True)
    if not (state / "build").is_symlink():
        (state / "build").symlink_to(build)
    return state
