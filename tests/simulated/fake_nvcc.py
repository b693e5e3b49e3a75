"""A script in the place of nvcc."""

from __future__ import annotations

from pathlib import Path

SAID = """ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'second' for 'sm_90'
ptxas info    : Function properties for second
    272 bytes stack frame, 280 bytes spill stores, 288 bytes spill loads
ptxas info    : Used 255 registers, used 1 barriers, 272 bytes cumulative stack size, 8704 bytes smem, 448 bytes cmem[0]
ptxas info    : Compile time = 760.967 ms
ptxas info    : Compiling entry function 'first' for 'sm_90'
ptxas info    : Function properties for first
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 30 registers, used 0 barriers
"""
SCRIPT = """#!/bin/sh
if [ "$1" = --version ]; then echo 'Cuda compilation tools'; echo '{version}'; exit; fi
echo "$@" >> {folder}/calls
case "$*" in *broken*)
    echo 'x.cu(1): warning: so'; echo 'x.cu(2): error: no such thing'; echo 'x.cu(3): error: nor that'; exit 2;;
    *endless*) sleep 600 & echo $! > {folder}/helper; wait;;
esac
while [ "$1" != -o ]; do shift; done
echo made > "$2"
cat >&2 {folder}/said
"""


class Fake:
    """An nvcc that writes down how it was called."""

    def __init__(self, folder: Path, version: str = "release 13.0") -> None:
        self.folder, self.path = folder, folder / "nvcc"
        folder.mkdir(exist_ok=True)
        (folder / "said").write_text(SAID)
        self.path.write_text(SCRIPT.format(folder=folder, version=version))
        self.path.chmod(0o755)

    @property
    def calls(self) -> list[str]:
        told = self.folder / "calls"
        return told.read_text().splitlines() if told.exists() else []
