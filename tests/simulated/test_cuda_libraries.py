"""Where NVIDIA's libraries are found when cuda.pathfinder does not know them."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from kernels.errors import Unavailable
from kernels.libs import cuda, cudnn_frontend
from tests.simulated import fake_frontend

MAPS = Path("/proc/self/maps")


@pytest.mark.skipif(not MAPS.exists(), reason="a system that does not say which libraries are loaded")
@pytest.mark.parametrize("error", [ValueError, LookupError])
def test_a_library_that_pathfinder_does_not_know_is_taken_from_its_wheel(
    error: type[Exception], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load_nvidia_dynamic_lib(name: str) -> None:
        raise error(f"unknown: {name}")

    pathfinder = SimpleNamespace(DynamicLibNotFoundError=LookupError, load_nvidia_dynamic_lib=load_nvidia_dynamic_lib)
    monkeypatch.setitem(sys.modules, "cuda.pathfinder", pathfinder)
    monkeypatch.setattr(cuda, "package", lambda name: None)
    monkeypatch.setattr(cuda, "load", cuda.load.__wrapped__)
    monkeypatch.syspath_prepend(tmp_path)
    folder = tmp_path / "nvidia" / "made_up" / "lib"
    folder.mkdir(parents=True)
    with pytest.raises(Unavailable, match="libmade_up is not here: unknown: made_up"):
        cuda.load("made_up")
    loaded = re.findall(r"(/\S*/libc[.-]\S*so\S*)", MAPS.read_text("utf-8"))
    (folder / "libmade_up.so.9").symlink_to(loaded[0])
    assert cuda.load("made_up").getpid() > 0


@pytest.mark.parametrize("release", ["1.17.0", "1.27.0", "2.0"])
def test_a_frontend_that_lists_no_engines_is_refused(monkeypatch: pytest.MonkeyPatch, release: str) -> None:
    module = fake_frontend.module()
    module.__version__ = release
    monkeypatch.setitem(sys.modules, "cudnn", module)
    with pytest.raises(Unavailable, match=rf"nvidia-cudnn-frontend {release} lists no engines: pip install"):
        cudnn_frontend.load()
    module.__version__ = "1.26.0"
    assert cudnn_frontend.load() is module
