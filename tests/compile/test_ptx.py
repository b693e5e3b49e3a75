"""The inner loop of fma.cu, as nvcc hands it to ptxas: multiply-adds, and next to nothing else."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from kernels import nvcc
from kernels.ops.fma.gpu import SOURCE
from kernels.ops.fma.problem import CHAINS
from tests.simulated.cases import ARCHS

UNROLL = 64
FMA = "fma.rn.f32"
HALF = "0f3F000000"  # 0.5
LABEL = re.compile(r"(\$\w+):")
BACK = re.compile(r"bra(?:\.uni)?\s+(\$\w+);")
needs_nvcc = pytest.mark.skipif(nvcc.missing() is not None, reason=nvcc.missing() or "")


def ptx(source: Path, arch: str, folder: Path) -> str:
    path, made = nvcc.find(), folder / f"{arch}.ptx"
    assert path is not None
    subprocess.run([path, "-ptx", "-O3", f"-arch={arch}", source, "-o", made], check=True)
    return made.read_text()


def loops(text: str) -> list[list[str]]:
    """The instructions from each label to a jump back to it, the longest loop first."""
    at: dict[str, int] = {}
    instructions: list[str] = []
    found = []
    for line in map(str.strip, text.splitlines()):
        if label := LABEL.match(line):
            at[label[1]] = len(instructions)
        elif line.endswith(";") and not line.startswith("."):
            instructions.append(line)
            if (back := BACK.search(line)) and back[1] in at:
                found.append(instructions[at[back[1]] :])
    return sorted(found, key=len, reverse=True)


def opcodes(loop: list[str]) -> Counter[str]:
    return Counter(line.split()[1 if line.startswith("@") else 0] for line in loop)


@needs_nvcc
@pytest.mark.parametrize("arch", ARCHS)
def test_loop_is_multiply_adds(arch: str, tmp_path: Path) -> None:
    rounds, rest = loops(ptx(SOURCE, arch, tmp_path))
    for loop, steps in ((rounds, UNROLL), (rest, 1)):
        counts = opcodes(loop)
        assert counts.pop(FMA) == steps * CHAINS
        assert set(counts) <= {"add.s32", "setp.ne.s32", "bra"} and counts.total() == 3  # count, compare, jump
    added = {line.rstrip(";").split(", ")[-1] for line in rounds if FMA in line}
    assert len(added) == 1 and all(f", {HALF}, " in line for line in rounds if FMA in line)


@needs_nvcc
@pytest.mark.parametrize(
    ("old", "new"),
    [
        (f"UNROLL = {UNROLL}", "UNROLL = 1"),
        ("x[c] * 0.5f + d", "__fadd_rn(x[c] * 0.5f, d)"),
        ("x[c] = x[c]", "x[c] = x[0]"),
    ],
    ids=["not unrolled", "not fused", "chains merged"],
)
def test_other_loops_are_told(old: str, new: str, tmp_path: Path) -> None:
    text = SOURCE.read_text()
    assert old in text
    source = tmp_path / "fma.cu"
    source.write_text(text.replace(old, new))
    counts = opcodes(loops(ptx(source, "sm_90", tmp_path))[0])
    assert counts[FMA] < UNROLL * CHAINS or counts.total() > UNROLL * CHAINS + 3
