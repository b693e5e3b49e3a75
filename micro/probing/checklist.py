"""Ask a machine with a GPU what only it can tell, one process a question, one line an answer.

    python -m micro.probes -o answers.jsonl

`probes/` is the registry; a visit to a GPU may ask it in parts. A line holds the probe, its question, its answer
or its error, and the seconds it took; an error also what was found before it ("so_far") and the last words ("tail").
Lines are whole however the run ends: the file is replaced by a longer one as each probe ends.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernels import suite
from micro.probing import facts, processes

ABOUT = "Ask a machine with a GPU what only it can tell."
PROBES = Path(__file__).parents[1] / "probes"
SECONDS = 540.0  # for all of them
FAKE_LIMIT = 10.0  # seconds for a probe that has no GPU to ask
LIMIT = 60.0  # seconds for a probe that names none
PARTS = (1, 2, 3)
PART, RANK = 3, 1000  # of a probe that names none: last
ROOM = 15 << 20  # bytes of the whole file: what collects it takes 16 MiB
FRAME = 4096  # bytes of a line beside its answer
TAIL = 1500  # characters of last words


@dataclass(frozen=True)
class Probe:
    """A file of the folder, read and not run."""

    path: Path
    question: str
    limit: float
    part: int
    rank: int

    @property
    def name(self) -> str:
        return self.path.stem


def find(folder: Path, only: str = "", part: int | None = None) -> list[Probe]:
    """Part by part, what is worth most first; of equal rank short ones first: one that hangs then costs the fewest
    answers."""
    files = [path for path in folder.glob("*.py") if not path.name.startswith("_")]
    probes = [read(path) for path in files if re.search(only, path.stem)]
    chosen = [probe for probe in probes if part in (None, probe.part)]
    return sorted(chosen, key=lambda probe: (probe.part, probe.rank, probe.limit, probe.name))


def read(path: Path) -> Probe:
    """Off the syntax tree: a file that cannot be imported costs its own line alone."""
    constants: dict[str, Any] = {}
    with contextlib.suppress(SyntaxError, ValueError):
        for node in ast.parse(path.read_text("utf-8")).body:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                with contextlib.suppress(ValueError):
                    constants[node.targets[0].id] = ast.literal_eval(node.value)
    return Probe(
        path,
        str(constants.get("QUESTION", "")),
        float(constants.get("LIMIT", LIMIT)),
        int(constants.get("PART", PART)),
        int(constants.get("RANK", RANK)),
    )


def ask(probe: Probe, seconds: float, settings: dict[str, str]) -> dict[str, Any]:
    """The probe's line. Its whole process group is killed when its time is over, and when we are."""
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="checklist-") as folder:
        answers, words = Path(folder) / "answers", Path(folder) / "words"
        answers.touch()
        with words.open("wb") as stream:
            process = subprocess.Popen(
                suite.child("micro.probing.child", probe.path, answers, os.getpid()),
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=stream,
                process_group=0,
                env=processes.path({"TMPDIR": folder, **settings}),
                cwd=processes.ROOT,
            )
            code = processes.outlast(process, seconds)
        end = f"no answer within {seconds:g} s"
        if code is not None:
            end = f"ended without an answer: {processes.end(code)}"
        line = {"probe": probe.name, "question": probe.question, **_told(answers, end, words)}
    return line | {"seconds": round(time.monotonic() - start, 3)}


def _told(answers: Path, end: str, words: Path) -> dict[str, Any]:
    """The answer, or why there is none and what was found until then."""
    lines = processes.lines(answers)
    last = next((line for line in lines if "answer" in line or "error" in line), {"error": end})
    if "answer" in last:
        return last
    so_far = {line["key"]: line["fact"] for line in lines if "key" in line}
    with words.open("rb") as stream:
        stream.seek(max(0, words.stat().st_size - TAIL))
        tail = stream.read().decode(errors="replace").strip()
    return last | ({"so_far": so_far} if so_far else {}) | ({"tail": tail} if tail else {})


class Log:
    """A file of lines, or standard output. A line is there wholly or not at all."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.text = b""
        if path and path.exists():
            self.text = b"".join(x for x in path.read_bytes().splitlines(True) if x.endswith(b"\n"))

    def append(self, line: dict[str, Any], to_come: int) -> None:
        """`to_come`: lines that must find room behind this one."""
        room = max(0, (ROOM - len(self.text)) // (1 + to_come) - FRAME)
        cut = {key: facts.fit(line[key], room) for key in ("answer", "so_far") if key in line}
        self.text += json.dumps(line | cut).encode() + b"\n"
        if self.path is None:
            sys.stdout.write(json.dumps(line | cut) + "\n")
            sys.stdout.flush()
            return
        part = self.path.with_name(f".{self.path.name}.part")
        with part.open("wb") as stream:  # a write may be cut by a signal, a replacement is not
            stream.write(self.text)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(part, self.path)


def run(probes: Sequence[Probe], log: Log, seconds: float, fake: bool) -> int:
    """0 when every probe gave a line; one that had no time left says so."""
    over = time.monotonic() + seconds
    settings = {"CUDA_VISIBLE_DEVICES": ""} if fake else {}
    for number, probe in enumerate(probes, 1):
        limit = min(FAKE_LIMIT if fake else probe.limit, over - time.monotonic())
        if limit < 1.0:
            line: dict[str, Any] = {"probe": probe.name, "question": probe.question}
            line |= {"error": f"not asked: the {seconds:g} s for all are over", "seconds": 0.0}
        else:
            line = ask(probe, limit, settings)
        log.append(line, len(probes) - number)
        short = line.get("error") or "answered"
        sys.stderr.write(f"{number:2d}/{len(probes)} {probe.name} {line['seconds']:.1f} s: {short}\n")
    return 0 if probes else 1


def main(argv: Sequence[str] | None = None, folder: Path = PROBES) -> int:
    """`python -m micro.probes`: asks the chosen probes, each in a process of its own; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m micro.probes", description=ABOUT)
    parser.add_argument("-o", metavar="FILE", type=Path, help="where the lines go; else to standard output")
    parser.add_argument("--only", metavar="REGEX", default="", help="probes whose name it is found in")
    parser.add_argument("--part", type=int, choices=PARTS, help="those that this part of a visit asks")
    parser.add_argument("--seconds", type=float, default=SECONDS, help=f"for all of them ({SECONDS:g})")
    parser.add_argument("--fake", action="store_true", help="as on a machine without a GPU: a self-test")
    parser.add_argument("--list", action="store_true", help="the probes: part, limit, question")
    asked = parser.parse_args(argv)
    probes = find(folder, asked.only, asked.part)
    if asked.list:
        sys.stdout.writelines(f"{x.part}  {x.limit:5g} s  {x.name}: {x.question}\n" for x in probes)
        return 0
    return run(probes, Log(asked.o), asked.seconds, asked.fake)
