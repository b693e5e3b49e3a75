"""update.c and optimizer.c: no warning, the structures as ctypes has them, exactly the products that are said."""

from __future__ import annotations

import ctypes
import re
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kernels import build
from kernels.devices import open_device
from kernels.errors import Unavailable
from kernels.libs.cblas import Blas
from kernels.ops.optimizer import native as optimizer
from kernels.ops.update import native as update
from kernels.ops.update.problem import Update
from kernels.setting import Setting
from micro.worker import guards

CPU = open_device("cpu")
TYPES = {"float": ctypes.c_float, "int64_t": ctypes.c_int64, "int32_t": ctypes.c_int32}
SOURCES = ((update.SOURCE, update.Argument, "update"), (optimizer.SOURCE, optimizer.Argument, "argument"))


@pytest.mark.parametrize(("source", "kind", "name"), SOURCES, ids=["update", "optimizer"])
def test_no_warning(source: Path, kind: Any, name: str, tmp_path: Path) -> None:
    command = [build.compiler()[0], *build.FLAGS, "-Wextra", "-c", str(source), "-o", str(tmp_path / "made.o")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(("source", "kind", "name"), SOURCES, ids=["update", "optimizer"])
def test_structures_are_those_of_the_source(source: Path, kind: Any, name: str) -> None:
    text = re.sub(r"/\*.*?\*/", "", source.read_text(), flags=re.S)
    body = re.search(rf"struct {name} {{(.*?)\n}};", text, re.S)
    assert body is not None
    declared: list[tuple[str, Any]] = []
    for line in filter(None, (x.strip() for x in body[1].split(";"))):
        if pointer := re.fullmatch(r"void \(\*(\w+)\)\(.*\)", line):
            declared.append((pointer[1], ctypes.c_void_p))
            continue
        of, names = line.removeprefix("const ").split(" ", 1)
        for one in names.split(","):
            declared.append((one.strip(" *"), ctypes.c_void_p if "*" in one else TYPES[of]))
    assert [(field, of) for field, of, *_ in kind._fields_] == declared


class Counter:
    """A cblas_sgemm that writes down its arguments, and computes."""

    def __init__(self, wide: bool) -> None:
        whole, enum, place = ctypes.c_int64 if wide else ctypes.c_int, ctypes.c_int, ctypes.c_void_p
        real = ctypes.c_float
        self.calls: list[tuple[Any, ...]] = []
        self._c = ctypes.CFUNCTYPE(
            None, enum, enum, enum, whole, whole, whole, real, place, whole, place, whole, real, place, whole
        )(self)
        self.wide = wide
        self.sgemm = ctypes.cast(self._c, place).value

    def __call__(self, *a: Any) -> None:
        self.calls.append(a)
        m, n, k, alpha, beta = a[3], a[4], a[5], a[6], a[11]

        def array(place: int, rows: int, ld: int) -> Any:
            return np.ctypeslib.as_array((ctypes.c_float * (rows * ld)).from_address(place)).reshape(rows, ld)

        c = array(a[12], m, a[13])
        product = array(a[7], k, a[8])[:, :m].T @ array(a[9], k, a[10])[:, :n]
        c[:, :n] = alpha * product + (beta * c[:, :n] if beta else 0)


def stub(name: str, sgemm: int, threads: int, wide: bool = True) -> Blas:
    """A CBLAS library that runs so many threads, whatever is asked."""
    return Blas(name, Path(name), "0", None, None, wide, sgemm, None, lambda n: None, lambda: threads)


def launched(problem: Update, symbol: str, own: int, wide: bool) -> tuple[list[tuple[Any, ...]], list[Any]]:
    """The products of one launch, which is right, and the operands' addresses."""
    counter = Counter(wide)
    blas = stub("counting", counter.sgemm, 1, wide)
    bench = guards.Bench(CPU, problem)
    launch = update.library(lambda: blas, symbol, own)(problem, CPU, Setting())(bench.views)
    x = problem.fill(np.random.default_rng(2))
    bench.load(x)
    launch.call()
    want = problem.reference(x)
    bound = problem.bound(x, want, 2.0**-24)
    assert all((np.abs(answer - want[name]) <= bound[name]).all() for name, answer in bench.answer().items())
    return counter.calls, [view.ctypes.data for view in bench.views]


@pytest.mark.parametrize("wide", [True, False])
def test_fused_is_one_product_onto_w(wide: bool) -> None:
    (call,), (x, dy, w) = launched(Update(33, 65, 17, lr=0.5), "update_fused", 0, wide)
    assert call == (101, 112, 111, 33, 65, 17, np.float32(-0.5 / 17), x, 33, dy, 65, 1.0, w, 65)


@pytest.mark.parametrize(
    ("rule", "alpha", "beta"), [("decay", -1 / 17, 0.99), ("momentum", 1 / 17, 0.9), ("unit", 0.1 / 17, 0.9)]
)
def test_other_rules_are_one_product_too(rule: str, alpha: float, beta: float) -> None:
    """Onto W, or onto V where there is one: the last operand."""
    (call,), (*_, target) = launched(Update(33, 65, 17, rule), "update_fused", 0, True)
    assert (call[6], call[11]) == pytest.approx((alpha, beta))
    assert call[12] == target


@pytest.mark.parametrize("rule", ["sgd", "momentum", "nesterov", "clip", "norm"])
def test_separate_is_one_product_elsewhere(rule: str) -> None:
    problem = Update(33, 65, 17, rule)
    (call,), places = launched(problem, "update_separate", 1, True)
    assert (call[6], call[11]) == (np.float32(1 / 17), 0.0)
    assert not any(at <= call[12] < at + x.nbytes for at, x in zip(places, problem.operands(), strict=True))


def test_two_layers_are_two_products() -> None:
    tied = Update(33, 65, 17, "tied")
    first, second = launched(tied, "update_fused", 0, True)[0]
    assert (first[11], second[11], first[12]) == (1.0, 1.0, second[12])
    assert (second[7] - first[7], second[9] - first[9]) == (4 * 17 * 33, 4 * 17 * 65)
    first, second = launched(tied, "update_separate", 1, True)[0]
    assert (first[11], second[11], first[12]) == (0.0, 1.0, second[12])
    first, second = launched(tied, "update_separate", 2, True)[0]
    assert (first[11], second[11]) == (0.0, 0.0) and first[12] != second[12]


def test_threads_that_are_not_given_are_told() -> None:
    blas = stub("stubborn", 0, 2)
    with pytest.raises(Unavailable, match="stubborn runs 2 threads instead of 1"):
        update.library(lambda: blas, "update_fused")(Update(4, 4, 4), CPU, Setting())
    with pytest.raises(Unavailable, match="--threads 1"):
        update.c_pass(Update(4, 4, 4, part="update"), CPU, Setting(threads=2))
