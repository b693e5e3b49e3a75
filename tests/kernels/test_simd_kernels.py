"""One update at every width of vectors, and a copy by its two ways: right at odd sizes, told as what it is."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from kernels import build
from kernels.catalog import find
from kernels.errors import WrongResult
from kernels.ops.saxpy import variants as saxpy
from kernels.ops.saxpy.problem import WIDTHS, Saxpy
from kernels.ops.stream import Stream
from tests.kernels.rows import checked

KIB, MIB = 1 << 10, 1 << 20


@pytest.mark.parametrize("size", [64, 68, 252, 28 * KIB - 4, 28 * KIB, 28 * KIB + 4, 64 * KIB + 12, MIB, MIB + 4])
def test_a_copy_is_exact_by_either_way(size: int) -> None:
    assert checked(Stream("copy", size), "c").error == 0


@pytest.mark.parametrize("size", [64, 68, 252, 4 * KIB + 4, 8 * KIB, 12 * KIB - 4])
@pytest.mark.parametrize("width", WIDTHS)
def test_an_update_is_right_at_every_width(width: str, size: int) -> None:
    problem, row = Saxpy(size, "warm"), find("saxpy", width)
    if row.accepts(problem):
        pytest.skip(str(row.accepts(problem)))
    checked(problem, width)


REGISTERS = {"scalar": set[str](), "sse": {"xmm"}, "avx2": {"xmm", "ymm"}, "avx512": {"xmm", "ymm", "zmm"}}


@pytest.mark.parametrize("width", WIDTHS)
def test_a_width_is_the_one_that_is_told(width: str) -> None:
    """Of its machine code: packed arithmetic in registers of that width and in no wider ones."""
    row = find("saxpy", width)
    if row.accepts(Saxpy(64, "warm")) or not shutil.which("objdump"):
        pytest.skip("not this processor's, or no objdump")
    built = build.shared(saxpy.WIDE, saxpy.flags(width))
    code = subprocess.run(["objdump", "-d", "--no-show-raw-insn", str(built)], capture_output=True, text=True).stdout
    packed = {
        x
        for line in code.splitlines()
        if re.search(r"(mul|add|132|213|231)ps\b", line)
        for x in re.findall("[xyz]mm", line)
    }
    assert packed <= REGISTERS[width]
    assert bool(packed) == (width != "scalar")
    assert {"avx2": "ymm", "avx512": "zmm"}.get(width, "mm") in " ".join(packed | {"mm"})
    assert row.kernel()[1] == {"scalar": "sse"}.get(width, width)


@pytest.mark.parametrize("width", WIDTHS)
def test_a_width_that_is_not_here_is_refused(monkeypatch: pytest.MonkeyPatch, width: str) -> None:
    row = find("saxpy", width)
    monkeypatch.setattr("kernels.devices.cpu.instruction_sets", lambda: ("native",))
    assert row.accepts(Saxpy(64, "warm")) == f"this processor lacks {WIDTHS[width][0]}"
    monkeypatch.setattr("kernels.devices.cpu.instruction_sets", lambda: ("sse", "avx2", "avx512"))
    assert row.accepts(Saxpy(64, "warm")) is None
    assert "--state warm" in (row.accepts(Saxpy(64, "flushed")) or "")


@pytest.mark.parametrize("wrong", [("i < whole", "i < whole - TURN"), ("i = whole;", "i = whole + 1;"), ("0.5f *", "")])
def test_a_wide_update_that_does_less_is_refused(
    monkeypatch: pytest.MonkeyPatch, own_state: Path, tmp_path: Path, wrong: tuple[str, str]
) -> None:
    source = tmp_path / "wide.c"
    source.write_text(saxpy.WIDE.read_text().replace(*wrong))
    assert source.read_text() != saxpy.WIDE.read_text()
    monkeypatch.setattr(saxpy, "WIDE", source)
    row, problem = find("saxpy", "sse"), Saxpy(4 * KIB + 4, "warm")
    if row.accepts(problem):
        pytest.skip("no sse")
    with pytest.raises(WrongResult):
        checked(problem, "sse")
