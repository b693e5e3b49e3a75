"""Convolutions in the notation of oneDNN's benchdnn: `--dir=BWD_D mb16ic96ih27oc256oh27kh5ph2`."""

from __future__ import annotations

from kernels.ops.conv.taps import Line

PASSES = {"forward": "FWD_D", "dgrad": "BWD_D", "wgrad": "BWD_W"}
USUAL = {"sh": 1, "sw": 1, "dh": 0, "dw": 0}


def written(direction: str, images: int, channels: tuple[int, int], groups: int, lines: tuple[Line, Line]) -> str:
    """Return a convolution's pass, batch, sizes, outputs and leading padding in benchdnn's notation.

    Trailing padding follows from the outputs, dilation is counted from 0, and a width that is not given equals the
    height. The order of the axes is another option of benchdnn, at its default here. `channels`: of an image and of
    the result."""
    high, wide = (
        {"i": x.size, "o": x.outputs, "k": x.taps, "s": x.stride, "p": x.before, "d": x.dilation - 1} for x in lines
    )
    axes = {"h": high} if high == wide else {"h": high, "w": wide}

    def words(name: str) -> str:
        sizes = {f"{name}{axis}": values[name] for axis, values in axes.items()}
        return "".join(f"{word}{size}" for word, size in sizes.items() if size != USUAL.get(word))

    split = f"g{groups}" if groups > 1 else ""
    sizes = f"{split}mb{images}ic{channels[0]}{words('i')}oc{channels[1]}{words('o')}{words('k')}"
    return f"--dir={PASSES[direction]} {sizes}{words('s')}{words('p')}{words('d')}"
