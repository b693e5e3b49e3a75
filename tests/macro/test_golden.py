"""What a person reads of `macro run`, `explain` and `equal`, word by word. `GOLDEN=write` rewrites what is expected.

The frameworks are stand-ins whose clock is scripted. What is left to the machine is masked (MASKS): its name, and how
far a loss is from another, whose last digits are those of the BLAS.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kernels import state
from macro.__main__ import main
from macro.timing import groups
from macro.timing.peak import Peak
from macro.watching import perf, rounds
from tests.builds import share
from tests.conftest import Ran, unsteered
from tests.macro.conftest import SMALL
from tests.simulated import frameworks

GOLDEN = Path(__file__).parent / "golden"
DEFECTS = Path(__file__).parent / "defects.py"
SHORT = ("--budget", "1ms", "-q")
RUNS = {
    "run": (0, ("run", "small.json", "--frameworks", "fast.py,slow.py", "--runs", "2", *SHORT)),
    "run-verbose": (0, ("run", "small.json", "--frameworks", "fast.py", "--runs", "1", "--budget", "1ms", "-v")),
    "run-wrong": (1, ("run", "small.json", "--frameworks", "fast.py,defects.py:sum-loss", "--runs", "1", *SHORT)),
    "explain": (0, ("explain", "small.json", "fast.py", "slow.py", *SHORT)),
    "explain-same": (0, ("explain", "small.json", "fast.py", "fast.py", "--phase", "forward", *SHORT)),
    "equal": (1, ("equal", "small.json", "--frameworks", "fast.py,defects.py:double-softmax,absent.py", "-q")),
}
NUMBER = r"\d+(\.\d+)?(e[-+]\d+)?"
MASKS = (
    (r" +[\d.]+ MB +[\d.]+ m?s( +\d+ +\S+ \w+)$", r"  # MB  # s\1"),  # of a framework's process
    (r" {2,}(?=.*system$)", "  "),  # its head, as wide as what stands below
    (r"^─+$", "─"),
    (rf"losses {NUMBER}, {NUMBER}, {NUMBER}", "losses #, #, #"),
    (rf"largest difference {NUMBER} of its bound, in .*", "largest difference # of its bound, in …"),
    (rf"differs by {NUMBER} times its bound", "differs by # times its bound"),
    (r".*, \d+ cores[.;].*\n", ""),
    (r" +$", ""),
)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with the network, the frameworks and a state, in which the commands run."""
    folder = tmp_path_factory.mktemp("golden")
    (folder / "small.json").write_text(json.dumps(SMALL.data()))
    (folder / "defects.py").write_text(DEFECTS.read_text("utf-8"))
    frameworks.scripted(folder, "fast")
    frameworks.scripted(folder, "slow", fc1_wgrad=16, fc2_forward=4, out_update=2)
    frameworks.write(folder, "absent", "def available():\n    return 'not in this test'\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(state.VARIABLE, str(share(folder / "state")))
        patch.chdir(folder)
        patch.setattr(groups, "BLOCK", 0.1)
        patch.setattr(rounds, "BLOCK", 0.1)
        patch.setattr(perf, "missing", lambda: "not in this test")
        patch.setattr(Peak, "look", lambda self, product: 1 / 64)
        unsteered(patch)
        state.folder.cache_clear()
        yield folder
    state.folder.cache_clear()


def masked(text: str) -> str:
    """Without what differs from machine to machine, nor the blanks at the ends of lines."""
    for pattern, instead in MASKS:
        text = re.sub(pattern, instead, text, flags=re.MULTILINE)
    return text


@pytest.mark.parametrize("name", RUNS)
def test_report(name: str, place: Path, capsys: pytest.CaptureFixture[str], in_process: Callable[..., Ran]) -> None:
    code, words = RUNS[name]
    ran = in_process(capsys, main, words)
    assert ran.code == code, ran.err
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("GOLDEN") == "write":
        path.write_text(masked(ran.out), "utf-8")
    assert masked(ran.out) == path.read_text("utf-8"), "if this is as it should be: make golden, read the diff"


def test_every_expected_file_belongs_to_a_run() -> None:
    assert {path.stem for path in GOLDEN.glob("*")} == set(RUNS)
