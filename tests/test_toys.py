"""An operation, a benchmark and a device, added as CONTRIBUTING says: files beside the suite, none of it touched."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.test_contributing import ROOT, copy, run

MEASURED = {"ok", "unreliable", "contended"}  # whatever else the machine does
TALLY = {
    "kernels/ops/tally/__init__.py": '''
"""Sum and maximum of each class."""

from kernels.ops.tally.problem import Tally

PROBLEM = Tally
''',
    "kernels/ops/tally/problem.py": '''
"""Values of classes."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from kernels.problem import Operand, Problem, axis


@dataclass(frozen=True)
class Tally(Problem):
    """total[k] and peak[k] of the values whose id is k; 0 where there are none."""

    op: ClassVar[str] = "tally"

    count: int = axis("values", low=1)
    classes: int = axis("classes", 8, low=1)

    @property
    def flops(self):
        return 2.0 * self.count

    @property
    def bytes(self):
        return 12.0 * self.count + 8.0 * self.classes

    def operands(self):
        ids = Operand("ids", (1, self.count), "in", dtype="int64", below=self.classes)
        outputs = [Operand(name, (1, self.classes), "out") for name in ("total", "peak")]
        return (Operand("x", (1, self.count), "in"), ids, *outputs)

    def reference(self, x):
        of_class = [x["x"].astype("f8")[x["ids"] == k] for k in range(self.classes)]
        total = np.array([[values.sum() for values in of_class]])
        return {"total": total, "peak": np.array([[values.max() if values.size else 0.0 for values in of_class]])}

    def bound(self, x, want, u):
        size = np.array([[np.abs(x["x"][x["ids"] == k]).sum() for k in range(self.classes)]])
        return {"total": self.count * u * size, "peak": 0.0 * want["peak"]}
''',
    "kernels/ops/tally/variants.py": '''
"""By NumPy."""

import numpy as np

from kernels.launch import Launch
from kernels.variant import DEFAULT, Variant


def prepare(off, buffered):
    def bound(problem, device, setting):
        def bind(views):
            x, ids, total, peak = views

            def call():
                total[0] = np.bincount(ids[0], x[0], problem.classes)
                peak[0] = -np.inf
                np.maximum.at(peak[0], ids[0], x[0])
                peak[0][np.isinf(peak[0])] = 0.0
                peak[0, -1] += off

            return Launch(call)

        return bind

    return bound


VARIANTS = (
    Variant("numpy", "cpu", "numpy", prepare(0.0, False), python=True, roles=(DEFAULT, "both")),
    Variant("again", "cpu", "numpy", prepare(0.0, True), python=True, roles=("both",)),
    Variant("off", "cpu", "numpy", prepare(1.0, False), python=True, roles=()),
)
''',
    "micro/tally.py": '''
"""Values of classes: two questions."""

import sys

from kernels.ops.tally.problem import Tally
from micro.command.line import main
from micro.planning.benchmark import Benchmark, Question
from micro.planning.contest import Contest


def rivals(asked):
    cases = tuple(asked.case(Tally(asked.axes["count"][0]), name) for name in asked.rows("both"))
    return [Contest("rivals/tally", "who tallies fastest?", "variant", cases)]


def classes(asked):
    cases = tuple(asked.case(Tally(asked.axes["count"][0], many), asked.rows()[0]) for many in (8, 64))
    return [Contest("classes/tally", "do more classes cost more?", "classes", cases)]


BENCHMARK = Benchmark(
    Tally,
    "Sum and maximum of each class.",
    sweep={"count": (1000,)},
    questions={"rivals": Question("who tallies fastest?", rivals), "many": Question("what do classes cost?", classes)},
    default="rivals",
)

if __name__ == "__main__":
    sys.exit(main(BENCHMARK, "tally"))
''',
}
BOARD_PRODUCT = '''
"""A product on a board."""

from functools import partial

import numpy as np

from kernels.launch import Launch
from kernels.variant import Variant


def prepare(problem, device, setting):
    return lambda views: Launch(partial(np.matmul, views[0], views[1], views[2]))


def accepts(problem):
    return None if problem.trans == "nn" and problem.dtype == "fp32" else "NN of fp32 alone"


VARIANTS = (Variant("board-product", "board", "board", prepare, accepts=accepts, python=True),)
'''


CARD = {
    "kernels/devices/card.py": '''
"""A card of which all is taken at once: pulses of 1 us, three launches behind a hold, and no caches."""

import math
import time

from kernels.devices.base import Elapsed, Limits
from kernels.devices.cpu import Cpu
from kernels.devices.kind import Kind

KIND = Kind(
    "card",
    "card:0",
    "shader",
    clock="pulse",
    tick=1e-6,
    visit="held",
    queue=3,
    alignment=256,
    refuses={"threads": "it has one queue"},
    ceilings=("stream",),
    undivided=True,
    sticky=True,
)


def kind(index=""):
    return KIND


def open_device(index=""):
    return Card()


class Card(Cpu):
    name = "card:0"

    def __init__(self):
        self.kind = KIND

    def mark(self):
        return time.perf_counter_ns() // 1000

    def passed(self, mark):
        return False

    def between(self, start, end):
        return Elapsed(max(1, end - start) * KIND.tick, math.nan)

    def describe(self):
        return {"model": "a card", "vendor": "none", "isa": []}

    def limits(self):
        return Limits(memory=8 << 30, cores=4, caches=())
''',
    "kernels/ops/stream/shader_variants.py": '''
"""Traffic on a card."""

import numpy as np

from kernels.launch import Launch
from kernels.variant import CEILING, DEFAULT, Variant


def prepare(problem, device, setting):
    def bind(views):
        *inputs, y = views
        if problem.kind == "read":
            return Launch(lambda: np.sum(inputs[0], keepdims=True, out=y))
        return Launch(lambda: np.copyto(y, inputs[0]))

    return bind


def burning(problem, device, setting):
    def bind(views):
        def call():
            raise RuntimeError("it burns")

        return Launch(call)

    return bind


VARIANTS = (
    Variant("blit", "shader", "card", prepare, python=True, roles=(DEFAULT, CEILING)),
    Variant("burning", "shader", "card", burning, python=True, roles=()),
)
''',
}


def write(folder: Path, files: dict[str, str]) -> Path:
    """The suite, and these files beside it."""
    copy(folder)
    for name, text in files.items():
        assert not (folder / name).exists(), f"{name}: to add is to add a file"
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text.lstrip())
    return folder


@pytest.fixture(scope="module")
def tally(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("tally"), TALLY)


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Path:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    section = text[text.index("## Add a device") :]
    section = section[: section.index("\n## ")]
    files = dict(re.findall(r"```python\n# file: (\S+)\n(.*?)```", section, flags=re.S))
    return write(tmp_path_factory.mktemp("board"), files | {"kernels/ops/gemm/board_variants.py": BOARD_PRODUCT})


@pytest.fixture(scope="module")
def card(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("card"), CARD)


def results(path: Path, role: str = "measured") -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return [x for line in lines for x in line.get("results", ()) if x["role"] == role]


def test_two_questions_of_an_operation_with_two_outputs_and_labels(tally: Path) -> None:
    for words, contest in (("", "rivals/tally"), ("--many", "classes/tally")):
        told = run(f"python -m micro.tally {words} --list".replace("  ", " "), tally)
        assert told.returncode == 0, told.stderr
        assert told.stdout.startswith(contest)
    told = run("python -m micro.tally --rivals --budget 0.5s -o rivals.jsonl", tally)
    assert told.returncode == 0, told.stderr
    found = results(tally / "rivals.jsonl")
    assert [x["variant"] for x in found] == ["numpy", "again"] and {x["status"] for x in found} <= MEASURED


def test_a_wrong_second_output_is_refused_by_its_name(tally: Path) -> None:
    told = run("python -m micro.tally --count 100 --variant off --budget 0.5s -o off.jsonl -q", tally)
    assert told.returncode == 1
    (only,) = (x for x in results(tally / "off.jsonl") if x["variant"] == "off")
    assert only["status"] == "wrong" and only["reason"].startswith("peak: ") and only["reason"].endswith("at [0, 7]")


@pytest.mark.parametrize(
    ("words", "variant"),
    [("micro.stream --size 4096", "board-copy"), ("micro.gemm --m 16 --n 16 --k 16", "board-product")],
)
def test_a_device_runs_what_is_written_for_it_and_its_record_says_what_it_is(
    board: Path, words: str, variant: str
) -> None:
    told = run(f"python -m {words} --device board --budget 0.5s -o {variant}.jsonl", board)
    assert told.returncode == 0, told.stderr
    (only,) = results(board / f"{variant}.jsonl")
    assert (only["variant"], only["clock"]) == (variant, "ticks") and only["status"] in MEASURED
    assert only["launches"] == 1 and only["ceiling"] is None and only["percent_of_ceiling"] is None
    assert {place % 4096 for place in only["placements"]} == {0}
    assert not results(board / f"{variant}.jsonl", "ceiling")
    ticks = [seconds / 3e-9 for seconds in only["samples"]]
    assert len(set(map(round, ticks))) > 1 and only["seconds"]["median"] > 0
    head = json.loads((board / f"{variant}.jsonl").read_text().splitlines()[0])
    assert head["state"]["devices"]["board"] == {
        "kind": "board",
        "kernels": "board",
        "clock": "ticks",
        "tick": 3e-9,
        "visit": "single",
        "alignment": 4096,
        "obeys": ["data", "workspace"],
        "ceilings": [],
    }


def test_the_doctor_says_what_a_device_is(board: Path) -> None:
    told = " ".join(run("python -m kernels", board).stdout.split())
    assert (
        "board a board, 1 core, 1 GiB free clock: ticks, 3 ns apart at best; a visit is one launch; operands at "
        "multiples of 4096 B; obeys data, workspace; no ceiling; kernels: gemm board-product, stream board-copy"
    ) in told


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("micro.stream --device board --isa avx2", "--isa avx2: board: it has one instruction set"),
        ("micro.stream --device board --threads 2", "--threads 2: board: it is one core"),
        ("micro.stream --device board --cold a", "--cold a: board: it has no cache"),
        ("micro.stream --device board --cold all", "--cold all: board: it has no cache"),
        ("micro.ceiling --device board", "--device board: there is no ceiling kernel for it"),
        ("micro.transpose --device board", "--device board: nothing here is written for it yet"),
        ("micro.stream --device board --profile --size 4096", "--profile: no profiler is known that looks at"),
        ("micro.gemm --device board --transpose", "--device board: nothing that this question measures is written"),
    ],
)
def test_what_a_device_cannot_is_a_line(board: Path, words: str, reason: str) -> None:
    told = run(f"python -m {words}", board)
    assert told.returncode == 2 and told.stderr.count("\n") == 1
    assert reason in told.stderr


@pytest.mark.slow
def test_all_asks_a_device_what_is_written_for_it(board: Path) -> None:
    told = run("python -m micro all --device board --budget 2s -q", board)
    assert told.returncode == 0, told.stderr
    assert re.findall(r"^\[\d+/\d+\] (.*)$", told.stdout, re.M) == ["python -m micro.stream"]


@pytest.mark.slow
@pytest.mark.parametrize("device", ["card", "card:1"])
def test_a_device_is_measured_by_whatever_name(card: Path, device: str) -> None:
    """What raises costs its case; launches stand ready behind a hold, though they tell nothing of their kernels."""
    file = device.replace(":", "-") + ".jsonl"
    words = f"--size 65536 --device {device} --variant burning,blit --budget 0.5s -o {file} -q"
    told = run(f"python -m micro.stream {words}", card)
    assert told.returncode == 1 and "Traceback" not in told.stderr
    burning, blit = results(card / file)
    assert (burning["status"], burning["reason"]) == ("failed", "raises RuntimeError: it burns")
    assert blit["device"] == device and blit["samples"] and blit["clock"] == "pulse" and blit["launches"] == 1
    assert not any("more kernels than a held stream takes" in warning for warning in blit["warnings"])
    assert [x["op"] for x in results(card / file, "ceiling")] == ["stream"]


def test_a_table_is_not_called_as_the_file_of_its_device(card: Path) -> None:
    told = run("python -m micro.stream --size 4096 --variant c,blit --until build -o cpu.jsonl -q", card)
    (blit,) = (x for x in results(card / "cpu.jsonl") if x["variant"] == "blit")
    assert told.returncode == 0 and blit["reason"] == "a kernel for shader: --device card:0"


def test_of_a_whole_card_its_memory_alone_bounds_it(card: Path) -> None:
    told = run("python -m micro.ceiling --device card --list", card)
    assert told.returncode == 0 and re.findall(r"^(\S+) \(", told.stdout, re.M) == ["bandwidth/134217728"]
