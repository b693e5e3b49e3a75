"""Contests of `python -m micro.conv --net`: each convolution of a network, in the passes of a step."""

from __future__ import annotations

from dataclasses import replace

from kernels.ops.conv.shape import PASSES
from micro.contests.convolution import contests
from micro.planning.benchmark import Request
from micro.planning.contest import Contest
from micro.planning.conv_layers import PREFIX, read


def network(asked: Request) -> list[Contest]:
    """Build a contest per layer and pass; its name holds the number of alike layers."""
    net = read(asked.net)
    wanted = asked.axes["direction"] if "direction" in asked.given else PASSES
    names = asked.variants if "variant" in asked.given else asked.rows()
    built = []
    for layer in net.layers:
        passes = tuple(x.direction for x in layer.passes() if x.direction in wanted)
        limited = replace(asked, axes={**asked.axes, "direction": passes}, given=asked.given | {"direction"})
        word = f"{PREFIX}/{net.name}/{layer.name}/count:{layer.count}"
        built += contests(limited, [layer.problem], f"which algorithm for {layer.name}?", names, word)
    return built
