"""What workers are asked for: data that operands hold, kinds of which lie apart, and instruction sets."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kernels.devices import open_device
from kernels.devices.cpu import NORMALS, Cpu, instruction_sets
from kernels.dtypes import DATA, decode, drawn
from kernels.errors import Unavailable, UsageError
from kernels.isa import FAMILIES, SETS, refusal, variables
from kernels.libs import openblas
from kernels.ops.activation.problem import Activation
from kernels.ops.fma import Fma
from kernels.ops.gather.problem import Gather
from kernels.ops.gemm.problem import DTYPES, Gemm
from kernels.ops.optimizer.problem import Optimizer
from kernels.ops.softmax.problem import Softmax
from kernels.ops.stream import Stream
from kernels.problem import Operand
from kernels.setting import Setting
from micro.planning.contest import Case
from micro.worker.arenas import COMMON, ROOM, Arenas, Placed, arena, together
from micro.worker.client import ask
from micro.worker.kernels import Kernels
from micro.worker.messages import Prepare
from micro.worker.process import Worker, Workers
from tests.conftest import Ran
from tests.processes import python

COUNT = 20_000
OF_TYPE = [x for x in DTYPES if x != "tf32"]


def values(dtype: str, data: str, seed: int = 3) -> np.ndarray:
    return decode(drawn(seed, COUNT, dtype, data))


@pytest.mark.parametrize("dtype", [*OF_TYPE, "int32"])
def test_zeros_are_zeros_and_integers_all_of_minus_8_to_8(dtype: str) -> None:
    stored = drawn(3, COUNT, dtype, "zeros")
    assert not stored.view(np.uint8).any() and stored.size == COUNT
    assert set(values(dtype, "integers").tolist()) == set(range(-8, 9))


@pytest.mark.parametrize(("dtype", "most"), [("fp32", 1), ("bf16", 1), ("fp16", 1), ("int8", 32)])
def test_uniform_numbers_fill_their_range(dtype: str, most: float) -> None:
    """Rounded to nearest, the end of a narrow type may be reached."""
    found = values(dtype, "uniform")
    assert 0 <= found.min() < 0.01 and 0.98 * most < found.max() <= most
    if dtype == "fp32":
        assert found.max() < 1 and abs(found.mean() - 0.5) < 0.02 and abs(found.std() - 12**-0.5) < 0.01


@pytest.mark.parametrize(("dtype", "deviation"), [("fp32", 1), ("bf16", 1), ("fp16", 1), ("int8", 32)])
def test_normal_numbers_are_what_is_drawn_unless_asked(dtype: str, deviation: float) -> None:
    found = values(dtype, "normal")
    assert np.array_equal(found, decode(drawn(3, COUNT, dtype)))
    assert abs(found.mean()) < 0.03 * deviation and abs(found.std() - deviation) < 0.02 * deviation
    if dtype == "int8":
        assert np.abs(found).max() <= 127 and np.array_equal(found, np.rint(found))


@pytest.mark.parametrize("data", [x for x in DATA if x != "zeros"])
def test_a_seed_draws_the_same_again(data: str) -> None:
    assert np.array_equal(values("fp32", data), values("fp32", data))
    assert not np.array_equal(values("fp32", data), values("fp32", data, 4))


# Arenas

IN = Operand("a", (64, 64), "in")
OUT = Operand("c", (64, 64), "out")
PRODUCT = Gemm(64, 64, 64)


def placed(*kinds: str, operands: tuple[Operand, ...] = (IN, OUT)) -> list[Placed]:
    return [Placed(PRODUCT, x, x.nbytes, kind, kind) for kind in kinds for x in operands]


@pytest.fixture
def arenas() -> Arenas:
    return Arenas(Cpu())


def test_arenas_hold_what_they_say(arenas: Arenas) -> None:
    """All over, at a random placement and at their end, behind the operand."""
    arenas.lay_out(placed(*DATA), None, {})
    offsets = arenas.draw(1, 0, 1, False)[0]
    views = {kind: arenas.view(IN, int(offsets[2 * i]), kind) for i, kind in enumerate(DATA)}
    assert not views["zeros"].any() and not arenas.view(IN, ROOM, "zeros").any()
    assert np.array_equal(views["integers"], np.rint(views["integers"])) and views["integers"].any()
    assert np.abs(views["integers"]).max() == 8
    for view in (views["uniform"], arenas.view(IN, ROOM, "uniform")):
        assert view.min() >= 0 and 0.9 < view.max() < 1
    assert views["normal"].min() < -2 and views["normal"].max() > 2
    long = Operand("a", (NORMALS + 64, 1), "in")  # longer than what is drawn
    arenas.lay_out([Placed(PRODUCT, long, long.nbytes, "x", "uniform")], 0, {})
    tail = arenas.view(long, 0, "uniform")[NORMALS:]
    assert tail.min() >= 0 and 0.5 < tail.max() < 1


def test_indices_are_the_problem_s_own_in_every_round(arenas: Arenas) -> None:
    """Whatever the data is: numbers drawn for another operand would point beyond the table."""
    problems = Softmax(1000, 7), Softmax(300, 4000)
    entries = [Placed(p, x, x.nbytes, p.name, "zeros") for p in problems for x in p.operands() if x.role == "in"]
    for room in (0, None):
        arenas.lay_out(entries, room, {})
        offsets = arenas.draw(1, 0, 5, False)
        assert room == 0 or (offsets[0, ::2] != offsets[1, ::2]).any(), "the scores move"
        for i, entry in enumerate(entries):
            if not entry.operand.below:
                continue
            for row in offsets:
                labels = arenas.view(entry.operand, int(row[i]), "zeros")
                assert labels.dtype == np.int64 and 0 <= labels.min() < labels.max() < entry.operand.below
                assert np.array_equal(labels, entry.problem.indices(entry.operand, np.random.default_rng(0)))


def test_kinds_of_data_share_no_memory(arenas: Arenas) -> None:
    """At one offset, where cases of one kind would lie on each other."""
    arenas.lay_out(placed(*DATA), 0, {})
    views = [arenas.view(x, 0, kind) for kind in DATA for x in (IN, OUT)]
    assert not [(i, j) for i, x in enumerate(views) for j, y in enumerate(views) if i < j and np.shares_memory(x, y)]
    assert np.shares_memory(arenas.view(IN, 0, "zeros"), arenas.view(Operand("b", (64, 64), "in"), 0, "zeros"))
    assert all(arenas.address(IN, kind) == arenas.view(IN, 0, kind).ctypes.data for kind in DATA)


def test_types_and_roles_and_kinds_lie_apart() -> None:
    operands = (IN, OUT, Operand("a", (8, 8), "in", "int8"), Operand("c", (8, 8), "out", "int32"))
    assert len({arena(x, kind) for x in operands for kind in DATA}) == len(operands) * len(DATA)
    assert {arena(x, "normal") for x in (IN, OUT)} == set(COMMON)


@pytest.mark.parametrize("kind", DATA)
def test_what_is_never_negative_lies_where_nothing_else_is_written(kind: str) -> None:
    table, squares = (x for x in Gather(9, 8, 4, "step", "adagrad").operands() if x.role == "inout")
    assert squares.nonnegative and not table.nonnegative
    assert arena(squares, kind) != arena(table, kind)


def test_an_arena_is_as_large_as_the_largest_that_lies_at_its_start() -> None:
    """A canary reads 256 MiB and writes a number: what is written needs no memory of that size."""
    assert together([Stream("read", 64 << 20), Fma("avx2")]) == {
        COMMON[0]: 64 << 20,
        COMMON[1]: Fma("avx2").operands()[-1].nbytes,
    }
    arenas = Arenas(Cpu())
    arenas.lay_out(placed("normal"), 0, together([Stream("read", 64 << 20)]))
    assert arenas.view(Operand("a", (1, 16 << 20), "in"), 0, "normal").nbytes == 64 << 20
    with pytest.raises(ValueError, match="size of buffer"):
        arenas.view(Operand("y", (1, 16 << 20), "out"), 0, "normal")


def test_a_later_contest_finds_them_filled(arenas: Arenas) -> None:
    """Those that are there stay, what grows is filled again, none becomes another's."""
    arenas.lay_out(placed("zeros"), 0, {})
    arenas.lay_out(placed("normal", "zeros"), 0, {})
    arenas.lay_out(placed("zeros", operands=(Operand("a", (256, 256), "in"),)), None, {})
    assert not arenas.view(Operand("a", (256, 256), "in"), 0, "zeros").any()
    assert arenas.view(IN, 0, "normal").any()


# Through the command line

MINE = """
import numpy as np


def product(problem, a, b, c):
    both = np.concatenate([a.ravel(), b.ravel()])
    kind = (
        "zeros" if not both.any()
        else "integers" if (both == np.rint(both)).all()
        else "uniform" if both.min() >= 0 and both.max() < 1
        else "normal"
    )
    with open({seen!r}, "a") as stream:
        stream.write(kind + "\\n")
    np.matmul(a, b, out=c)
"""


QUICK = ("normal", "integers")


@pytest.mark.parametrize("data", [pytest.param(x, marks=[] if x in QUICK else [pytest.mark.slow]) for x in DATA])
def test_kernels_are_timed_on_what_was_asked_and_checked_on_normal_numbers(
    data: str, gemm: Callable[..., Ran], tmp_path: Path
) -> None:
    """An answer to zeros proves nothing."""
    seen = tmp_path / "seen"
    (tmp_path / "mine.py").write_text(MINE.format(seen=str(seen)))
    words = ("--m", "8", "--n", "8", "--k", "40", "--data", data, "--variant", f"{tmp_path}/mine.py:product")
    ran = gemm(*words, "--budget", "0.2s", "--json", "-")
    assert ran.code == 0
    kinds = seen.read_text().split()
    assert kinds[0] == "normal"
    assert set(kinds) == {"normal", data} and kinds[-1] == data
    told: list[dict[str, Any]] = json.loads(ran.out)["results"]
    assert {x["data"] for x in told if x["role"] == "measured"} == {data}


# What the check is filled with


def test_sums_of_squares_are_never_negative_whatever_they_are_drawn_from() -> None:
    squares = [x for rule in ("adam", "adadelta") for x in Optimizer(rule, 2, 50).operands() if x.nonnegative]
    assert [x.name for x in squares] == ["v", "v", "u"]
    for data in DATA:
        filled = Optimizer("adadelta", 2, 50).fill(np.random.default_rng(1), data)
        assert min(filled["v"].min(), filled["u"].min()) >= 0
    assert Optimizer("adam", 2, 50).fill(np.random.default_rng(1))["m"].min() < 0
    rows = Softmax(5, 9, "one-hot").fill(np.random.default_rng(3), "uniform")["t"]  # labels, whatever the data
    assert (rows.sum(axis=1) == 1).all() and set(rows.ravel()) == {0, 1}


def test_a_probe_named_after_data_is_filled_with_it() -> None:
    some = {data: Gemm(30, 40, 50).fill(np.random.default_rng(2), data)["a"] for data in DATA}
    assert some["normal"].min() < 0 <= some["uniform"].min() < some["uniform"].max() < 1
    assert not some["zeros"].any() and set(some["integers"].ravel()) == set(range(-8, 9))


def test_sums_that_do_not_average_out_may_be_off_by_more() -> None:
    """4 √K u |A||B| in place of 16 u, of uniform numbers alone."""
    for k, wider in ((4, 1.0), (64, 2.0), (1024, 8.0)):
        problem = Gemm(8, 8, k)
        x = problem.fill(np.random.default_rng(4), "uniform")
        bounds = [problem.compare(x, problem.reference(x), 2.0**-24, probe)[0].bound for probe in ("dense", "uniform")]
        assert np.allclose(bounds[1], wider * bounds[0], rtol=1e-6)


SMALL = Gemm(8, 8, 8)
SIZE = ("--m", "8", "--n", "8", "--k", "8")
KERNELS = {"sse4.2": "Nehalem", "avx": "Sandybridge", "avx2": "Haswell", "avx512": "SkylakeX"}  # OpenBLAS's
HERE = [word for word in KERNELS if ("sse" if word == "sse4.2" else word) in instruction_sets()]
Prepared = Callable[[str, str], Any]
obeys = pytest.mark.skipif(
    openblas.missing("numpy") is not None or len(HERE) < 2, reason="no OpenBLAS here that has a choice"
)


@pytest.fixture
def prepared() -> Prepared:
    """What a worker that was started so says of a variant."""

    def of(asked: str, variant: str) -> Any:
        worker = Worker(Setting(isa=asked))
        try:
            return ask(worker, Prepare(Case(SMALL, variant, Setting(isa=asked))), 60.0)
        finally:
            worker.close()

    return of


@obeys
@pytest.mark.parametrize(
    ("asked", "variant"), [*((x, "openblas") for x in HERE), ("Nehalem", "numpy"), ("default", "openblas")]
)
def test_openblas_obeys(asked: str, variant: str, prepared: Prepared, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the environment asks of everybody, but where nothing is asked."""
    usual = next(KERNELS[word] for word in reversed(HERE) if word != asked)
    monkeypatch.setenv("OPENBLAS_CORETYPE", usual)
    told = prepared(asked, variant)
    assert (usual if asked == "default" else KERNELS.get(asked, asked)) in told.kernel.split()
    assert told.isa == asked or asked not in HERE


@obeys
def test_a_family_of_other_processors_is_refused_with_what_runs(
    prepared: Prepared, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENBLAS_CORETYPE", raising=False)
    with pytest.raises(Unavailable, match=r"^--isa ARMV8 is not available: the library uses OpenBLAS .* kernels$"):
        prepared("ARMV8", "openblas")


def test_a_kernel_that_does_not_tell_is_refused() -> None:
    case = Case(Activation(64), "numpy", Setting(isa="avx2"))
    with pytest.raises(Unavailable, match=r"^--isa avx2 is not available: the library does not report"):
        Kernels(open_device("cpu")).prepare(case)


@pytest.mark.parametrize(
    ("asked", "kernel", "observed", "why"),
    [
        ("default", None, None, None),
        ("default", "OpenBLAS 0.3 Haswell kernels", "avx2", None),
        ("avx2", "OpenBLAS 0.3 Haswell kernels", "avx2", None),
        ("avx2", "OpenBLAS 0.3 Zen kernels", "avx2", None),
        ("avx2", "OpenBLAS 0.3 SkylakeX kernels", "avx512", "the library uses avx512 (OpenBLAS 0.3 SkylakeX kernels)"),
        ("avx512", "MKL 2026.2", None, "the library does not report the instructions it uses"),
        ("Haswell", "OpenBLAS 0.3 Zen kernels", "avx2", "the library uses OpenBLAS 0.3 Zen kernels"),
        ("Haswell", "MKL 2026.2", "avx2", "the library uses MKL 2026.2"),
    ],
)
def test_refusal(asked: str, kernel: str | None, observed: str | None, why: str | None) -> None:
    wanted = f"--isa {asked} is not available: {why}" if why else None
    assert refusal(asked, kernel, observed) == wanted


def test_a_library_is_asked_by_its_own_words() -> None:
    assert variables("default") == {}
    assert variables("Zen") == {"OPENBLAS_CORETYPE": "Zen"}
    assert variables("avx512")["OPENBLAS_CORETYPE"] == "SkylakeX"
    assert {FAMILIES[SETS[word]["OPENBLAS_CORETYPE"]] for word in SETS} == set(SETS)
    assert all(FAMILIES[SETS[word]["OPENBLAS_CORETYPE"]] == word for word in SETS)


@pytest.mark.parametrize("asked", ["", "avx3", "haswell", "AVX2", "avx2 "])
def test_a_word_that_is_none(asked: str) -> None:
    with pytest.raises(UsageError, match=f"^--isa {asked}: choose from default, "):
        variables(asked)


# Where cases live


def test_each_set_has_a_worker_of_its_own() -> None:
    settings = [Setting(isa=isa, data=data) for isa in ("default", "avx2") for data in ("normal", "zeros")]
    assert len({Workers.key(Case(SMALL, "openblas", setting)) for setting in settings}) == 2


# Through the command line

Gemm_ = Callable[..., Ran]


def measured(ran: Ran) -> list[dict[str, Any]]:
    return [x for x in json.loads(ran.out)["results"] if x["role"] == "measured"]


def test_on_a_device_that_does_not_tell_all_are_skipped(gemm: Gemm_) -> None:
    ran = gemm(*SIZE, "--isa", "avx2", "--variant", "openblas,mkl", "--device", "fake", "--json", "-")
    assert ran.code == 0
    assert {(x["status"], x["reason"]) for x in measured(ran)} == {
        ("skipped", "--isa avx2 is not available: the library does not report the instructions it uses")
    }


@obeys
@pytest.mark.parametrize(("asked", "code"), [("sse4.2", 0), ("ARMV8", 2)])
def test_one_launch_for_a_profiler_is_of_the_set_asked_for(asked: str, code: int, tmp_path: Path) -> None:
    """A process in which the library was loaded before would take another."""
    words = (*SIZE, "--variant", "openblas", "--isa", asked, "--profile")
    ran = python("-m", "micro.gemm", *words, state=tmp_path, OPENBLAS_CORETYPE="Haswell")
    assert ran.returncode == code, ran.stderr
    if code:
        assert ran.stderr.startswith("micro.gemm: --isa ARMV8 is not available: the library uses ")
        assert len(ran.stderr.splitlines()) == 1
