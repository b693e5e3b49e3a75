"""The document of an explanation and what a person reads of it, of processes watched by hand and of recorded steps.

`GOLDEN=write` rewrites what is expected. Numbers are compared to 12 digits: the last ones are the BLAS's.
"""

from __future__ import annotations

import io
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import micro
from kernels.ops.conv.problem import Conv
from kernels.ops.gemm.problem import Gemm
from macro.explaining import document
from macro.explaining import repeat as repeating
from macro.explaining.repeat import Kernels, as_called, best, command, image_pass, repeat
from macro.explaining.rows import rows
from macro.frameworks import find
from macro.networks import find as network
from macro.processes.job import Setting
from macro.timing import results
from macro.timing.entry import Entry, Plan
from macro.watching import perf
from macro.watching.library_log import Logged
from macro.watching.watch import Side
from reports import attribution, formats, store
from reports.record import Environment
from tests.explanations import cell
from tests.macro.explaining.sides import CLEARS, FAST, NET, PACKS, PLAN, SLOW, recorded, side
from tests.macro.models import NETWORKS
from tests.macro.watched import GEMM, PYTHON

ROOT = Path(__file__).parents[3]
ENVIRONMENT = Environment("0", {"device": {"model": "x"}, "cores": 2}, {}, "python -m macro explain", "monday")


@pytest.fixture
def sides(monkeypatch: pytest.MonkeyPatch) -> list[Side]:
    monkeypatch.setattr(perf, "missing", lambda: None)
    return [side("numpy", SLOW, more=(PACKS, CLEARS, PYTHON)), side("jax", FAST)]


def test_a_product_is_what_the_library_logged(sides: list[Side]) -> None:
    """Transposed as it was called, whatever the layout says; where two calls have these sizes, the layout."""
    known, one = rows(NET, 128), sides[0]
    p = known["fc1 wgrad"].product
    assert p is not None and p.trans == "tn" and as_called(known["fc1 wgrad"], one, known) == p
    one.entry.built["layout"] = "outputs x inputs"
    assert as_called(known["fc1 wgrad"], one, known) == replace(p, m=p.n, n=p.m)
    logged = Gemm(p.n, p.m, p.k, "nt", ld_pad=3)
    one.logged = Logged([Gemm(2, 2, 2), logged])
    assert as_called(known["fc1 wgrad"], one, known) == replace(logged, ld_pad=0)
    one.logged.products.append(replace(logged, trans="nn"))
    assert as_called(known["fc1 wgrad"], one, known) == replace(p, m=p.n, n=p.m)


def test_convolutions_have_what_the_library_ran_them_by(sides: list[Side]) -> None:
    net = network("alexnet-r")
    known = rows(net, 8)
    forward, dgrad = (known[f"conv2 {role}"].problems[0] for role in ("forward", "dgrad"))
    assert isinstance(forward, Conv) and isinstance(dgrad, Conv)
    sides[0].logged = Logged(convolutions={forward: "jit:avx2", dgrad: "wino", replace(forward, n=9): "other"})
    told = document._algorithms(sides[0], known)
    assert told == (("conv2 forward", "jit:avx2"), ("conv2 dgrad", "wino"))
    explained = replace(document.explain(PLAN, sides, 3.0), algorithms={"a": told * 3, "b": ()})
    assert (
        "numpy: convolutions as its library logged them: jit:avx2: conv2 forward, conv2 forward, conv2 forward; wino: "
        in attribution.text(explained)
    )


def test_a_call_that_several_rows_could_have_made_is_none_of_theirs(sides: list[Side]) -> None:
    net = network("fcn-s")
    known, one = rows(net, 128), sides[0]
    square = known["fc2 wgrad"].product
    assert square is not None and square == known["fc3 wgrad"].product
    one.logged = Logged([replace(square, trans="nn")])
    assert as_called(known["fc2 wgrad"], one, known) == square


def test_equal_steps_name_nothing(sides: list[Side]) -> None:
    again = [sides[1], side("numpy", FAST)]
    told = document.explain(PLAN, again, 3.0)
    assert told.named == () and "No cause certainly differs by 1%" in attribution.text(told)


def test_what_cannot_be_known_is_said(sides: list[Side], monkeypatch: pytest.MonkeyPatch) -> None:
    sides[1].processes[0].traces = False
    monkeypatch.setattr(perf, "sees_kernel", lambda: False)
    conditions = document.explain(PLAN, sides, 3.0).conditions
    assert "perf may not sample the kernel: the operating system's time is in the residual" in conditions
    assert "jax has no tracer spans: only causes, no rows, for both sides" in conditions
    assert not any("numpy has no tracer spans" in x for x in conditions)
    monkeypatch.setattr(perf, "missing", lambda: "no perf")
    conditions = document.explain(replace(PLAN, generations=5), sides, 3.0).conditions
    assert conditions[0] == "no samples: no perf; the operating system's time is included in the rows"


def test_each_command_that_repeats_is_one(sides: list[Side]) -> None:
    told = document.explain(PLAN, sides, 3.0)
    commands = sorted({x.repeat for x in told.cells})
    assert len(commands) >= 4
    for text in commands:
        words = shlex.split(text)
        assert words[:2] == ["python", "-m"]
        known = subprocess.run(
            [sys.executable, *words[1:], *(["--help"] if words[2] == "macro" else ["--list"])],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        assert known.returncode == 0, (command, known.stderr)
    (wgrad,) = [x for x in told.cells if (x.row, x.column) == ("fc1 wgrad", "gemm")]
    product = rows(NET, 128)["fc1 wgrad"].product
    assert product is not None
    assert wgrad.repeat == (
        f"python -m micro.gemm --m {product.m} --n {product.n} --k {product.k} --trans {product.trans}"
    )


def test_a_run_file_is_shown_as_the_run_itself_did(sides: list[Side], tmp_path: Path) -> None:
    told = document.explain(PLAN, sides, 3.0)
    with closing(store.RunFile(tmp_path / "run.jsonl", ENVIRONMENT)) as file:
        file.append(attribution.note(told))
    shown = io.StringIO()
    formats.write("text", store.read(tmp_path / "run.jsonl"), shown)
    assert shown.getvalue().startswith(attribution.text(told) + "\n")
    assert "Cases" not in shown.getvalue() and "measured 0.0 s" not in shown.getvalue()


def test_a_fused_update_is_repeated_by_the_benchmark_that_has_it_fused(sides: list[Side]) -> None:
    node, known = NET.nodes[0], rows(NET, 128)
    own = f"python -m micro.update --m {node.inputs[0][0]} --n {node.output[0]} --k 128"
    fused = replace(cell("fc1 wgrad + update", "optimizer", 2.0, 1.0), members=("fc1 wgrad", "fc1 update"))
    assert command(fused, PLAN, sides, known) == own
    assert command(replace(fused, members=("fc1 update",)), PLAN, sides, known) == own
    several = replace(fused, members=("fc1 update", "fc2 update"))
    assert repeat(several, PLAN, sides, known) is None


def test_what_is_left_of_a_named_pass_is_measured(sides: list[Side], monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def best(again: Kernels) -> tuple[str, float] | None:
        asked.append(again[0])
        return ("c", 1e-3) if again[0] == "gemm" else None

    monkeypatch.setattr(repeating, "best", best)
    told = document.explain(PLAN, sides, 3.0, kernels=True)
    (left,) = told.headroom
    assert (left.row, left.best, left.took) == ("fc1 wgrad", "c", pytest.approx(4e-3))
    assert left.left == pytest.approx(0.75) and asked.count("gemm") == 1
    assert "fc1 wgrad: 4.00 ms in the step; c by itself" in attribution.text(told)
    monkeypatch.setattr(repeating, "best", lambda again: None)
    assert any(x.startswith("--kernels: none") for x in document.explain(PLAN, sides, 3.0, True).conditions)


@pytest.mark.slow
@pytest.mark.parametrize(
    "again",
    [
        ("elementwise", {"batch": 3, "classes": 7, "variant": "c"}),
        ("elementwise", {"count": 64, "kind": "relu", "phase": "forward", "variant": "c"}),
        ("gemm", {"m": 3, "n": 4, "k": 5, "trans": "nt", "variant": "openblas,naive"}),
    ],
)
def test_a_product_or_a_pass_has_a_best_variant(again: Kernels, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repeating, "BUDGET", "0.1s")
    found = repeating.best(again)
    assert found is not None and found[1] > 0 and found[0] in again[1]["variant"].split(",")


def test_a_framework_is_repeated_as_its_run_says(sides: list[Side]) -> None:
    """In one line, whoever writes it: network, phase and settings as they were."""
    entry = sides[0].entry
    plan = replace(PLAN, phase="forward", asked="my net.json")
    assert results.repeat(plan, entry) == (
        "python -m macro run 'my net.json' --frameworks numpy --batch 128 --phase forward --threads 1 --heap default"
    )
    (told,) = results.contest(plan, [entry], 0.01, {"measuring": 1.0}).results
    assert told.repeat == results.repeat(plan, entry)


def test_products_and_passes_alone_have_a_best_variant() -> None:
    assert repeating.best(("memory", {"faults": True})) is None


GOLDEN = Path(__file__).parent / "golden"


def by_hand() -> list[Side]:
    one = side("numpy", SLOW, more=(PACKS, CLEARS, PYTHON))
    product = Gemm(one.entry.setting.threads, 3, 4, "nt", ld_pad=3)
    one.logged, one.entry.identity = Logged([product]), {"version": "1", "blas": "x"}
    return [one, side("jax", FAST)]


def heaps() -> list[Side]:
    return [side("numpy", SLOW, more=(PACKS, CLEARS, PYTHON)), side("numpy", FAST, heap="keep")]


def without_spans() -> list[Side]:
    sides = by_hand()
    sides[1].processes[0].traces = False
    return sides


def of_the_trace() -> list[Side]:
    """Recorded steps with all their samples against the same with no sample in a product."""
    sides = [side("numpy", []), side("pytorch", [])]
    for number, one in enumerate(sides):
        (made,) = one.processes = [recorded()]
        made.rounds = list(range(len(made.steps)))
        plain = [(end - start) * 1e-9 * (2 - number) for start, end, *_ in made.steps]
        made.levels = {"P0": plain, "P1": [1.1 * x for x in plain], "P3": [1.2 * x for x in plain]}
        made.faults, made.system = [0.0, 5.0], [0.0, 2e-5]
        made.samples = [x for x in made.samples if number == 0 or x.symbol != GEMM[0]]
    return sides


def spans_alone() -> list[Side]:
    sides = of_the_trace()
    for one in sides:
        one.processes[0].samples = []
    return sides


ASKED: dict[str, tuple[Callable[[], list[Side]], Plan, bool]] = {
    "by-hand": (by_hand, PLAN, True),
    "heaps": (heaps, PLAN, False),
    "without-spans": (without_spans, replace(PLAN, generations=5), False),
    "recorded": (of_the_trace, Plan(NET, 128, "step", 1.0, 1, asked="my net.json"), False),
    "spans-alone": (spans_alone, Plan(NET, 128, "gradient", 1.0, 1), True),
}


def same(seen: Any, want: Any) -> bool:
    """Keys in their order, words and counts exactly, other numbers to 12 digits."""
    if isinstance(want, dict):
        return isinstance(seen, dict) and list(seen) == list(want) and all(same(seen[x], want[x]) for x in want)
    if isinstance(want, list):
        return isinstance(seen, list) and len(seen) == len(want) and all(map(same, seen, want))
    if isinstance(want, float):
        return isinstance(seen, float) and seen == pytest.approx(want, rel=1e-12, abs=1e-15)
    return type(seen) is type(want) and bool(seen == want)


@pytest.mark.parametrize("name", ASKED)
def test_a_document_is_as_it_was(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(perf, "missing", lambda: None)
    monkeypatch.setattr(perf, "sees_kernel", lambda: True)
    monkeypatch.setattr(repeating, "best", lambda again: ("c", 1e-3) if "gemm" in again[0] else None)
    sides, plan, kernels = ASKED[name]
    told = document.explain(plan, sides(), 3.0, kernels)
    written, text = json.dumps(attribution.note(told).data), attribution.text(told) + "\n"
    files = GOLDEN / f"{name}.json", GOLDEN / f"{name}.txt"
    if os.environ.get("GOLDEN") == "write":
        files[0].write_text(written.replace('}, {"row"', '},\n{"row"') + "\n", "utf-8")
        files[1].write_text(text, "utf-8")
    assert same(json.loads(written), json.loads(files[0].read_text("utf-8")))
    assert text == files[1].read_text("utf-8"), "if this is as it should be: make golden, and read the diff"


def test_every_golden_belongs_to_a_document() -> None:
    assert {path.stem for path in GOLDEN.glob("*")} == set(ASKED)


def test_a_document_of_another_number_is_another() -> None:
    want = json.loads((GOLDEN / "by-hand.json").read_text("utf-8"))
    assert same(want, want)
    assert not same({**want, "gap": want["gap"] * (1 + 1e-9)}, want)
    assert not same(dict(reversed(want.items())), want)
    assert not same({**want, "cells": want["cells"][1:]}, want)


IMAGES = NETWORKS["passes"]
WANTED = {
    ("norm forward", "normalization"): {"images": 4, "maps": 8, "size": 15},
    ("norm gradient", "normalization"): {"images": 4, "maps": 8, "size": 15, "phase": "step"},
    ("norm activation", "element-wise"): {"count": 4 * 8 * 15 * 15, "kind": "relu", "phase": "forward"},
    ("pool forward", "pooling"): {"images": 4, "channels": 8, "size": 15, "window": 3, "pool": "max"},
    ("frozen gradient", "normalization"): {"images": 4, "maps": 8, "size": 7, "mode": "frozen", "phase": "step"},
    ("lrn forward", "normalization"): {"images": 4, "maps": 8, "size": 7, "method": "lrn"},
    ("drop forward", "random numbers"): {"units": 4 * 8 * 7 * 7, "rate": 0.25},
}
OF_IMAGES = Plan(IMAGES, 4, "step", 1.0, 1)


def again(row: str, column: str) -> str:
    sides = [Side(Entry(find("numpy"), Setting()), [])] * 2
    return command(cell(row, column, 2.0, 1.0), OF_IMAGES, sides, rows(IMAGES, 4))


@pytest.mark.parametrize(("of", "options"), WANTED.items(), ids=lambda x: x[0] if type(x) is tuple else "")
def test_each_pass_has_its_benchmark(of: tuple[str, str], options: dict[str, object]) -> None:
    words = " ".join(f"--{name} {value}" for name, value in options.items())
    assert again(*of) == f"python -m micro.elementwise {words}"
    planned = micro.plan("elementwise", **options, variant="numpy")
    assert planned.contests
    node = next(x for x in IMAGES.nodes if x.name == of[0].split()[0])
    if "activation" not in of[0]:
        assert image_pass(node, of[0].split()[1], 4) == options


def test_what_micro_has_not_is_repeated_by_the_framework() -> None:
    for of in (("odd forward", "pooling"), ("norm gradient sum", "element-wise"), ("norm update", "optimizer")):
        assert again(*of).startswith("python -m macro run passes --frameworks numpy")
    odd = {node.name: node for node in replace(IMAGES, input=(3, 15, 17)).nodes}
    assert image_pass(odd["norm"], "forward", 4) is None


def test_a_gradient_with_its_forward_pass_is_no_bound_of_it() -> None:
    assert best(("elementwise", dict(WANTED["norm gradient", "normalization"]))) is None
    assert best(("elementwise", dict(WANTED["drop forward", "random numbers"]))) is None
