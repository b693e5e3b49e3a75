"""What changes should bring, from kernels alone whose times are given."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from kernels.errors import Unavailable
from kernels.libs import torch as torch_library
from kernels.ops.gemm.problem import Gemm
from kernels.problem import Problem
from macro import changes, networks
from macro.changes import _alone, _parts
from macro.changes.base import BaselineProfile, Forecast, Part, PredictionInput, ProcessSnapshot, Ratio, Step
from macro.changes.settings import _axis
from macro.explaining.rows import rows
from tests.macro.changes.test_changes import NETWORK, before, seen, step


def asked(changed: Step, watched: BaselineProfile, after: ProcessSnapshot | None = None) -> PredictionInput:
    return PredictionInput(watched, after or seen(), step(), changed, 10.0)


Calls = list[tuple[Any, dict[str, Any]]]


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], Calls]:
    """Give every kernel alone this ratio; the problems and options that were measured are returned."""

    def of(ratio: float) -> Calls:
        calls = Calls()

        def ratios(xs: list[Any], how: dict[str, Any], seconds: float) -> dict[Any, Ratio]:
            calls.extend((x, how) for x in xs)
            return dict.fromkeys(xs, Ratio(ratio, ratio - 0.01, ratio + 0.01))

        monkeypatch.setattr(_alone, "ratios", ratios)
        return calls

    return of


def test_products_are_swapped_by_their_ratios_alone(given: Callable[[float], Calls]) -> None:
    cells = {(("fc1 forward",), "gemm"): 0.4, (("fc1 wgrad",), "packing"): 0.1, (("loss",), "softmax and loss"): 0.3}
    calls = given(0.8)
    found = _parts.swapped(asked(step(preload="mkl-intel"), before(cells=cells, rows=rows(NETWORK, 8))), "preload")
    assert [part.seconds for part in found.parts] == pytest.approx([-0.08, -0.02])
    assert all(part.low < part.seconds < part.high for part in found.parts)
    assert {(how["preload"], how["variant"]) for _, how in calls} == {("none,mkl-intel", "torch")}
    assert {(x.m, x.n, x.k) for x, _ in calls} == {(8, 10, 12), (12, 10, 8)}


def test_of_another_batch_products_are_measured_and_passes_follow_it(given: Callable[[float], Calls]) -> None:
    cells = {
        (("fc1 forward",), "gemm"): 0.4,
        (("fc1 activation",), "element-wise"): 0.1,
        (("fc1 update",), "element-wise"): 0.2,
    }
    change, calls = changes.find("batch=16"), given(1.8)
    found = change.change.brings(asked(change.apply(step()), before(cells=cells, rows=rows(NETWORK, 8))))
    assert sum(part.seconds for part in found.parts) == pytest.approx(0.4 * 0.8 + 0.1)
    ((_, how),) = calls
    assert how["vary"] == "m" and how["m"] == "8,16"


@pytest.mark.parametrize(("row", "axis"), [("fc3 forward", "m"), ("fc3 dgrad", "m"), ("fc3 wgrad", "k")])
def test_the_batch_of_a_product_is_where_its_row_has_it(row: str, axis: str) -> None:
    assert _axis(Gemm(m=1024, n=4096, k=1024), row, 1024) == axis
    assert _axis(Gemm(m=1024, n=4096, k=1024), row, 512) is None


def test_an_update_within_the_gradients_product_is_measured_in_both_forms(given: Callable[[float], Calls]) -> None:
    cells = {(("fc1 wgrad",), "gemm"): 0.3, (("fc1 update",), "optimizer"): 0.1, (("fc1 forward",), "gemm"): 0.4}
    calls = given(0.9)
    watched = before(cells=cells, rows=rows(NETWORK, 8))
    (part,) = changes.find("update-in-wgrad").change.brings(asked(step(), watched)).parts
    assert part.seconds == pytest.approx(-0.04)
    ((x, how),) = calls
    assert (x.op, x.m, x.n, x.k, how["variant"]) == ("update", 12, 10, 8, "separate:torch,fused:torch")


def test_of_transposed_weights_products_are_measured_in_the_other_form(given: Callable[[float], Calls]) -> None:
    watched = before(cells={(("fc1 forward",), "gemm"): 0.4, (("fc1 wgrad",), "gemm"): 0.3}, rows=rows(NETWORK, 8))
    watched.side.entry.built["layout"] = "outputs x inputs"
    calls = given(1.1)
    (part,) = changes.find("weights-transposed").change.brings(asked(step(), watched)).parts
    assert part.seconds == pytest.approx(0.04) and [how["trans"] for _, how in calls] == ["nt,nn"]


def test_with_other_threads_products_convolutions_and_passes_are_measured(
    given: Callable[[float], Calls], monkeypatch: pytest.MonkeyPatch
) -> None:
    net, calls = networks.find("alexnet-r"), given(0.5)
    conv = next(node.name for node in net.nodes if node.layer.kind == "conv")
    cells = {
        ((f"{conv} forward",), "convolution"): 0.5,
        ((f"{conv} activation",), "element-wise"): 0.2,
        (("pool1 forward",), "pooling"): 0.1,
    }
    watched = before(cells=cells, rows=rows(net, 8))

    def measured(benchmark: str, options: dict[str, Any], seconds: float) -> Ratio:
        calls.append((SimpleNamespace(op=benchmark), options))
        return Ratio(0.5, 0.49, 0.51)

    monkeypatch.setattr(_alone, "measured", measured)
    own = step(network="alexnet-r")
    told = replace(asked(changes.find("threads=2").apply(own), watched), unchanged=own)
    found = changes.find("threads=2").change.brings(told)
    assert sum(part.seconds for part in found.parts) == pytest.approx(-0.4)
    assert [x.op for x, _ in calls] == ["conv", "pooling", "elementwise"]
    assert {(how["threads"], how["vary"]) for _, how in calls} == {("1,2", "threads")}


RECURRENT = [  # change, network, seconds, and what is measured of each layer
    ("sequence", "lstm-ptb:unrolled", -0.3, {"variant": "torch-cells,torch"}),
    ("time-major", "lstm-ptb", -0.2, {"variant": "torch", "vary": "layout", "layout": "ntc,tnc"}),
    ("time-major", "lstm-ptb:unrolled", -0.2, {"variant": "torch-cells", "layout": "ntc,tnc"}),
    ("packed", "lstm-masked", -0.2, {"variant": "torch,torch-packed", "lengths": "shuffled", "steps": 99}),
    ("onednn-off", "lstm-ptb", -0.2, {"variant": "torch,torch-without-onednn"}),
]


@pytest.mark.parametrize(("text", "network", "seconds", "options"), RECURRENT)
def test_recurrent_layers_are_measured_as_they_run(
    text: str, network: str, seconds: float, options: dict[str, Any], given: Callable[[float], Calls]
) -> None:
    net, unchanged, calls = networks.find(network), step(network=network), given(0.5)
    name = next(node.name for node in net.nodes if node.layer.kind == "recurrent")
    cells = {
        ((f"{name} forward",), "recurrent cell"): 0.1,
        ((f"{name} gradient",), "recurrent cell"): 0.3,
        ((f"{name} gradient",), "packing"): 0.2,
        ((f"{name} update",), "optimizer"): 0.1,
    }
    change = changes.find(text)
    assert change.refused(unchanged) is None
    wanted = replace(asked(change.apply(unchanged), before(cells=cells, rows=rows(net, 8))), unchanged=unchanged)
    forecast = change.change.brings(wanted)
    assert sum(part.seconds for part in forecast.parts) == pytest.approx(seconds)
    ((x, how),) = calls
    assert (x.op, x.batch, x.hidden, x.layout, x.want) == ("recurrent", 8, net.nodes[1].output[-1], "ntc", "step")
    assert options.items() <= how.items()


def test_recurrent_layers_without_rows_are_not_predicted() -> None:
    unchanged = step(network="lstm-ptb")
    watched = before(cells={(("framework",), "recurrent cell"): 0.4}, rows=rows(unchanged.plan.network, 8))
    with pytest.raises(Unavailable, match="recurrent layers of unknown rows take 40% of the step"):
        _parts.recurrences(replace(asked(unchanged, watched), unchanged=unchanged), {})


def test_a_ratio_that_is_known_badly_is_measured_once_more(monkeypatch: pytest.MonkeyPatch) -> None:
    good, bad, few = (Gemm(m=size, n=512, k=512) for size in (512, 1024, 2048))
    told = [
        {good: Ratio(0.8, 0.79, 0.81), bad: Ratio(0.5, 0.1, 0.9), few: None},
        {bad: Ratio(0.9, 0.8, 1.0), few: Ratio(0.7, 0.69, 0.71)},
    ]
    asked_for: list[list[Any]] = []

    def ratios(xs: list[Any], how: dict[str, Any], seconds: float) -> dict[Any, Ratio | None]:
        asked_for.append(list(xs))
        return told.pop(0)  # type: ignore[return-value]

    monkeypatch.setattr(_alone, "ratios", ratios)
    found = _parts.each(asked(step(), before()), {x: {"a": 0.1} for x in (good, bad, few)}, {})
    assert asked_for == [[good, bad, few], [bad, few]]
    assert [part.seconds for part in found.parts] == pytest.approx([-0.02, -0.01, -0.03])
    for useless in (None, Ratio(0.5, -0.1, 1.1)):
        monkeypatch.setattr(_alone, "ratios", lambda xs, how, seconds, found=useless: dict.fromkeys(xs, found))
        with pytest.raises(Unavailable, match="too few rounds"):
            _parts.each(asked(step(), before()), {good: {"a": 0.1}}, {})


def test_of_a_small_kernel_that_had_too_few_rounds_nothing_is_known_and_of_a_change_most_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    good, few = (Gemm(m=m, n=512, k=512) for m in (16, 32))
    halved = Ratio(0.5, 0.5, 0.5)
    monkeypatch.setattr(_alone, "ratios", lambda xs, how, seconds: {x: halved if x == good else None for x in xs})
    spent: dict[Any, dict[str, float]] = {good: {"a": 0.2}, few: {"a": 0.06}, Gemm(m=8, n=8, k=8): {"a": 0.002}}
    known, smaller, lost = _parts.each(asked(step(), before()), spent, {}).parts
    assert [part.seconds for part in (known, smaller, lost)] == pytest.approx([-0.1, -0.001, 0.0])
    assert lost.what == few.name and (lost.low, lost.high) == pytest.approx((-0.03, 0.03))
    spent[few] = {"a": 0.2}  # more than is left unknown
    with pytest.raises(Unavailable, match="too few rounds"):
        _parts.each(asked(step(), before()), spent, {})


@pytest.mark.parametrize(("seconds", "told"), [(0.05, True), (0.3, False)])
def test_a_small_kind_of_work_that_had_too_few_rounds_is_unknown_alone(seconds: float, told: bool) -> None:
    def few(asked: PredictionInput) -> Forecast:
        raise _alone.TooFewRounds

    def other(asked: PredictionInput) -> Forecast:
        raise Unavailable("there is no kernel")

    known = Forecast((Part("gemm", -0.1, -0.11, -0.09),))
    of = asked(step(), before(seconds=1.0))
    parts = (0.5, lambda one: known), (seconds, few)
    if not told:
        with pytest.raises(Unavailable, match="too few rounds"):
            _parts.shared(of, *parts)
        return
    found = _parts.shared(of, *parts).parts
    assert found[0] == known.parts[0] and (found[1].low, found[1].high) == (-seconds / 2, seconds / 2)
    with pytest.raises(Unavailable, match="there is no kernel"):
        _parts.shared(of, parts[0], (seconds, other))


@pytest.mark.parametrize(
    ("other", "half"), [({(("net.a",), "gemm"): 0.3}, 0.15), ({(("a",), "recurrent cell"): 0.2}, 0.1)]
)
def test_products_in_no_known_problem_may_change_too(
    other: dict[Any, float], half: float, given: Callable[[float], Calls]
) -> None:
    """Rows with another kind of work in them included."""
    given(0.5)
    watched = before(cells={(("fc1 forward",), "gemm"): 0.4, **other}, rows=rows(NETWORK, 8))
    known, rest = _parts.products(asked(step(), watched), {}).parts
    assert known.seconds == pytest.approx(-0.2)
    assert rest.what == "other products" and (rest.low, rest.high) == pytest.approx((-half, half))


def test_where_most_of_what_changes_is_no_known_problem_nobody_can_say(given: Callable[[float], Calls]) -> None:
    given(0.5)
    watched = before(cells={(("fc1 forward",), "gemm"): 0.1, (("net.a",), "gemm"): 0.3}, rows=rows(NETWORK, 8))
    with pytest.raises(
        Unavailable, match="other products take 30 % of the step, and this suite has no kernels for them"
    ):
        _parts.products(asked(step(), watched), {})


@pytest.mark.slow
@pytest.mark.skipif(torch_library.missing() is not None, reason="PyTorch is not installed")
def test_problems_of_one_kind_have_each_their_own_ratio() -> None:
    from kernels.ops.pooling.problem import Pooling

    products = [Gemm(m=16, n=512, k=512), Gemm(m=64, n=64, k=64)]
    cold: dict[Problem, str] = {products[0]: "all", products[1]: "b"}
    found = _alone.ratios(cold, {"variant": "torch", "vary": "trans", "trans": "nn,nt"}, 2.0)
    assert list(found) == products  # each found, of which a noisy one may have no interval
    how = {"variant": "torch", "vary": "layout", "layout": "nchw,nhwc"}
    (pool,) = _alone.ratios({Pooling(16, 4, 8): "all"}, how, 1.0)
    assert isinstance(pool, Pooling)


def test_problems_that_are_cold_and_those_that_are_not_are_measured_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    near, far, other = (Gemm(m=size, n=512, k=512) for size in (512, 1024, 2048))
    runs: list[tuple[str, list[int], float]] = []

    def run(benchmark: str, options: dict[str, Any], seconds: float) -> Any:
        problems = json.loads(options["shapes"].read_text())["problems"]
        runs.append((options["cold"], [one["m"] for one in problems], seconds))
        return SimpleNamespace(results=[], comparisons=[])

    monkeypatch.setattr(_alone, "run", run)
    found = _alone.ratios({near: "", far: "all", other: "all"}, {"variant": "torch"}, 7.0)
    assert runs == [("", [512], pytest.approx(1.0)), ("all", [1024, 2048], pytest.approx(6.0))]
    assert found == dict.fromkeys((near, far, other))


def test_with_channels_last_convolutions_have_their_biases_and_poolings_are_measured(
    given: Callable[[float], Calls],
) -> None:
    net, calls = networks.find("alexnet-r"), given(0.5)
    cells = {
        (("conv2 forward",), "convolution"): 0.2,
        (("conv2 dgrad",), "convolution"): 0.2,
        (("pool1 forward",), "pooling"): 0.1,
        (("norm1 forward",), "normalization"): 0.04,
    }
    own = step(network="alexnet-r")
    told = replace(asked(own, before(cells=cells, rows=rows(net, 8))), unchanged=own)
    parts = changes.find("channels-last").change.brings(told).parts
    assert sum(part.seconds for part in parts) == pytest.approx(-0.25)
    found = [(getattr(x, "direction", x.op), how["variant"]) for x, how in calls]
    assert found == [("pooling", "torch"), ("forward", "torch-bias"), ("dgrad", "torch")]
    assert (parts[-1].what, parts[-1].low, parts[-1].high) == ("normalizations", -0.02, 0.02)


def test_where_all_that_it_changes_is_small_nothing_is_expected() -> None:
    (part,) = _parts.each(asked(step(), before()), {}, {}).parts
    assert part.seconds == 0.0
    small = {Gemm(m=8, n=8, k=8): {"a": 0.004}}
    (part,) = _parts.each(asked(step(), before()), small, {}).parts  # type: ignore[arg-type]
    assert (part.seconds, part.low, part.high) == (0.0, -0.002, 0.002)


def test_what_no_kernel_here_calls_is_not_predictable() -> None:
    jax = replace(asked(step(), before()), unchanged=step("jax"))
    assert "no kernel that calls the products of jax" in (_parts.swapped(jax, "heap").why or "")


def test_a_large_product_is_measured_smaller() -> None:
    whole = Gemm(m=1024, n=4096, k=2048)
    less = _alone.smaller(whole, 1e9)
    assert isinstance(less, Gemm) and less.flops <= 1e9 and min(less.m, less.n, less.k) >= _alone.LEAST
    assert _alone.smaller(whole, 1e12) == whole
    least = _alone.smaller(whole, 1.0)
    assert isinstance(least, Gemm) and (least.m, least.n, least.k) == (256, 256, 256)
    kept = _alone.smaller(whole, 1.0, "n")
    assert isinstance(kept, Gemm) and (kept.m, kept.n, kept.k) == (256, 4096, 256)


def test_what_could_not_be_measured_alone_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    absent, ran = (
        SimpleNamespace(role="measured", reason=reason, seconds=seconds)
        for reason, seconds in (("torch is not installed", None), (None, 1.0))
    )
    few = SimpleNamespace(reason="5 of the 6 rounds", ratio=None)
    monkeypatch.setattr("micro.plan", lambda *of, **options: None)
    for result, comparisons, why in ((absent, (), "torch is not installed"), (ran, (few,), "too few rounds")):
        run = SimpleNamespace(results=(result,), comparisons=comparisons)
        monkeypatch.setattr("micro.measure", lambda plan, by=None, run=run: run)
        with pytest.raises(Unavailable, match=why):
            _alone.measured("gemm", {}, 1.0)
