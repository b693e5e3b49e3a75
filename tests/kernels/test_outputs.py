"""An operation with two outputs and an integer input, added by files alone: measured, each output checked by name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.test_contributing import copy, run

FILES = {
    "kernels/ops/pick/__init__.py": """
from kernels.ops.pick.problem import Pick as Pick
""",
    "kernels/ops/pick/problem.py": '''
from dataclasses import dataclass
from typing import ClassVar

from kernels.problem import Operand, Problem, axis


@dataclass(frozen=True)
class Pick(Problem):
    """y[i] = x[i, labels[i]]; total[i]: the sum of row i."""

    op: ClassVar[str] = "pick"

    batch: int = axis("rows", low=1)
    classes: int = axis("columns", low=1)

    @property
    def flops(self):
        return float(self.batch * self.classes)

    @property
    def bytes(self):
        return float(self.footprint)

    def operands(self):
        rows = (self.batch,)
        x = Operand("x", (self.batch, self.classes), "in")
        labels = Operand("labels", rows, "in", "int32", below=self.classes)
        return x, labels, Operand("y", rows, "out"), Operand("total", rows, "out")

    def reference(self, x):
        return {"y": x["x"][range(self.batch), x["labels"]].astype("f8"), "total": x["x"].sum(axis=1, dtype="f8")}

    def bound(self, x, want, u):
        return {"y": 0 * want["y"], "total": self.classes * u * abs(x["x"]).sum(axis=1, dtype="f8")}
''',
    "kernels/ops/pick/variants.py": """
import numpy as np

from kernels.launch import Launch
from kernels.variant import Variant


def prepare(problem, device, setting):
    rows = np.arange(problem.batch)

    def bind(buffers):
        x, labels, y, total = buffers

        def call():
            y[...] = x[rows, labels]
            np.sum(x, axis=1, out=total)

        return Launch(call)

    return bind


VARIANTS = (Variant("numpy", "cpu", "numpy", prepare, python=True),)
""",
    "micro/pick.py": """
import sys

from kernels.ops.pick.problem import Pick
from micro.command.line import main
from micro.planning.benchmark import Benchmark

BENCHMARK = Benchmark(Pick, "One of a row, and its sum.", {"batch": (64,)}, {}, ("numpy",))

if __name__ == "__main__":
    sys.exit(main(BENCHMARK, "pick"))
""",
    "own.py": """
import numpy as np


def right(problem, x, labels, y, total):
    y[...] = x[range(problem.batch), labels]
    np.sum(x, axis=1, out=total)


def off(problem, x, labels, y, total):
    right(problem, x, labels, y, total)
    total[3] += 1


def silent(problem, x, labels, y, total):
    y[...] = x[range(problem.batch), labels]


def first_class(problem, x, labels, y, total):
    right(problem, x, labels, y, total)
    y[...] = x[:, 0]


def relabels(problem, x, labels, y, total):
    right(problem, x, labels, y, total)
    labels[0] = (labels[0] + 1) % problem.classes
""",
}
WORDS = "python -m micro.pick --batch 64 --classes 100 --budget 0.5s"


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("suite")
    copy(folder)
    for path, text in FILES.items():
        assert not (folder / path).exists(), f"{path}: to add is to add a file"
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text.lstrip())
    return folder


def test_it_is_measured_and_checked(suite: Path) -> None:
    ran = run(f"{WORDS} --variant numpy,own.py:right --json -", suite)
    assert ran.returncode == 0, ran.stderr
    results = json.loads(ran.stdout)["results"]
    found = {x["variant"]: x for x in results if x["role"] == "measured"}
    assert set(found) == {"numpy", "own.py:right"}
    for result in found.values():
        assert result["status"] in ("ok", "unreliable", "contended") and result["seconds"]["median"] > 0
        assert 0 < result["error"] <= result["error_bound"], "of the output that may err, not of the one that may not"


@pytest.mark.parametrize(
    ("kernel", "reason"),
    [
        ("off", "total: dense probe: 1 of 64 values off by"),
        ("silent", "total: writes nothing"),
        ("first_class", "y: dense probe: "),
        ("relabels", "changes its input labels"),
    ],
)
def test_a_wrong_output_is_refused_by_name(suite: Path, kernel: str, reason: str) -> None:
    ran = run(f"{WORDS} --variant own.py:{kernel} --json -", suite)
    assert ran.returncode == 1
    (result,) = (x for x in json.loads(ran.stdout)["results"] if x["role"] == "measured")
    assert result["status"] == "wrong" and result["reason"].startswith(reason), result["reason"]
    assert result["seconds"] is None
