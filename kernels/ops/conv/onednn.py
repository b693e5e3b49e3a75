"""oneDNN's convolutions by the name of the algorithm, through its C API.

Operands keep the problem's layout: if an implementation needs another layout, the call reorders operands, and the
kernel's name includes the number of reorders. In nhwc and nchw16c images need no reorder, except for Winograd in
nhwc."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kernels.errors import Unavailable
from kernels.launch import Bind, Launch
from kernels.libs import onednn
from kernels.libs.onednn import ONEDNN, Handle, OneDnn
from kernels.libs.onednn_chain import Call, Chain
from kernels.ops.conv.problem import Conv, spread
from kernels.ops.conv.winograd import Winograd
from kernels.problem import Array, Work
from kernels.setting import Setting
from kernels.variant import DEFAULT, Variant, row

PASSES = {  # the library's name of the pass, and its roles of the operands in the problem's order
    "forward": ("convolution_forward", (onednn.SRC, onednn.WEIGHTS, onednn.DST)),
    "dgrad": ("convolution_backward_data", (onednn.DIFF_DST, onednn.WEIGHTS, onednn.DIFF_SRC)),
    "wgrad": ("convolution_backward_weights", (onednn.SRC, onednn.DIFF_DST, onednn.DIFF_WEIGHTS)),
}
FILTERS = (onednn.WEIGHTS, onednn.DIFF_WEIGHTS)
VECTOR = 64  # alignment in bytes of its non-temporal stores, which otherwise crash the process
TILES = Winograd(("5/8", "3/2"))  # oneDNN's interpolation points of F(4,3)


def prepared(algorithm: str, wanted: str = "") -> Callable[[Conv, Any, Setting], Bind]:
    """Return a `prepare` by an algorithm's first implementation with `wanted` in its name."""

    def prepare(problem: Conv, device: Any, setting: Setting) -> Bind:
        library = onednn.load()
        library.limit(setting.threads)
        description, layouts = _described(library, problem, algorithm, wanted)
        names = [operand.name for operand in problem.operands()]
        roles = dict(zip(layouts, names, strict=True))
        *_, result = layouts
        call = Call(
            description, {role: name for role, name in roles.items() if role != result}, {result: roles[result]}
        )
        chain = Chain(library, device, dict(zip(names, layouts.values(), strict=True)), [call])

        def bind(buffers: Sequence[Array]) -> Launch:
            if algorithm != "direct" and any(buffer.ctypes.data % VECTOR for buffer in buffers):
                raise Unavailable(f"its Winograd's non-temporal stores need operands aligned to {VECTOR} bytes")
            return chain.bound(buffers)

        return bind

    return prepare


def _described(library: OneDnn, problem: Conv, algorithm: str, wanted: str) -> tuple[Handle, dict[int, Handle]]:
    """Return the convolution's description, and its operands' layouts by role, in the problem's order."""
    kind, roles = PASSES[problem.direction]
    stored = {role: _stored(library, problem, role) for role in roles}
    # Images are described as stored where oneDNN's kernels take that layout, else in a layout of their choice.
    fixed = {"nchw": bool(wanted), "nhwc": algorithm != "winograd", "nchw16c": True}[problem.layout]
    x, w, y = (_asked(library, problem, role, fixed) for role in (onednn.SRC, onednn.WEIGHTS, onednn.DST))
    lines = _lines(problem)
    number = onednn.ALGORITHMS[algorithm]
    forward = library.describe("convolution_forward", onednn.FORWARD, number, x, w, None, y, *lines)
    description = forward
    if kind == "convolution_backward_data":
        description = library.describe(kind, number, x, w, y, *lines, forward)
    if kind == "convolution_backward_weights":
        description = library.describe(kind, number, x, w, None, y, *lines, forward)
    while wanted not in library.implementation(description):
        if not library.another(description):
            raise Unavailable(f"{library.version} has no {wanted} implementation of this problem")
    return description, stored


def _lines(problem: Conv) -> tuple[Any, ...]:
    """Return strides, dilations minus 1, leading padding, and the trailing padding that is read."""
    lines = problem.lines
    behind = (max(0, line.at(line.outputs - 1, line.taps - 1) + 1 - line.size) for line in lines)
    pairs = (
        (line.stride for line in lines),
        (line.dilation - 1 for line in lines),
        (line.before for line in lines),
        behind,
    )
    return tuple(onednn.Dims(*pair) for pair in pairs)


def _dims(problem: Conv, role: int) -> tuple[int, ...]:
    """Return an operand's sizes in plain axes; grouped filters begin with the number of groups."""
    down, across = problem.lines
    if role in FILTERS:
        g = problem.groups
        filters = (problem.k // g, problem.c // g, problem.r, problem.s)
        return (g, *filters) if g > 1 else filters
    if role in (onednn.SRC, onednn.DIFF_SRC):
        return problem.n, problem.c, problem.h, problem.w
    return problem.n, problem.k, down.outputs, across.outputs


def _stored(library: OneDnn, problem: Conv, role: int) -> Handle:
    """Return the library's layout of an operand as the problem stores it."""
    dims = _dims(problem, role)
    if problem.layout == "nchw16c":
        return library.blocked(dims, "ABcd16b16a" if role in FILTERS else "aBcd16b")
    order = [*range(len(dims))]
    if problem.layout == "nhwc":  # the channels are the third from the end
        order.append(order.pop(-3))
    strides, stride = [0] * len(dims), 1
    for axis in reversed(order):
        strides[axis], stride = stride, stride * dims[axis]
    return library.strided(dims, strides)


def _asked(library: OneDnn, problem: Conv, role: int, fixed: bool) -> Handle:
    """Return the stored layout if `fixed`; otherwise, and for filters, leave the choice to the library."""
    if fixed and role not in FILTERS:
        return _stored(library, problem, role)
    return library.unset(_dims(problem, role))


def without_winograd(problem: Conv) -> str | None:
    """Return why oneDNN has no Winograd kernel for a problem, or None if it has one."""
    if (problem.r, problem.s) != (3, 3):
        return "its Winograd requires 3x3 filters: --r 3 --s 3"
    if problem.stride > 1 or problem.dilation > 1 or problem.groups > 1:
        return "its Winograd supports no stride, dilation or groups: --stride 1 --dilation 1 --groups 1"
    pads = {"top": problem.pad_top, "left": problem.pad_left, "bottom": problem.pad_bottom, "right": problem.pad_right}
    wide = [f"--pad-{side} 1" for side, pad in pads.items() if pad > 1]
    return f"its Winograd supports padding up to 1: {' '.join(wide)}" if wide else None


def wrong_by_winograd(problem: Conv) -> str | None:
    """Return why oneDNN's Winograd would be wrong (seen in 3.1, dgrad only), or None if it is right."""
    if problem.direction == "dgrad" and problem.pad_top != problem.pad_bottom and not without_winograd(problem):
        return "its Winograd is wrong if top and bottom padding differ: set --pad-bottom as --pad-top"
    return None


def by_winograd(problem: Conv) -> str | None:
    """Return why oneDNN's Winograd cannot do a problem, or None if it can."""
    return without_winograd(problem) or wrong_by_winograd(problem)


def by_gemm(problem: Conv) -> str | None:
    """Return why oneDNN's products cannot do a problem, or None if they can."""
    return "its products require plain channels: --layout nchw or nhwc" if problem.layout == "nchw16c" else None


def at_least(problem: Conv) -> Work:
    """Return the least work that oneDNN may choose: Winograd's if possible (not in nhwc), else direct."""
    return problem.direct_work() if without_winograd(problem) or problem.layout == "nhwc" else TILES.work(problem)


def by_its_kernel(problem: Conv) -> Conv:
    """Return the problem whose bounds apply: itself if only direct sums are possible, else `spread`.

    The bounds of `spread` do not allow for the errors of a long direct sum."""
    return problem if without_winograd(problem) else spread(problem)


# Largest errors seen, in shares of a direct sum's bounds (kernels/ops/conv/truth.py): 0.6 on dense data, 2.4 on
# sparse data, on the smallest images; twice that is allowed.
GROWTH = 5.0
ROWS: tuple[Variant[Conv], ...] = (
    row(ONEDNN, "onednn-direct", prepared("direct"), work=Conv.direct_work, roles=(DEFAULT, "sums", "layouts")),
    row(
        ONEDNN,
        "onednn-winograd",
        prepared("winograd"),
        growth=GROWTH,
        accepts=by_winograd,
        work=TILES.work,
        judged=spread,
        roles=(DEFAULT, "winograd", "layouts"),
    ),
    row(ONEDNN, "onednn-gemm", prepared("direct", "gemm"), accepts=by_gemm, roles=("search",)),
    row(
        ONEDNN,
        "onednn-auto",
        prepared("auto"),
        growth=GROWTH,
        accepts=wrong_by_winograd,
        work=at_least,
        judged=by_its_kernel,
        roles=(),
    ),
)
