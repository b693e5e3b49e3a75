"""The document of an explanation and what a person reads of it, of two processes watched by hand."""

from __future__ import annotations

import io
import shlex
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from scipy import stats as known_stats

from kernels.ops.conv.problem import Conv
from kernels.ops.gemm.problem import Gemm
from macro.explaining import document
from macro.explaining import repeat as repeating
from macro.explaining.repeat import Kernels, Steps, as_called, repeat
from macro.explaining.rows import rows
from macro.networks import find as network
from macro.timing import results
from macro.watching import perf
from macro.watching.library_log import Logged
from macro.watching.watch import Side
from reports import attribution, formats, store
from reports.explanation import Cell
from reports.record import Environment
from tests.macro.explaining.sides import CLEARS, FAST, NET, PACKS, PLAN, SLOW, side
from tests.macro.watched import PYTHON

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


def test_a_document_says_what_was_watched(sides: list[Side]) -> None:
    told = attribution.note(document.explain(PLAN, sides, 3.0)).data
    assert (told["a"], told["b"], told["network"], told["batch"]) == ("numpy", "jax", "fcn-r", 128)
    assert told["step"] == pytest.approx({"a": 0.010, "b": 0.006}) and told["gap"] == pytest.approx(0.004)
    cells = {(x["row"], x["column"]): x for x in told["cells"]}
    wgrad = cells[("fc1 wgrad", "gemm")]
    assert (wgrad["a"], wgrad["b"]) == pytest.approx((0.004, 0.003))
    assert wgrad["how"] == {"a": "TN", "b": "TN"}
    assert cells[("in no span", "OS memory")]["a"] == pytest.approx(0.001)
    assert told["residual"] == pytest.approx({"a": 0, "b": 0}, abs=1e-9)
    assert told["closure"]["a"] == pytest.approx(
        {"sampling": 1, "span": 0.7, "naming": 1, "threads": 1, "replay": 0.39, "replay without frees": 0.39}
    )
    assert told["levels"]["a"] == {"P1": 1, "P3": 2, "P0'": 1}
    assert {(x["side"], x["row"], x["verdict"]) for x in told["agreement"]} == {
        ("a", "fc1 wgrad", "agree"),
        ("a", "fc1 update", "one witness"),
        ("a", "loss", "one witness"),
        ("b", "fc1 wgrad", "disagree"),
        ("b", "fc1 update", "one witness"),
        ("b", "loss", "one witness"),
    }
    assert dict(told["waterfall"]["layer"])["fc1"] == pytest.approx(0.001)
    assert sorted((x["row"], x["column"]) for x in told["named"]) == [
        ("fc1 wgrad", "gemm"),
        ("in no span", "OS memory"),
        ("in no span", "interpreter"),
        ("in no span", "packing"),
    ]


def test_a_person_reads_sentences_cells_and_what_is_not_known(sides: list[Side]) -> None:
    text = attribution.text(document.explain(PLAN, sides, 3.0))
    lines = text.splitlines()
    assert lines[0] == (
        "A step of fcn-r, batch 128, takes 10.0 ms in numpy and 6.00 ms in jax: a gap of +4.00 ms [+4.00 ms, +4.00 ms] "
        "within these processes."
    )
    assert lines[1].startswith("Watching changes the time of a step by +100% in numpy and +100% in jax: ")
    assert lines[2].startswith("Certain by cause: gemm +1.00 ms [+1.00 ms, +1.00 ms], ")
    assert lines[3].startswith("By layer: ") and "fc1 +1.00 ms" in lines[3]
    numbered = [line for line in lines if line[:2] in ("1.", "2.", "3.", "4.", "5.")]
    assert len(numbered) == 4
    (packing,) = [line for line in numbered if "packing, " in line]
    assert "packing inside the library, which jax has not. Repeat: python -m " in packing
    (wgrad,) = [line for line in numbered if "gemm, fc1 wgrad" in line]
    assert "an extra operation: numpy has more work. Repeat: python -m micro.gemm --m " in wgrad
    (row,) = [line.split() for line in lines if line.startswith("fc1 wgrad")]
    assert row == ["fc1", "wgrad", "gemm", "4.00", "3.00", "+1.00", "[+1.00,", "+1.00]", "+1.00", "0.00"]
    (rest,) = [line.split() for line in lines if line.startswith("residual")]
    assert [float(x.strip("[,]")) for x in rest[1:]] == [0] * 5
    assert any(line.split()[:4] == ["gemm", "7.00", "6.00", "+1.00"] and "certain" in line for line in lines)
    assert any(x.startswith("by layer: ") and "fc1 +1.00 ms *" in x for x in lines)
    ways = "rows timed in the trace and by making their calls again (replay): "
    witnesses = "1 agree within 10 %, 1 disagree, 4 have one witness; jax fc1 wgrad: trace 3.00 ms, replay 3.90 ms"
    assert ways + witnesses in lines
    assert any(x.startswith("1 process of each: ") and "--runs 5" in x for x in lines)
    assert lines[-2].startswith("A cause is a candidate saving until")
    assert lines[-1].startswith("Quality: weak: 30.0% of a step in no named kernel (")


def test_equal_steps_name_nothing(sides: list[Side]) -> None:
    again = [sides[1], side("numpy", FAST)]
    told = document.explain(PLAN, again, 3.0)
    assert told.named == () and "No cause differs for certain by 1%" in attribution.text(told)


def test_of_few_processes_it_is_said_what_certainty_takes(sides: list[Side]) -> None:
    again = [sides[0], side("numpy", SLOW, more=(PACKS, CLEARS, PYTHON))]
    for one in again:
        one.processes = [*one.processes] * 3
    lines = attribution.text(document.explain(replace(PLAN, generations=3), again, 3.0)).splitlines()
    (line,) = [line for line in lines if line.startswith("No cause differs for certain by 1% of the step or more.")]
    few, enough = (known_stats.t.ppf(1 - 0.02 / 4 / 2, count - 1) for count in (3, 5))  # of four causes
    assert f"It takes {few:.0f} standard errors with 3 processes of each, {enough:.1f} with 5 (--runs 5)" in line
    for processes in (1, 5):
        text = attribution.text(document.explain(replace(PLAN, generations=processes), again, 3.0))
        assert "standard errors with" not in text


def test_what_cannot_be_known_is_said(sides: list[Side], monkeypatch: pytest.MonkeyPatch) -> None:
    sides[1].processes[0].traces = False
    monkeypatch.setattr(perf, "sees_kernel", lambda: False)
    conditions = document.explain(PLAN, sides, 3.0).conditions
    assert "perf sees no kernel code here: the operating system's share is in the residual" in conditions
    assert "jax has no tracer spans: causes only, no rows, of both" in conditions
    assert not any("numpy tells no spans" in x for x in conditions)
    monkeypatch.setattr(perf, "missing", lambda: "no perf")
    conditions = document.explain(replace(PLAN, generations=5), sides, 3.0).conditions
    assert conditions[0] == "no samples: no perf; the operating system's share is inside the rows"


def test_two_heaps_of_one_framework_are_the_swap_itself(sides: list[Side]) -> None:
    told = document.explain(PLAN, [sides[0], side("numpy", FAST, heap="keep")], 3.0)
    assert (told.a, told.b) == ("numpy heap default", "numpy heap keep")
    (swap,) = [x for x in told.sentences if x.startswith("Only the heap differs (default, keep), ")]
    assert "+1.00 ms of it in the operating system's memory management, +3.00 ms elsewhere" in swap


def test_each_command_that_repeats_is_one(sides: list[Side]) -> None:
    told = document.explain(PLAN, sides, 3.0)
    commands = sorted({x.repeat for x in told.cells})
    assert len(commands) >= 4
    for command in commands:
        words = shlex.split(command)
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
    fused = Cell(
        "fc1 wgrad + update",
        "optimizer",
        2.0,
        1.0,
        0.5,
        1.5,
        1.0,
        0.0,
        {"a": 1.0, "b": 1.0},
        {"a": None, "b": None},
        ("fc1 wgrad", "fc1 update"),
        True,
    )
    assert repeat(fused, PLAN, sides, known).command == own
    assert repeat(replace(fused, members=("fc1 update",)), PLAN, sides, known).command == own
    several = replace(fused, members=("fc1 update", "fc2 update"))
    assert repeat(several, PLAN, sides, known) == Steps(PLAN, sides[0].entry)


def test_what_is_left_of_a_named_pass_is_measured(sides: list[Side], monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def best(again: Kernels) -> tuple[str, float] | None:
        asked.append(again.benchmark)
        return ("c", 1e-3) if again.benchmark == "gemm" else None

    monkeypatch.setattr(repeating, "best", best)
    told = document.explain(PLAN, sides, 3.0, kernels=True)
    (left,) = told.headroom
    assert (left.row, left.best, left.took) == ("fc1 wgrad", "c", pytest.approx(4e-3))
    assert left.left == pytest.approx(0.75) and asked.count("gemm") == 1
    assert "fc1 wgrad: 4.00 ms in the step; c by itself" in attribution.text(told)
    monkeypatch.setattr(repeating, "best", lambda again: None)
    assert any(x.startswith("--kernels: nothing") for x in document.explain(PLAN, sides, 3.0, True).conditions)


@pytest.mark.slow
@pytest.mark.parametrize(
    "again",
    [
        Kernels("elementwise", {"batch": 3, "classes": 7, "variant": "c"}),
        Kernels("elementwise", {"count": 64, "kind": "relu", "phase": "forward", "variant": "c"}),
        Kernels("gemm", {"m": 3, "n": 4, "k": 5, "trans": "nt", "variant": "openblas,naive"}),
    ],
)
def test_a_product_or_a_pass_has_a_best_variant(again: Kernels, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repeating, "BUDGET", "0.1s")
    found = repeating.best(again)
    assert found is not None and found[1] > 0 and found[0] in again.options["variant"].split(",")


def test_a_framework_is_repeated_as_its_run_says(sides: list[Side]) -> None:
    """In one line, whoever writes it: network, phase, settings and division as they were."""
    entry = replace(sides[0].entry, division="tuned")
    plan = replace(PLAN, phase="forward", asked="my net.json")
    assert Steps(plan, entry).command == (
        "python -m macro run 'my net.json' --frameworks numpy --batch 128 --phase forward --threads 1 --heap default "
        "--division tuned"
    )
    (told,) = results.contest(plan, [entry], "tuned", 0.01, {"measuring": 1.0}).results
    assert told.repeat == Steps(plan, entry).command


def test_products_and_passes_alone_have_a_best_variant() -> None:
    assert repeating.best(Kernels("memory", {"faults": True})) is None
