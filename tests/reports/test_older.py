"""What a record says of its axes and ceilings today, and what stands in for it in an older file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from kernels.problem import Problem
from micro.measuring.ceilings import title
from micro.planning.contest import parse
from reports import older, store
from tests.conftest import Ran


def test_a_run_says_how_its_axes_are_said_and_what_its_ceilings_are_called(
    gemm: Callable[..., Ran], tmp_path: Path
) -> None:
    path = tmp_path / "run.jsonl"
    size = [word for axis in "mnk" for word in (f"--{axis}", "64")]
    assert gemm(*size, "--variant", "openblas,numpy", "--device", "fake", "-q", "-o", str(path)).code == 0
    results = store.read(path).results
    assert {x.op: x.axes for x in results if x.role == "measured"} == {"gemm": {"trans": "word"}}
    names = {x.ceiling for x in results if x.role == "ceiling"}
    assert len(names) == 2 and {x.ceiling for x in results if x.role == "measured"} <= names
    bare = [replace(x, ceiling=None) for x in results if x.role == "ceiling"]
    assert {older.ceiling(x) for x in bare} == names, "an older file's have the same names"


@pytest.mark.parametrize(
    ("name", "called"),
    [
        ("fma/isa:avx512/variant:c/threads:1", "FMA avx512"),
        ("mma/dtype:bf16/unit:wgmma/variant:cuda/threads:1", "tensor cores bf16, wgmma"),
        ("stream/kind:read/size:4194304/variant:c/threads:1", "read 4 MiB"),
        ("stream/kind:read/size:4194304/variant:c/threads:2", "read 4 MiB, 2 threads"),
        ("mma/dtype:int8/unit:avx512vnni/variant:c/threads:1", "int8, avx512vnni"),
    ],
)
def test_a_ceiling_is_called_by_what_it_bounds(name: str, called: str) -> None:
    assert title(parse(name)) == called


def test_only_what_is_said_in_another_way_is_recorded() -> None:
    problems: dict[str, Problem] = {
        op: parse(f"{op}/{rest}/variant:c/threads:1").problem
        for op, rest in (("stream", "kind:copy/size:4096"), ("norm", "images:1/maps:2/size:3"))
    }
    assert problems["stream"].said == {"kind": "word", "size": "bytes"}
    assert problems["norm"].said == {}, "its size is the edge of an image"


def test_an_older_file_says_of_its_axes_what_reports_said_then() -> None:
    reference = Path(__file__).parents[2] / "reports/reference/transpose-full.jsonl"
    (axes,) = {str(older.axes(x)) for x in store.read(reference).results}
    assert axes == str(older.AXES)
