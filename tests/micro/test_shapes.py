"""micro/shapes/fc.json against the networks it comes from, computed by hand."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from kernels.ops.gemm.problem import Gemm
from micro.gemm import BENCHMARK, main

FILE = Path(__file__).parents[2] / "micro" / "shapes" / "fc.json"
USE = re.compile(r".+ (forward|dgrad|wgrad) (OI|IO) (nn|nt|tn) batch (\d+)")
# Weights stored out x in (OI) or in x out (IO): which operand each pass reads transposed.
TRANS = {
    ("forward", "OI"): "nt",
    ("dgrad", "OI"): "nn",
    ("wgrad", "OI"): "tn",
    ("forward", "IO"): "nn",
    ("dgrad", "IO"): "nt",
    ("wgrad", "IO"): "tn",
}


@pytest.fixture(scope="module")
def rows() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(FILE.read_text())["problems"]
    return found


def by_size(rows: list[dict[str, Any]]) -> dict[tuple[int, int, int], dict[str, Any]]:
    return {(row["m"], row["n"], row["k"]): row for row in rows}


def test_every_row_is_a_product(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        assert Gemm(row["m"], row["n"], row["k"], row["trans"]).flops > 0
        assert set(row) == {"m", "n", "k", "trans", "name", "uses"}


def test_no_size_comes_twice(rows: list[dict[str, Any]]) -> None:
    assert len(by_size(rows)) == len(rows)
    assert len({row["name"] for row in rows}) == len(rows)


def test_one_row_a_line(rows: list[dict[str, Any]]) -> None:
    assert sum('"m":' in line for line in FILE.read_text().splitlines()) == len(rows)


def test_about_a_hundred_are_small(rows: list[dict[str, Any]]) -> None:
    assert 60 <= sum(2 * row["m"] * row["n"] * row["k"] < 1e9 for row in rows) <= 110


def test_uses_agree_with_their_row(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        told = [USE.fullmatch(use) for use in row["uses"]]
        assert told and all(told)
        for use in filter(None, told):
            assert use[3] == TRANS[use[1], use[2]], row
            batch = row["k"] if use[1] == "wgrad" else row["m"]
            assert int(use[4]) == batch, row
        assert told[0] is not None and told[0][3] == row["trans"]
        network = row["name"].partition(f" {told[0][1]} ")[0]
        assert row["uses"][0].startswith(f"{network} {told[0][1]} ")


@pytest.mark.parametrize(
    ("size", "use"),
    [
        ((64, 2048, 26752), "fcn-s fc1 forward OI nt batch 64"),
        ((64, 2048, 26752), "fcn-s fc1 forward IO nn batch 64"),
        ((64, 2048, 26752), "fcn-s out dgrad OI nn batch 64"),
        ((2048, 26752, 64), "fcn-s fc1 wgrad OI tn batch 64"),
        ((26752, 2048, 64), "fcn-s fc1 wgrad IO tn batch 64"),
        ((26752, 2048, 64), "fcn-s out wgrad OI tn batch 64"),
        ((64, 26752, 2048), "fcn-s out forward OI nt batch 64"),
        ((64, 2048, 2048), "fcn-s fc2, fc3 (fc4) dgrad IO nt batch 64"),
        ((2048, 2048, 64), "fcn-s fc2, fc3 (fc4) wgrad OI tn batch 64"),
        ((16, 4096, 9216), "alexnet-s canonical fc6 forward OI nt batch 16"),
        ((1000, 4096, 16), "alexnet-s canonical fc8 wgrad OI tn batch 16"),
        ((12544, 4096, 16), "alexnet-s tf fc6 wgrad IO tn batch 16"),
        ((4096, 1024, 16), "alexnet-s caffe fc6 wgrad OI tn batch 16"),
        ((16, 2048, 1000), "resnet-50 fc dgrad OI nn batch 16"),
        ((2048, 784, 1024), "fcn-r fc1 wgrad OI tn batch 1024"),
        ((1024, 4096, 1024), "fcn-r fc3 dgrad OI nn batch 1024"),
        ((1024, 4096, 1024), "fcn-r fc3 wgrad OI tn batch 1024"),
        ((10, 576, 1024), "alexnet-r fc wgrad OI tn batch 1024"),
        ((576, 10, 1024), "alexnet-r fc wgrad IO tn batch 1024"),
        ((128, 10, 64), "resnet-56 fc forward OI nt batch 128"),
        ((64, 6400, 512), "karmanov cnn fc1 dgrad OI nn batch 64"),
        ((784, 512, 128), "woolf mlp fc1 wgrad IO tn batch 128"),
        ((128, 128, 9216), "woolf mnist cnn fc1 forward IO nn batch 128"),
        ((2304, 512, 32), "woolf cifar cnn fc1 wgrad IO tn batch 32"),
        ((32, 1, 50), "woolf fasttext fc forward IO nn batch 32"),
        ((64, 800, 500), "bahrampour lenet ip1 dgrad OI nn batch 64"),
        ((256, 1000, 4096), "bahrampour alexnet fc8 forward OI nt batch 256"),
        ((64, 400, 784), "sae small fine-tune 784-400 forward OI nt batch 64"),
        ((64, 1000, 2000), "sae large fine-tune 1000-2000 dgrad OI nn batch 64"),
        ((2000, 10, 64), "sae large fine-tune 2000-10 wgrad IO tn batch 64"),
    ],
)
def test_products_of_the_networks(rows: list[dict[str, Any]], size: tuple[int, int, int], use: str) -> None:
    assert use in by_size(rows)[size]["uses"]


@pytest.mark.parametrize("layer", ["fcn-s fc1", "fcn-r fc1", "woolf mlp fc1", "sae small fine-tune 784-400"])
def test_a_first_layer_has_no_gradient_of_its_input(rows: list[dict[str, Any]], layer: str) -> None:
    assert not [use for row in rows for use in row["uses"] if use.startswith(f"{layer} dgrad")]


def test_the_benchmark_reads_it(rows: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--shapes", str(FILE), "--vary", "trans", "--trans", "nn,nt", "--variant", "openblas", "--list"]
    assert main(BENCHMARK, "gemm", words) == 0
    assert capsys.readouterr().out.count("(differs: trans)") == len(rows)
