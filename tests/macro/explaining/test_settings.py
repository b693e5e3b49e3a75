"""Settings and advice by facts of a step: each rule where it must be words, and not where it must not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from macro.explaining import advice, settings, tries
from macro.explaining.kinds import KINDS
from macro.explaining.modules import PHASES
from reports.explanation import Breakdown, CalledIn, Line, Operation, Part, Share, Trial
from tests.explanations import breakdown

QUIET: dict[str, Any] = {
    "anomaly": False, "deterministic": False, "onednn": True, "gradients": True, "tracer": False, "cores": 2.0,
    "default_dtype": "float32", "loaders": [], "variables": {},
    "optimizers": [{"kind": "Adam", "tensors": 4, "fused": None, "foreach": None, "fusible": True}],
}  # fmt: skip
COUNTED = {"collections": 4, "collecting": 0.25, "plain seconds": 1.0}
LOADER = {"workers": 0, "batch": 64}
STEP = 0.1  # seconds
UNSURE = "a fused optimizer is not certain to save anything: measured here, it changes a step by"


def cell(phase: str, column: str, seconds: float = STEP / 2, *operations: Operation) -> Part:
    row = f"net {phase}"
    return Part(row, "net", phase, column, seconds, seconds, seconds, None, None, "", None, None, operations=operations)


TRAINING = (cell("forward", "gemm"), cell("backward", "gemm"), cell("update", "optimizer"))


def step(cells: tuple[Part, ...] = TRAINING, seen: dict[str, Any] | None = None, **more: Any) -> Breakdown:
    program: dict[str, Any] = {
        **breakdown().program,
        "framework": "pytorch",
        "version": "2.13",
        "settings": {**QUIET, **(seen or {})},
    }
    program |= {name: more.pop(name, {}) for name in ("denormals", "counted")}
    called = {x.name: CalledIn((of.path,), x.shape.count("×") + 1, 1) for of in cells for x in of.operations}
    return replace(breakdown(), cells=cells, program=program, step={"a": STEP}, **{"called": called, **more})


@pytest.mark.parametrize(
    ("words", "seen", "more"),
    [
        ("anomaly detection is on", {"anomaly": True}, {}),
        ("deterministic algorithms are on", {"deterministic": True}, {}),
        ("oneDNN is switched off", {"onednn": False}, {}),
        ("sys.settrace", {"tracer": True}, {}),
        ("25% of the time of all steps is in 4 garbage", {}, {"counted": COUNTED}),
        ("3% of the weights are denormal", {"flushed": False}, {"denormals": {"weights": [3, 97], "x": [0, 9]}}),
        ("8 threads share the 2 cores", {}, {"threads": 8}),
        ("75% of the FLOP are computed in float16", {}, {"types": {"float16": 3.0, "float32": 1.0}}),
        ("75% of the FLOP are computed in float64", {}, {"types": {"float64": 3.0, "float32": 1.0}}),
        (": parameters are float64", {"parameters": ["float64"]}, {"types": {"float64": 3.0}}),
        (": an input is float64", {"parameters": ["float32"]}, {"types": {"float64": 3.0}}),
        (": torch.set_default_dtype", {"default_dtype": "float64"}, {"types": {"float64": 3.0}}),
        ("OMP_NUM_THREADS=1 is set", {"variables": {"OMP_NUM_THREADS": "1"}}, {"threads": 1}),
        ("no step runs backward", {}, {"cells": TRAINING[:1]}),
        ("net is also called for evaluation, where", {"evaluated": "net"}, {}),
        (
            "collects batches of 64 sample by sample",
            {"loaders": [{**LOADER, "in_memory": True}]},
            {"cells": (*TRAINING, cell("data", "data"))},
        ),
    ],
)
def test_a_setting_is_reported_where_it_holds_alone(words: str, seen: dict[str, Any], more: dict[str, Any]) -> None:
    quiet = {"threads": 2, "types": {"float32": 1.0}}
    reported = list(settings.sentences(step(seen=seen, **{**quiet, **more})))
    assert len(reported) == 1 and words in reported[0]
    assert reported[0].startswith("Setting: ") and " Do: " in reported[0]
    assert not list(settings.sentences(step(**quiet)))


def test_a_recording_without_settings_reports_none() -> None:
    plain = replace(step(threads=2), program=breakdown().program)
    assert not [x for x in settings.sentences(plain) if "thread" in x or "anomaly" in x]


def advised(of: Breakdown) -> str:
    return "\n".join(x for x in advice.sentences(of) if x.startswith(("To try", "Not worth", "Undecided")))


@pytest.mark.parametrize(
    ("words", "cells", "there"),
    [
        ("less dropout", (cell("forward", "random numbers", 0.05, Operation("bernoulli_", 0.04, 1)),), True),
        ("less dropout", (cell("script", "random numbers", 0.05, Operation("normal_", 0.05, 1)),), False),
        (
            "channels last",
            (
                cell("forward", "layout reorder", 0.05, Operation("mkldnn_convolution", 0.05, 1, "8×3×9×9")),
                cell("forward", "dispatch", 0.0, Operation("conv2d", 0.0, 1)),
            ),
            True,
        ),
        (
            "channels last",
            (cell("forward", "layout reorder", 0.05, Operation("mkldnn_convolution", 0.05, 1, "8×3×1×9")),),
            False,
        ),
        ("rows added as a whole", (cell("forward", "copy", 0.05, Operation("scatter_add_", 0.05, 1, "80×64")),), True),
        ("rows added as a whole", (cell("forward", "copy", 0.05, Operation("copy_", 0.05, 1, "80×64")),), False),
        (
            "sparse gradients",
            (
                cell("backward", "embedding", 0.05, Operation("embedding_dense_backward", 0.01, 1, "64×32")),
                cell("update", "optimizer", 0.05, Operation("addcmul_", 0.05, 1, "9000×32")),
            ),
            True,
        ),
        (
            "sparse gradients",
            (
                cell("backward", "embedding", 0.05, Operation("embedding_dense_backward", 0.01, 1, "64×32")),
                cell("update", "optimizer", 0.05, Operation("addcmul_", 0.05, 1, "90×32")),
            ),
            False,
        ),
    ],
)
def test_advice_depends_on_what_was_called(words: str, cells: tuple[Part, ...], there: bool) -> None:
    assert (f"To try: {words}" in advised(step(cells))) is there


def test_a_bound_is_all_that_the_remedy_may_touch() -> None:
    cells = (cell("update", "dispatch", 0.02), cell("update", "optimizer", 0.03), cell("forward", "gemm", 0.05))
    assert "a fused optimizer: saves at most 50.0 ms" in advised(step(cells))
    fused = [{**QUIET["optimizers"][0], "fused": True}]
    assert "a fused optimizer" not in advised(step(cells, {"optimizers": fused}))


def test_whole_batches_are_said_in_place_of_workers() -> None:
    cells = (cell("data", "data"),)
    assert "DataLoader(num_workers" in advised(step(cells))
    assert "DataLoader(num_workers" not in advised(step(cells, {"loaders": [{**LOADER, "in_memory": True}]}))


@pytest.mark.parametrize(
    ("data", "rest", "cores", "most"),
    [
        (0.05, 0.05, 2, "49.5 ms"),
        (0.08, 0.02, 2, "19.5 ms"),
        (0.08, 0.02, 3, "59.5 ms"),
        (0.05, 0.05, 1, ""),
        (0.0008, 0.0004, 2, ""),
    ],
)
def test_a_loader_saves_what_free_cores_hide_less_the_hand_over(
    data: float, rest: float, cores: int, most: str
) -> None:
    cells = cell("data", "data", data), cell("forward", "gemm", rest)
    text = advised(replace(step(cells, {"cores": cores}, threads=1), step={"a": data + rest}))
    assert f"a data loader beside the step: saves at most {most}" in text if most else "data loader" not in text


def test_a_list_of_arrays_is_known_by_its_line() -> None:
    line = Line("train.py", 12, "<module>", "x = torch.tensor([random.choice(b) for _ in range(32)])", 0.06)
    assert "one array in place of a list: saves at most 60.0 ms" in advised(step(lines=(line,)))
    assert "one array" not in advised(step(lines=(replace(line, text="x = torch.tensor(32)"),)))


@pytest.mark.parametrize(
    ("low", "words"),
    [
        (0.001, "To try: a fused optimizer: saves 2.00 ms [1.00 ms, 3.00 ms] of a step, measured here."),
        (-0.001, f"Undecided: {UNSURE} −2.00 ms [−3.00 ms, +1.00 ms]"),
    ],
)
def test_what_was_tried_is_said_with_its_saving(low: float, words: str) -> None:
    of = step(trials=(Trial("fused", 0.002, low, 0.003),))
    assert words in advised(of) and "at most 50.0 ms" not in advised(of)


def test_settings_are_tried_first_then_the_largest_bounds() -> None:
    assert tries.trials(step(seen={"anomaly": True}, threads=8)) == ["threads=2", "anomaly=off"]
    assert tries.trials(step(threads=2)) == ["fused"]


ATTENTION = (cell("forward", "gemm", 0.03, Operation("bmm", 0.03, 2, "8×64×64")), cell("forward", "softmax", 0.02))


@pytest.mark.parametrize(
    ("words", "called", "bound"),
    [
        ("scaled_dot_product_attention", {"bmm": "net", "_softmax": "net"}, "100 ms"),
        ("scaled_dot_product_attention", {"bmm": "net", "_softmax": "head"}, None),
        ("scaled_dot_product_attention", {"bmm": "net", "_softmax": "net", "mean": "net"}, None),
        ("need_weights=False", {"baddbmm": "net", "_softmax": "net", "mean": "net"}, "100 ms"),
        ("padded, not packed", {"_pack_padded_sequence": "(x)", "lstm": "net"}, "100 ms"),
        ("padded, not packed", {"lstm": "net"}, None),
        ("nn.LSTM in place of LSTMCell", {"gru_cell": "net"}, "150 ms"),
        ("one product, not a broadcast", {"expand": "net", "thin product": "net"}, "100 ms"),
        ("one product, not a broadcast", {"thin product": "net", "expand": "x"}, None),
        ("nn.Conv2d in place of unfold", {"im2col": "net"}, "100 ms"),
    ],
)
def test_forms_that_were_missed_bound_their_modules(words: str, called: dict[str, str], bound: str | None) -> None:
    cells = (*TRAINING[:2], replace(TRAINING[2], path="opt"), replace(TRAINING[0], path="other"))
    report = advised(step(cells, called={name: CalledIn((path,), 2, 9) for name, path in called.items()}))
    assert (f"To try: {words}: saves at most {bound} of a step" in report) if bound else words not in report


def test_bf16_and_threads_depend_on_the_processor_and_the_cores() -> None:
    able = {"bf16": True}
    single = {"types": {"float32": 4.0}, "threads": 2}
    assert "bf16 autocast: saves at most 100 ms" in advised(step(seen=able, kinds=(), **single))
    products = advised(step(seen=able, kinds=(Share("gemm", STEP, 0.0, 0.0, None, None, None),), **single))
    assert "bf16 products: saves at most 100 ms" in products and "autocast" not in products
    assert "bf16" not in advised(step(seen=able, **{**single, "types": {"bfloat16": 4.0}}))
    assert "bf16" not in advised(step(**single))
    assert "more threads" in advised(step(threads=1)) and "more threads" not in advised(step(threads=2))
    assert "more threads" not in advised(step(threads=1, seen={"variables": {"OMP_NUM_THREADS": "1"}}))
    waiting = (cell("forward", "spin", 0.05), cell("forward", "waiting", 0.02), cell("forward", "gemm", 0.03))
    assert "fewer threads: saves at most 40.0 ms" in advised(step(waiting, threads=2))  # one thread works for 60 ms
    assert "fewer threads" not in advised(step(waiting, threads=1))
    loads = (cell("data", "waiting", 0.05), *waiting[1:])
    assert "fewer threads" not in advised(step(loads, threads=2))  # 20 ms of waits, 30 ms that one thread works more
    alone = (cell("forward", "waiting", 0.05), cell("forward", "gemm", 0.05))
    assert "fewer threads" not in advised(step(alone, threads=2))  # one of two threads has nothing to do


def test_a_cell_that_a_step_calls_once_is_no_sequence() -> None:
    assert "LSTMCell" not in advised(step(called={"gru_cell": CalledIn(("net",), 2, 1)}))


def test_rules_name_kinds_and_phases_that_exist() -> None:
    assert {kind for remedy in tries.TRIES for kind in remedy.kinds} <= {kind.name for kind in KINDS}
    assert {phase for remedy in tries.TRIES for phase in remedy.phases} <= {"", *PHASES}


def test_a_refused_trial_is_no_advice_but_of_compiled_code() -> None:
    program = {**breakdown().program, "settings": QUIET}
    for reason, there in (("a gradient is sparse", False), ("compiled code would be compiled again", True)):
        of = replace(step(), program={**program, "refused": {"fused": reason}})
        assert ("a fused optimizer" in advised(of)) is there


@pytest.mark.parametrize(
    ("low", "high", "said", "doubted"), [(-0.001, 0.001, 0, 0), (-0.001, 0.03, 0, 1), (0.001, 0.03, 1, 0)]
)
def test_only_a_setting_that_may_cost_something_is_reported(low: float, high: float, said: int, doubted: int) -> None:
    of = step(seen={"deterministic": True}, threads=2, trials=(Trial("deterministic=off", 0.0, low, high),))
    reported = [
        sum("deterministic" in x for x in sentences) for sentences in (settings.sentences(of), settings.undecided(of))
    ]
    assert reported == [said, doubted]


def test_a_hand_over_grows_with_the_batch() -> None:
    cells = cell("data", "copy", 0.05, Operation("cat", 0.01, 1, "1000×1000")), cell("forward", "gemm", 0.05)
    loaders = [{**LOADER, "in_memory": False, "batch": batch} for batch in (32, 256)]
    assert "saves at most 17.5 ms" in advised(step(cells, {"cores": 2, "loaders": loaders}, threads=1))


@pytest.mark.parametrize(("path", "there"), [("(SGD.zero_grad)", True), ("net", False)])
def test_clearing_gradients_counts_where_they_are_cleared(path: str, there: bool) -> None:
    cells = cell("zero", "clear", 0.02), cell("backward", "gemm", 0.03), cell("forward", "gemm")
    text = advised(step(cells, called={"zero_": CalledIn((path,), 2, 1)}))
    assert ("gradients set to None: saves at most 50.0 ms" in text) is there


def test_casts_are_bounded_with_the_passes_beside_them() -> None:
    cells = cell("script", "cast", 0.03), cell("script", "reduction", 0.02), cell("forward", "element-wise", 0.05)
    assert "no change of type: saves at most 75.0 ms" in advised(step(cells))  # half of what reads what was cast
    few = (cell("script", "cast", 0.004), *cells[1:])
    assert "no change of type" not in advised(step(few))
