"""An operation, a benchmark and a device, added as CONTRIBUTING says: files beside the suite, none of it touched."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.test_contributing import ROOT, add_files, copy, run

MEASURED = {"ok", "unreliable", "contended"}  # whatever else the machine does
TOYS = (ROOT / "tests/toys.md").read_text("utf-8")


def section(text: str, title: str) -> str:
    """Return the part of a page below a title that begins so."""
    return text.partition(f"\n## {title}")[2].partition("\n## ")[0]


def suite(factory: pytest.TempPathFactory, name: str, more: str = "") -> Path:
    """Write the suite, and the files of a toy beside it."""
    folder = factory.mktemp(name)
    copy(folder)
    add_files(section(TOYS, name) + more, folder)
    return folder


@pytest.fixture(scope="module")
def tally(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return suite(tmp_path_factory, "tally")


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return suite(tmp_path_factory, "board", section((ROOT / "CONTRIBUTING.md").read_text(), "Add a device"))


@pytest.fixture(scope="module")
def card(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return suite(tmp_path_factory, "card")


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
    assert "board a board, cores: 1, 1.0 GiB free" in told


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("micro.stream --device board --isa avx2", "--isa avx2: board: it has only one instruction set"),
        ("micro.stream --device board --threads 2", "--threads 2: board: it is one core"),
        ("micro.stream --device board --cold a", "--cold a: board: it has no cache"),
        ("micro.stream --device board --cold all", "--cold all: board: it has no cache"),
        ("micro.ceiling --device board", "--device board: no ceiling kernel for this device"),
        ("micro.transpose --device board", "--device board: this benchmark has no kernels for the device yet"),
        ("micro.stream --device board --profile --size 4096", "--profile: no supported profiler for"),
        ("micro.gemm --device board --transpose", "--device board: this question has no kernels"),
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
    assert not any("more kernels than a held stream can queue" in warning for warning in blit["warnings"])
    assert [x["op"] for x in results(card / file, "ceiling")] == ["stream"]


def test_a_table_is_not_called_as_the_file_of_its_device(card: Path) -> None:
    told = run("python -m micro.stream --size 4096 --variant c,blit --until build -o cpu.jsonl -q", card)
    (blit,) = (x for x in results(card / "cpu.jsonl") if x["variant"] == "blit")
    assert told.returncode == 0 and blit["reason"] == "a kernel for shader: --device card:0"


def test_of_a_whole_card_its_memory_alone_bounds_it(card: Path) -> None:
    told = run("python -m micro.ceiling --device card --list", card)
    assert told.returncode == 0 and re.findall(r"^(\S+) \(", told.stdout, re.M) == ["bandwidth/134217728"]
