"""The command `explain` on a small network, in this process; nobody may be left of it."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kernels import state
from macro.__main__ import main
from macro.networks.base import chain
from macro.timing import groups
from macro.watching import perf, rounds, watch
from tests import processes
from tests.builds import share
from tests.conftest import Ran

SMALL = chain("small", "a test", 8, (12, 10, 9, 4), rate=0.1, momentum=0.5)
EIGHTH = chain("small", "FCN-R, an eighth of it each way", 16, (98, 256, 512, 128, 10), 0.05, 0.9)


@pytest.fixture(scope="module")
def explaining(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """With the network's file, and a state of its own that all tests here share."""
    made = tmp_path_factory.mktemp("explain")
    (made / "small.json").write_text(json.dumps(EIGHTH.data()))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(state.VARIABLE, str(share(made / "state")))
        state.folder.cache_clear()
        patch.setattr(rounds, "BLOCK", 0.05)
        patch.setattr(watch, "HANGS", 20.0)
        yield made
    state.folder.cache_clear()


@pytest.fixture
def explain(
    explaining: Path,
    capsys: pytest.CaptureFixture[str],
    in_process: Callable[..., Ran],
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Callable[..., Ran]]:
    """`explain("numpy", "numpy")`: the small network's, in this process; nothing of it is left after the test."""
    monkeypatch.setenv(processes.MARK, str(explaining))
    perf.missing.cache_clear()
    yield lambda *more: in_process(capsys, main, ["explain", str(explaining / "small.json"), "-q", *more])
    perf.missing.cache_clear()
    assert not processes.left(explaining)


@pytest.fixture
def without_perf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A PATH with all that is on it, but for perf."""
    for place in reversed(os.environ["PATH"].split(os.pathsep)):
        for path in Path(place).glob("*"):
            link = tmp_path / "bin" / path.name
            link.parent.mkdir(exist_ok=True)
            link.unlink(missing_ok=True)
            if path.name != "perf":
                link.symlink_to(path)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert shutil.which("perf") is None


@pytest.fixture
def small(tmp_path: Path, own_state: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of a network whose steps take no time, run in short blocks, in a state of its own."""
    monkeypatch.setattr(groups, "BLOCK", 0.001)
    path = tmp_path / "small.json"
    path.write_text(json.dumps(SMALL.data()))
    return path


@pytest.fixture
def another_vendor(monkeypatch: pytest.MonkeyPatch) -> None:
    """A processor of another vendor than MKL's."""
    from macro.changes import products

    monkeypatch.setattr(products, "vendor", lambda: "AuthenticAMD")
