"""A convolution as benchdnn, oneDNN's own benchmark, takes it: `--dir=BWD_D mb16ic96ih27oc256oh27kh5ph2`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kernels.ops.conv.shape import Shape

PASSES = {"forward": "FWD_D", "dgrad": "BWD_D", "wgrad": "BWD_W"}
USUAL = {"sh": 1, "sw": 1, "dh": 0, "dw": 0}


def written(problem: Shape) -> str:
    """Its pass, batch, sizes, outputs and padding before the image. Padding after it is what the outputs need there,
    dilation is counted from 0, and where nothing is said of the width it is as the height. The order of the axes is
    another option of benchdnn's, which chooses it by default."""
    down, across = problem.lines
    high = {"i": problem.h, "o": down.outputs, "k": problem.r, "p": problem.pad_top}
    wide = {"i": problem.w, "o": across.outputs, "k": problem.s, "p": problem.pad_left}
    both = {"s": problem.stride, "d": problem.dilation - 1}
    axes = {"h": high | both} if high == wide else {"h": high | both, "w": wide | both}

    def said(name: str) -> str:
        sizes = {f"{name}{axis}": values[name] for axis, values in axes.items()}
        return "".join(f"{word}{size}" for word, size in sizes.items() if size != USUAL.get(word))

    groups = f"g{problem.groups}" if problem.groups > 1 else ""
    sizes = f"{groups}mb{problem.n}ic{problem.c}{said('i')}oc{problem.k}{said('o')}{said('k')}"
    return f"--dir={PASSES[problem.direction]} {sizes}{said('s')}{said('p')}{said('d')}"
