"""Instruction sets that are asked for: a worker's libraries obey, or the case is refused with what they say."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kernels.devices import open_device
from kernels.devices.cpu import instruction_sets
from kernels.errors import Unavailable, UsageError
from kernels.isa import FAMILIES, SETS, refusal, variables
from kernels.libs import openblas
from kernels.ops.activation.problem import Activation
from kernels.ops.gemm.problem import Gemm
from kernels.setting import Setting
from micro.planning.contest import Case
from micro.worker.client import ask
from micro.worker.kernels import Kernels
from micro.worker.messages import Prepare
from micro.worker.process import Worker, Workers
from tests.conftest import Ran
from tests.processes import python

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
    with pytest.raises(Unavailable, match=r"^--isa ARMV8 is not available: it runs OpenBLAS .* kernels$"):
        prepared("ARMV8", "openblas")


def test_a_kernel_that_does_not_tell_is_refused() -> None:
    case = Case(Activation(64), "numpy", Setting(isa="avx2"))
    with pytest.raises(Unavailable, match=r"^--isa avx2 is not available: it does not report which instructions"):
        Kernels(open_device("cpu")).prepare(case)


@pytest.mark.parametrize(
    ("asked", "kernel", "observed", "why"),
    [
        ("default", None, None, None),
        ("default", "OpenBLAS 0.3 Haswell kernels", "avx2", None),
        ("avx2", "OpenBLAS 0.3 Haswell kernels", "avx2", None),
        ("avx2", "OpenBLAS 0.3 Zen kernels", "avx2", None),
        ("avx2", "OpenBLAS 0.3 SkylakeX kernels", "avx512", "it runs avx512 (OpenBLAS 0.3 SkylakeX kernels)"),
        ("avx512", "MKL 2026.2", None, "it does not report which instructions it took"),
        ("Haswell", "OpenBLAS 0.3 Zen kernels", "avx2", "it runs OpenBLAS 0.3 Zen kernels"),
        ("Haswell", "MKL 2026.2", "avx2", "it runs MKL 2026.2"),
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
    with pytest.raises(UsageError, match=f"^--isa {asked}: there are default, "):
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
        ("skipped", "--isa avx2 is not available: it does not report which instructions it took")
    }


@obeys
@pytest.mark.parametrize(("asked", "code"), [("sse4.2", 0), ("ARMV8", 2)])
def test_one_launch_for_a_profiler_is_of_the_set_asked_for(asked: str, code: int, tmp_path: Path) -> None:
    """A process in which the library was loaded before would take another."""
    words = (*SIZE, "--variant", "openblas", "--isa", asked, "--profile")
    ran = python("-m", "micro.gemm", *words, state=tmp_path, OPENBLAS_CORETYPE="Haswell")
    assert ran.returncode == code, ran.stderr
    if code:
        assert ran.stderr.startswith("micro.gemm: --isa ARMV8 is not available: it runs ")
        assert len(ran.stderr.splitlines()) == 1
