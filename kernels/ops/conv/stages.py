"""Stages of a call, and the making of FFTW's plans, each timed in place of its row's call, which is what is checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from kernels.errors import UsageError, choice
from kernels.launch import Launch
from kernels.libs import fftw
from kernels.maths import alone
from kernels.ops.conv import fft, fft_rows, tiled, tiled_rows, winograd_rows
from kernels.ops.conv.problem import Conv
from kernels.ops.conv.staged import Staged
from kernels.problem import Work
from kernels.variant import Variant

if TYPE_CHECKING:
    from kernels.launch import Bind
    from kernels.problem import Array
    from kernels.setting import Setting

ROWS: dict[str, Variant[Conv]] = {x.name: x for x in (*fft_rows.ROWS, *tiled_rows.ROWS, *winograd_rows.ROWS)}
STAGED: Mapping[str, Callable[[Conv, Any, Setting], Staged]] = {
    **fft_rows.STAGED,
    **tiled_rows.STAGED,
    **winograd_rows.STAGED,
}
ON_CUDA = ("cufft", "cuda-winograd-2x3", "cuda-winograd-4x3")  # whose tables are imported when they are reached
WORK: dict[str, Callable[[Conv], dict[str, Work]]] = {
    **dict.fromkeys(fft_rows.STAGED, fft.by_stage),
    **{f"fft-tiled-{size}-pyfftw": partial(tiled.by_stage, size=size) for size in tiled_rows.SIZES},
    **{name: algorithm.by_stage for name, algorithm, *_ in winograd_rows.ALGORITHMS},
    **{f"cuda-{name}": algorithm.by_stage for name, algorithm, *_ in winograd_rows.ALGORITHMS},
    "cufft": fft.by_stage,
}
STAGES = ("transform-x", "transform-w", "transform-y", "products", "inverse-x", "inverse-w", "inverse-y")

# By row, problem, setting and device: what its stages share as long as a contest has it, else each took as much memory.
_shared: WeakValueDictionary[tuple[object, ...], Staged] = WeakValueDictionary()


def there(kernels: str) -> tuple[str, ...]:
    """The rows for "cpu" or "cuda" whose stages can be timed apart."""
    return tuple(STAGED) if kernels == "cpu" else ON_CUDA


def row_of(name: str) -> Variant[Conv]:
    """One of them."""
    if name not in ON_CUDA:
        return ROWS[name]
    from kernels.ops.conv import cuda_rows

    return next(row for row in cuda_rows.ROWS if row.name == name)


def _maker(name: str) -> Callable[[Conv, Any, Setting], Staged]:
    if name not in ON_CUDA:
        return STAGED[name]
    from kernels.ops.conv import cuda_rows

    return cuda_rows.STAGED[name]


def names(row: str, problem: Conv) -> list[str]:
    """A row's stages of a pass, in order, as the names of variants have them."""
    return [name.replace(" ", "-") for name in WORK[row](problem)]


def stage(parameter: str) -> Variant[Conv]:
    """`stage:ROW:STAGE`, as `stage:fft-scipy:transform-w`."""
    name, _, word = parameter.rpartition(":")
    for given, known in ((name, (*STAGED, *ON_CUDA)), (word, STAGES)):
        if given not in known:
            raise UsageError(f"--variant stage:{parameter}: {choice(given, known)}")
    row = row_of(name)

    def accepts(problem: Conv) -> str | None:
        reason = row.accepts(problem)
        if reason or word in names(name, problem):
            return reason
        return f"this pass has {', '.join(names(name, problem))}: another --direction has {word}"

    timed = replace(
        row,
        name=f"stage:{parameter}",
        prepare=partial(_whole, name),
        accepts=accepts,
        work=partial(_work, name, word),
        blas=lambda problem: row.blas(problem) if word == "products" else None,
        roles=(),
    )
    part = replace(timed, name=f"{timed.name} alone", prepare=partial(_alone, name, word))
    return replace(timed, parts=lambda problem: ((part, 1),))


def _work(name: str, word: str, problem: Conv) -> Work:
    return WORK[name](problem).get(word.replace("-", " "), Work(0.0, 0.0))


def _whole(name: str, problem: Conv, device: Any, setting: Setting) -> Bind:
    made = _made(name, problem, device, setting)
    return _keeping(made, made.bind)


def _alone(name: str, word: str, problem: Conv, device: Any, setting: Setting) -> Bind:
    made = _made(name, problem, device, setting)
    return _keeping(made, made.alone[word.replace("-", " ")])


def _keeping(made: Staged, bind: Bind) -> Bind:
    """With what others share, as long as one of them is there."""

    def bound(buffers: Sequence[Array], keep: object = made) -> Launch:
        return bind(buffers)

    return bound


def _made(name: str, problem: Conv, device: Any, setting: Setting) -> Staged:
    """With what a call on random operands leaves in its memory: a stage begins with the results of those before it."""
    import numpy as np

    key = (name, problem, setting, id(device))
    made = _shared.get(key)
    if made is None:
        made = _shared[key] = _maker(name)(problem, device, setting)
        x = problem.fill(np.random.default_rng(0))
        views = [device.view(device.allocate(o.nbytes), 0, o) for o in problem.operands()]
        for operand, view in zip(problem.operands(), views, strict=True):
            device.put(view, x.get(operand.name, np.zeros(operand.shape, np.float32)))
        made.bind(views).call()
        device.sync()  # before the operands go away
    return made


AGAIN = "again"  # with the wisdom of a search before
PLANNED = {"fft-pyfftw": "measure"} | {f"fft-pyfftw-{rigor}": rigor for rigor in fftw.RIGORS if rigor != "measure"}


def planning(parameter: str) -> Variant[Conv]:
    """`plan:ROW[:again]`, as `plan:fft-pyfftw`: all plans of a call, searched for, or made by the wisdom kept."""
    name, _, word = parameter.partition(":")
    for given, there in ((name, PLANNED), (word, ("", AGAIN))):
        if given not in there:
            raise UsageError(f"--variant plan:{parameter}: {choice(given, filter(None, there))}")
    timed = replace(ROWS[name], name=f"plan:{parameter}", work=lambda problem: Work(0.0, 0.0), roles=())
    part = replace(timed, name=f"{timed.name} alone", prepare=partial(_plans, PLANNED[name], bool(word)))
    return replace(timed, parts=lambda problem: ((part, 1),))


def _plans(rigor: str, again: bool, problem: Conv, device: Any, setting: Setting) -> Bind:
    alone(setting)
    made = fft.plan(problem, device, fft_rows.blas_of_one(), fft_rows.BY_FFTW[rigor])
    output = problem.outputs[0].name[-1]
    arrays = [(made.frames[:n], made.spectra[:n], name == output) for name, n in made.blocks.items()]
    plan = fftw.plan if again else fftw.search

    def call() -> None:
        for frames, spectra, inverse in arrays:
            plan(frames, spectra, inverse, rigor)

    return lambda buffers: Launch(call)
