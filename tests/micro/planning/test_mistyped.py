"""What is said where a word of a command line is not one of ours: the nearest that is."""

from __future__ import annotations

import re
from dataclasses import fields

import pytest

from kernels import catalog
from kernels.devices import kind_of
from kernels.errors import UsageError, choice
from micro.command import everything
from micro.planning.options import request
from micro.planning.request import NEAREST, planned

BENCHMARKS = everything.benchmarks()


def request_of(line: str) -> None:
    """Plan a command line, as Python would."""
    name, *words = line.split()
    meant, options = request(BENCHMARKS[name], name, words, raising=True)
    planned(meant, name, options)


def test_a_budget_below_zero_is_named() -> None:
    with pytest.raises(UsageError, match=r"^--budget -5s: give a positive number such as 20s or 3m$"):
        request_of("gemm --budget -5s")


@pytest.mark.parametrize(
    ("word", "axes"),
    [
        ("filter", "--r, --s"),
        ("kernel-size", "--r, --s"),
        ("batch", "--n"),
        ("in-channels", "--c"),
        ("out_channels", "--k"),
        ("padding", "--pad"),
        ("widht", "--widths"),
    ],
)
def test_an_axis_is_found_by_the_words_of_the_field(word: str, axes: str) -> None:
    with pytest.raises(UsageError, match=rf"\(did you mean {axes}\?\)"):
        request_of(f"conv --{word} 3")


@pytest.mark.parametrize("option", ["--stages", "--plans"])
def test_a_removed_option_names_its_successor(option: str) -> None:
    with pytest.raises(UsageError, match=re.escape(f"{option} is no option any more: type python -m ")):
        request_of(f"conv {option}")


def test_other_words_name_axes_that_there_are() -> None:
    for benchmark in BENCHMARKS.values():
        named = {axis for axes in benchmark.problem.called.values() for axis in axes}
        assert named <= {axis.name for axis in fields(benchmark.problem)}
        assert not benchmark.problem.called.keys() & {axis.name for axis in fields(benchmark.problem)}


def test_of_an_unknown_variant_those_of_the_device_are_named() -> None:
    for device, other in (("cpu", "cublas"), ("cuda:0", "openblas")):
        with pytest.raises(UsageError, match=r"^--variant nosuch: there are .* more$") as error:
            request_of(f"gemm --device {device} --m 8 --variant nosuch")
        names = str(error.value).partition("there are ")[2].partition(" and ")[0].split(", ")
        assert len(names) == NEAREST and other not in names
        assert set(names) <= {row.name for row in catalog.rows("gemm", kind_of(device).kernels)}
    with pytest.raises(UsageError) as error:
        request_of("gemm --m 8 --variant cublsa")
    assert "cublas" not in str(error.value)
    with pytest.raises(UsageError, match="--variant opnblas: did you mean openblas"):
        request_of("gemm --m 8 --variant opnblas")


def test_of_many_the_nearest_are_named_first() -> None:
    assert choice("abc", ("xyz", "axx", "zzz", "wbc1"), 2) == "there are wbc1, axx and 2 more"
    assert choice("abc", ("xyz", "axx"), 2) == "there are xyz, axx"
