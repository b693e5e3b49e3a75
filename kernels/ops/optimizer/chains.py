"""The rules as chains of NumPy's functions in place, each a pass of its own over arrays that are kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from kernels.launch import Launch
from kernels.ops.optimizer.native import gain, signed
from kernels.ops.optimizer.problem import Optimizer
from kernels.ops.optimizer.rules import SMALLEST_NORM

if TYPE_CHECKING:
    from kernels.launch import Bind
    from kernels.problem import Array
    from kernels.setting import Setting

Call: TypeAlias = Callable[[], object]
# Bytes of a parameter that each chain moves: 12 for a function of two arrays, 8 of one.
BYTES = {
    "copy": 8,
    "sgd": 20,
    "decay": 40,
    "momentum": 40,
    "unit": 48,
    "nesterov": 60,
    "rmsprop": 84,
    "adagrad": 68,
    "adadelta": 140,
    "adam": 112,
    "clip": 28,
    "norm": 24,
}


def _sgd(o: Optimizer, g: Any, s: Any, t: Any, f: Any) -> list[Call]:
    return _descent(g, s[0], t, f["lr"])


def _descent(way: Any, p: Any, t: Any, lr: Any) -> list[Call]:
    import numpy as np

    return [partial(np.multiply, way, lr, out=t), partial(np.subtract, p, t, out=p)]


def _decay(o: Optimizer, g: Any, s: Any, t: Any, f: Any) -> list[Call]:
    import numpy as np

    grown = [partial(np.multiply, s[0], f["decay"], out=t), partial(np.add, t, g, out=t)]
    return [*grown, *_descent(t, s[0], t, f["lr"])]


def _velocity(o: Optimizer, g: Any, v: Any, t: Any, f: Any) -> list[Call]:
    import numpy as np

    shrunk: list[Call] = [partial(np.multiply, v, f["mu"], out=v)]
    if f["gain"] == 1:
        return [*shrunk, partial(np.add, v, g, out=v)]
    return [*shrunk, partial(np.multiply, g, f["gain"], out=t), partial(np.add, v, t, out=v)]


def _momentum(o: Optimizer, g: Any, s: Any, t: Any, f: Any) -> list[Call]:
    return [*_velocity(o, g, s[1], t, f), *_descent(s[1], s[0], t, f["lr"])]


def _nesterov(o: Optimizer, g: Any, s: Any, t: Any, f: Any) -> list[Call]:
    import numpy as np

    ahead = [partial(np.multiply, s[1], f["mu"], out=t), partial(np.add, t, g, out=t)]
    return [*_velocity(o, g, s[1], t, f), *ahead, *_descent(t, s[0], t, f["lr"])]


def _squared(v: Any, x: Any, t: Any, f: Any) -> list[Call]:
    """v = rho·v + (1 − rho)·x²."""
    import numpy as np

    return [
        partial(np.multiply, v, f["rho"], out=v),
        partial(np.multiply, x, x, out=t),
        partial(np.multiply, t, f["rest"], out=t),
        partial(np.add, v, t, out=v),
    ]


def _by_root(way: Any, v: Any, p: Any, t: Any, f: Any) -> list[Call]:
    """p −= lr·way / (√v + eps)."""
    import numpy as np

    root = [partial(np.sqrt, v, out=t), partial(np.add, t, f["eps"], out=t), partial(np.divide, way, t, out=t)]
    return [*root, *_descent(t, p, t, f["lr"])]


def _rmsprop(o: Optimizer, g: Any, s: Any, t: Any, f: Any) -> list[Call]:
    return [*_squared(s[1], g, t, f), *_by_root(g, s[1], s[0], t, f)]


def _adagrad(o: Optimizer, g: Any, s: Any, t: Any, f: Any) -> list[Call]:
    import numpy as np

    summed = [partial(np.multiply, g, g, out=t), partial(np.add, s[1], t, out=s[1])]
    return [*summed, *_by_root(g, s[1], s[0], t, f)]


def _adadelta(o: Optimizer, g: Any, s: Any, t: Any, f: Any) -> list[Call]:
    import numpy as np

    t, way = t
    delta = [
        partial(np.add, s[2], f["eps"], out=way),
        partial(np.add, s[1], f["eps"], out=t),
        partial(np.divide, way, t, out=way),
        partial(np.sqrt, way, out=way),
        partial(np.multiply, way, g, out=way),
    ]
    return [*_squared(s[1], g, t, f), *delta, *_squared(s[2], way, t, f), *_descent(way, s[0], t, f["lr"])]


def _adam(o: Optimizer, g: Any, s: Any, t: Any, f: Any) -> list[Call]:
    return [*_velocity(o, g, s[1], t, f), *_squared(s[2], g, t, f), *_by_root(s[1], s[2], s[0], t, f)]


def _clip(o: Optimizer, g: Any, s: Any, t: Any, f: Any) -> list[Call]:
    import numpy as np

    return [partial(np.clip, g, -f["limit"], f["limit"], out=t), *_descent(t, s[0], t, f["lr"])]


def _copy(o: Optimizer, g: Any, s: Any, t: Any, f: Any) -> list[Call]:
    import numpy as np

    return [partial(np.copyto, s[0], g)]


CHAINS: dict[str, Callable[[Optimizer, Any, Any, Any, Any], list[Call]]] = {
    "copy": _copy,
    "sgd": _sgd,
    "decay": _decay,
    "momentum": _momentum,
    "unit": _momentum,
    "nesterov": _nesterov,
    "rmsprop": _rmsprop,
    "adagrad": _adagrad,
    "adadelta": _adadelta,
    "adam": _adam,
    "clip": _clip,
}


def numpy_chain(each: bool) -> Callable[[Optimizer, Any, Setting], Bind]:
    """Over all tensors as one array, or over each by itself."""

    def prepare(problem: Optimizer, device: Any, setting: Setting) -> Bind:
        import numpy as np

        signed(problem, setting)
        rows = 2 if problem.rule == "adadelta" else 1
        kept = device.allocate(4 * rows * problem.count).view("f4").reshape(rows, -1)
        f = {name: np.float32(getattr(problem, name)) for name in ("lr", "mu", "rho", "decay", "eps", "limit")}
        f |= {"gain": np.float32(gain(problem)), "rest": np.float32(1 - problem.rho)}
        count = problem.size if each else problem.count

        def bind(buffers: Sequence[Array]) -> Launch:
            g, *s = buffers
            if problem.rule == "norm":
                return Launch(_by_norm(problem, g, s[0], kept[0]), workspace=kept.nbytes)
            calls: list[Call] = []
            for at in range(0, problem.count, count):
                part = slice(at, at + count)
                room = kept[:, part] if rows == 2 else kept[0, part]
                calls += CHAINS[problem.rule](problem, g[part], [array[part] for array in s], room, f)

            def call() -> None:
                for run in calls:
                    run()

            return Launch(call, workspace=kept.nbytes)

        return bind

    return prepare


def _by_norm(problem: Optimizer, g: Any, p: Any, t: Any) -> Call:
    """The norm first, as a number of Python's, then sgd of the share that it leaves."""
    import numpy as np

    most, lr = problem.limit * problem.count**0.5, problem.lr

    def call() -> None:
        share = min(1.0, most / (float(np.dot(g, g)) ** 0.5 + SMALLEST_NORM))
        np.multiply(g, np.float32(lr * share), out=t)
        np.subtract(p, t, out=p)

    return call
