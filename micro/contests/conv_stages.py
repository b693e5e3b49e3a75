"""The contests of micro/conv.py whose cases are parts of a call, or come before it: stages, and FFTW's plans."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kernels.catalog import find
from kernels.errors import UsageError, choice
from kernels.ops.conv import stages as apart
from kernels.ops.conv.problem import Conv
from kernels.ops.conv.shape import PASSES
from micro.contests.convolution import LAYERS, as_named, passes_of, rows_of
from micro.planning.benchmark import Request
from micro.planning.contest import Contest

USUAL = ("forward",)
OF_TRANSFORMS, OF_TILES = ("alexnet-s conv2",), ("alexnet-s conv3",)  # of kernels of any filter, and of 3×3
MORE = ("alexnet-s conv3", "resnet-50 conv2 3x3")
SEARCHED = {"fft-pyfftw": "fft-pyfftw-estimate", "fft-pyfftw-patient": "fft-pyfftw"}  # by less search
UNALIGNED = {"fft-pyfftw-unaligned": "fft-pyfftw"}


def _refused(asked: Request, there: Sequence[str], what: str) -> None:
    """Raise UsageError where a named variant is none of those that the question can ask of."""
    for name in asked.variants if "variant" in asked.given else ():
        if name not in there:
            raise UsageError(f"--variant {name}: {what}; {choice(name, there)}")


def _directions(asked: Request) -> tuple[str, ...]:
    return passes_of(asked, PASSES if "all" in asked.flags else USUAL)


def stages(asked: Request) -> list[Contest]:
    """Each stage of a call by itself against the whole call, by kernel, layer and pass."""
    there = apart.there(asked.device.kernels)
    _refused(asked, there, "its stages cannot be timed apart")
    every = "all" in asked.flags
    names = there if every and "variant" not in asked.given else rows_of(asked, "stages")
    built = []
    for name in names:
        some = OF_TILES if "winograd" in name else OF_TRANSFORMS
        for place in dict.fromkeys((*some, *(MORE if every else ()))):
            for direction in _directions(asked):
                sized = as_named(asked, replace(LAYERS[place], direction=direction))
                if "variant" in asked.given or not find(Conv.op, name).accepts(sized):
                    built.append(_apart(asked, sized, name))
    return built


def _apart(asked: Request, problem: Conv, name: str) -> Contest:
    variants = (name, *(f"stage:{name}:{word}" for word in apart.names(name, problem)))
    cases = tuple(asked.case(problem, variant) for variant in variants)
    question = f"how much of {name}'s call is each of its stages?"
    return Contest(f"stages/{problem.name}/variant:{name}", question, "work: differs (a stage alone)", cases)


def plans(asked: Request) -> list[Contest]:
    """A call by plans of more search against one by plans of less, and what each search takes; plans for arrays
    anywhere."""
    _refused(asked, (*SEARCHED, *UNALIGNED), "what its plans cost is not asked")
    names = asked.variants if "variant" in asked.given else (*SEARCHED, *UNALIGNED)
    places = (*OF_TRANSFORMS, *(MORE if "all" in asked.flags else ()))
    built = []
    for place in places:
        for direction in _directions(asked):
            sized = as_named(asked, replace(LAYERS[place], direction=direction))
            built += [_planned(asked, sized, name) for name in names if not find(Conv.op, name).accepts(sized)]
    return built


def _planned(asked: Request, problem: Conv, name: str) -> Contest:
    if name in UNALIGNED:
        both = (asked.case(problem, UNALIGNED[name]), asked.case(problem, name))
        question = "what do plans for arrays anywhere cost a call?"
        return Contest(f"plans/{problem.name}/variant:{name}", question, "variant", both)
    less = SEARCHED[name]
    variants = (less, name, f"plan:{less}", f"plan:{name}", f"plan:{name}:{apart.AGAIN}")
    cases = tuple(asked.case(problem, variant) for variant in variants)
    question = f"what does the search for {name}'s plans take, and after how many calls does it pay?"
    pairs = ((0, 1), (0, 2), (1, 3), (1, 4))
    return Contest(f"plans/{problem.name}/variant:{name}", question, "work: differs (planning)", cases, pairs)
