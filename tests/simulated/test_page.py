"""docs/cuda-kernels.md has the rows and columns that the code has; its digits may differ from machine to machine."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kernels import nvcc
from tests.conftest import load
from tests.simulated import cases, launcher

ROOT = Path(__file__).parents[2]
MISSING = nvcc.missing() or launcher.missing()
WRITER = load(ROOT / "docs/cuda.py")
TEXT = (ROOT / "docs/cuda-kernels.md").read_text("utf-8")
NUMBERS = re.compile(r"(?<= )(\d+(\.\d+e[-+]\d+)?)(, (\d+(\.\d+e[-+]\d+)?)){2}(?= )")


def structure(text: str) -> str:
    """The page with three numbers in a cell told only to be three numbers."""
    return NUMBERS.sub("#, #, #", text)


@pytest.mark.slow
@pytest.mark.skipif(MISSING is not None, reason=MISSING or "")
def test_page_is_what_the_code_says(own_state: Path) -> None:
    twins = dict.fromkeys(cases.gemm.TILES, (1.5e-7, 0.0, 1.0))
    assert structure(TEXT) == structure(WRITER.page(twins)), "python docs/cuda.py"


def test_page_has_every_kernel_and_what_a_gpu_said() -> None:
    rows = [line.split(" | ") for line in TEXT.splitlines() if line.startswith("| `")]
    twins = [f"| `{name}`" for name in cases.gemm.TILES]
    assert [row[0] for row in rows] == [f"| `{name}`" for name in cases.NAMES] + twins
    ours = [f"{WRITER._seen(name)} |" for name in cases.NAMES]
    assert [row[-1] for row in rows] == [*ours, *["H100: right |"] * len(twins)]
    assert {len(row) for row in rows} == {len(WRITER.COLUMNS)}


def test_a_kernel_that_was_not_right_on_a_gpu_is_not_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = ('{"kernel": "a", "right": true}', '{"kernel": "b", "right": false}', '{"kernel": "c", "error": "x"}')
    (tmp_path / "own-kernels.ndjson").write_text("\n".join(told))
    monkeypatch.setattr(WRITER, "VISIT", tmp_path)
    assert [WRITER._seen(name) for name in ("a", "b", "c", "d")] == ["H100: right", *["never yet"] * 3]
