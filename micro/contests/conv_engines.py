"""Contests of every cuDNN engine against the choice of its heuristics, by layer and pass."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from micro.contests.convolution import LAYERS, contests, passes_of
from micro.planning.benchmark import Request
from micro.planning.contest import Contest

QUESTION = "which engine is the fastest, and what does the heuristics' first cost?"
WORD = "engines"
FEW = ("alexnet-s conv2", "resnet-50 conv2 3x3")
ENGINES = {"forward": 82, "dgrad": 86, "wgrad": 76}  # number of engines in cuDNN 9.28; 9.19 has one less of each
# Engines of cuDNN 9.19 that answer in single precision on an H100 (reports/reference/h100/answers.ndjson): others round
# factors to TF32 or to half precision, or need other GPUs.
SINGLE = {
    "forward": (0, 1, 2, 3, 4, 6, 28, 70),
    "dgrad": (0, 1, 2, 4, 5, 7, 25, 50, 74),
    "wgrad": (0, 1, 17, 18, 20, 67),
}
CHOICES = ("cudnn-guessed", "cudnn-find:fma", "cudnn-plan:a", "cudnn-plan:b", "cudnn-plan:fallback")
COARSE = ("cudnn-guessed-tf32", "cudnn-find:default", "cudnn-plan:a:tf32", "cudnn-plan:b:tf32")


def build(asked: Request) -> list[Contest]:
    """Build contests of engines known to answer in single precision; with `full`, of all, also in TF32.

    GPU only."""
    if not asked.device.undivided:
        return []
    layers = [LAYERS[name] for name in (LAYERS if "all" in asked.flags else FEW)]
    built = []
    for direction in passes_of(asked):
        request = replace(asked, axes={**asked.axes, "direction": (direction,)}, given=asked.given | {"direction"})
        if "variant" in asked.given:
            built += contests(request, layers, QUESTION, asked.variants, WORD)
            continue
        built += contests(request, layers, QUESTION, [*CHOICES, *_engines(direction, "full" in asked.flags)], WORD)
        if "full" in asked.flags:
            coarse = [*COARSE, *(f"{name}:tf32" for name in _engines(direction, True))]
            built += contests(request, layers, QUESTION, coarse, f"{WORD}-tf32")
    return built


def _engines(direction: str, every: bool) -> Iterator[str]:
    numbers = range(ENGINES[direction]) if every else SINGLE[direction]
    return (f"cudnn-engine:{number}" for number in numbers)
