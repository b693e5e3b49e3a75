"""NumPy's optimizers are the documented formulas, its losses' gradients derivatives; all others go where it goes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import macro.frameworks
from kernels.errors import Unavailable
from kernels.ops.optimizer.problem import RULES, Optimizer
from macro.agent.core import numpy_losses
from macro.equality import proof
from macro.equality.answer import Question, answers, right
from macro.frameworks import find, interpreter, remedy
from macro.networks.base import LOSSES, Network, chain, from_data
from macro.networks.optimizers import FIELDS, OPTIMIZERS
from macro.processes.job import Setting
from tests.conftest import load
from tests.macro.models import answer, assert_same, build

FRAMEWORKS = Path(macro.frameworks.__file__).parent
BATCH, RATE, STEPS = 8, 0.05, 4
OF_CNTK = {"sgd", "nesterov", "adam"}


def net(optimizer: str, **of: float) -> Network:
    """Of two dense layers; with momentum where there is such a thing."""
    plain = chain("small", "a test", BATCH, (6, 5, 4), rate=RATE)
    momentum = 0.9 if "momentum" in OPTIMIZERS[optimizer] else 0.0
    return from_data({**plain.data(), "momentum": momentum, "optimizer": optimizer, **of})


def _large_epsilon(optimizer: str) -> dict[str, float]:
    """Beside gradients of a hundredth its place is seen."""
    return {} if "epsilon" not in OPTIMIZERS[optimizer] else {"epsilon": 0.05}


def documented(network: Network, count: int, g: Any, rows: Any) -> Any:
    """Return weights and state after the `count`-th step: earlier ones of adam have another rate and epsilon."""
    rate, epsilon = network.rate, network.epsilon
    if network.optimizer == "adam":
        first, second = 1 - network.momentum**count, 1 - network.rho**count
        rate, epsilon = rate * second**0.5 / first, epsilon * second**0.5
    told = {"lr": rate, "mu": network.momentum, "rho": network.rho, "eps": epsilon}
    problem = Optimizer(rule=network.rule, tensors=1, size=g.size, **told)
    return RULES[network.rule].step(problem, g.ravel(), rows)


TENSORFLOW, KERAS = ("graph", "eager", "xla"), ("tensorflow", "jax", "torch")
IN_ENVIRONMENTS = ("jax", *map("tensorflow-{}".format, TENSORFLOW), *map("keras-{}".format, KERAS), "mxnet", "cntk")
# Frameworks that add epsilon below the root, or to one that is not corrected.
ELSEWHERE = {
    "adagrad": ("keras", "mxnet"),
    "rmsprop": ("tensorflow", "keras", "mxnet"),
    "adam": ("tensorflow", "keras", "mxnet", "cntk"),
}
NETWORKS = [net("sgd", momentum=0.0), *map(net, OPTIMIZERS), *(net(x, **_large_epsilon(x)) for x in ELSEWHERE)]


@pytest.mark.parametrize("network", NETWORKS, ids=lambda one: f"{one.rule}, epsilon {one.epsilon:g}")
def test_numpy_does_what_is_documented(network: Network, beside: None, tmp_path: Path) -> None:
    model = build("numpy", network, tmp_path)
    state = len(RULES[network.rule].state)
    rows = {
        name: np.vstack([w.ravel(), *[np.zeros(w.size)] * state]).astype(np.float64)
        for name, w in model.parameters().items()
    }
    for count in range(1, STEPS + 1):
        gradients = model.gradients()
        model.step()
        for name, g in gradients.items():
            rows[name] = documented(network, count, g.astype(np.float64), rows[name])
            np.testing.assert_allclose(model.parameters()[name].ravel(), rows[name][0], rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize(("name", "threads"), [("kernels-only", 1), ("kernels-only", 2), ("pytorch", 1)])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_step_goes_where_numpy_s_goes(
    name: str, threads: int, optimizer: str, beside: None, own_state: Path, tmp_path: Path
) -> None:
    if name == "pytorch":
        pytest.importorskip("torch", reason="no torch: pip install torch")
    network = net(optimizer, **_large_epsilon(optimizer))
    want, got = (build(x, network, tmp_path, threads=threads) for x in ("numpy", name))
    for model in (want, got):
        for _ in range(STEPS):
            model.step()
    assert_same(got.parameters(), want.parameters())


def test_a_product_of_the_suite_moves_weights(beside: None, own_state: Path, tmp_path: Path) -> None:
    model = build("kernels-only", net("sgd", momentum=0.0), tmp_path)
    rows = [span["rows"] for span in model.do.trace(model.step)]
    assert ["fc1 wgrad", "fc1 update"] in rows and ["fc1 wgrad"] not in rows
    assert ["fc1 wgrad"] in [span["rows"] for span in model.do.trace(model.gradient)]


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("name", IN_ENVIRONMENTS)
def test_in_another_environment_too(name: str, optimizer: str, beside: None, tmp_path: Path) -> None:
    framework, network = find(name), net(optimizer, **_large_epsilon(optimizer))
    if interpreter(framework) is None:
        pytest.skip(f"no environment for {name}: {remedy(framework)}")
    want = build("numpy", network, tmp_path, knobs={"elsewhere": name.startswith(ELSEWHERE.get(optimizer, ()))})
    for _ in range(STEPS):
        want.step()
    try:
        arrays = answer(name, network, tmp_path, STEPS)
    except Unavailable as error:
        if "No module named" in str(error):
            pytest.skip(str(error))
        assert (name, str(error)) == ("cntk", f"there is no {optimizer} here") and optimizer not in OF_CNTK
        return
    assert_same(arrays, {f"after{STEPS}.{word}": array for word, array in want.parameters().items()})


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", ELSEWHERE)
def test_equal_work_allows_for_where_epsilon_is_added_but_not_for_another(optimizer: str, tmp_path: Path) -> None:
    network = net(optimizer, epsilon=1e-3)
    want, bounds = proof.reference(network, BATCH, tmp_path)
    other = net(optimizer, epsilon=0.1)
    odd, wrong = (
        Question(find("numpy"), x, BATCH, Setting(knobs=how), tmp_path)
        for x, how in ((network, {"elsewhere": True}), (other, {}))
    )
    for question, equal in ((odd, True), (wrong, False)):
        (answer,) = map(right, answers([question]))
        assert proof.judge(answer, want, bounds).equal is equal


def test_every_framework_has_all_but_cntk(beside: None) -> None:
    has = {path.stem: set(load(path).OPTIMIZERS) for path in FRAMEWORKS.glob("[a-z]*.py")}
    assert has.pop("cntk") == OF_CNTK
    assert all(names == set(OPTIMIZERS) for names in has.values())


def test_an_adapter_that_names_none_has_sgd_alone(beside: None) -> None:
    import loop  # as where it runs by path

    assert loop.lacking(object(), net("sgd").plan()) == []
    assert loop.lacking(object(), net("adam").plan()) == ["adam"]


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_one_is_told_there_and_back(optimizer: str) -> None:
    network = net(optimizer)
    assert from_data(network.data()) == network
    assert {x: network.plan()[x] for x in FIELDS} == {x: getattr(network, x) for x in FIELDS}


def test_what_a_file_does_not_say_is_as_usual() -> None:
    file = {x: y for x, y in chain("small", "", BATCH, (6, 5), rate=RATE).data().items() if x != "momentum"}
    adam = from_data({**file, "optimizer": "adam"})
    assert (adam.momentum, adam.rho, adam.epsilon) == (0.9, 0.999, 1e-8)
    assert from_data(file).momentum == 0.0


def test_work_of_an_update_is_the_rule_s() -> None:
    plain, adam = net("sgd", momentum=0.0), net("adam")
    assert plain.flops(BATCH) - plain.flops(BATCH, "gradient") == 2 * plain.parameters
    assert adam.flops(BATCH) - adam.flops(BATCH, "gradient") == 12 * adam.parameters


FEW, CLASSES, SMALL = 3, 4, 1e-6
LABELS = np.array([2, 0, 2])


@pytest.fixture
def outputs() -> Any:
    return np.random.default_rng(7).standard_normal((FEW, CLASSES))


@pytest.fixture(params=LOSSES)
def loss(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_every_loss_of_a_network_is_there() -> None:
    assert set(numpy_losses.KINDS) == set(LOSSES)


@pytest.mark.parametrize("name", sorted(path.stem for path in FRAMEWORKS.glob("[a-z]*.py")))
def test_every_framework_has_every_loss(name: str, beside: None) -> None:
    assert set(load(FRAMEWORKS / f"{name}.py").LOSSES) == set(LOSSES)


def test_the_gradient_is_the_derivative(loss: str, outputs: Any) -> None:
    one = numpy_losses.KINDS[loss](LABELS, CLASSES)
    gradient = outputs.copy()
    one.gradient(gradient)
    for place in np.ndindex(FEW, CLASSES):
        above, below = outputs.copy(), outputs.copy()
        above[place] += SMALL
        below[place] -= SMALL
        assert (one.value(above) - one.value(below)) / (2 * SMALL) == pytest.approx(gradient[place], rel=1e-5)


def test_large_outputs_have_a_loss(loss: str) -> None:
    far = 300 * np.array([[1, -1, 0, 1]] * FEW, np.float32)
    one = numpy_losses.KINDS[loss](LABELS, CLASSES)
    assert np.isfinite(one.value(far))
    one.gradient(far)
    assert np.isfinite(far).all()


def test_pytorch_has_the_same(loss: str, outputs: Any, beside: None) -> None:
    torch = pytest.importorskip("torch", reason="no torch: pip install torch")
    import torch_layers

    plan = {"loss": loss, "layers": [{"out": (CLASSES,)}]}
    z = torch.tensor(outputs, requires_grad=True)
    wanted = torch.tensor(numpy_losses.wanted(plan, LABELS, np.int64))
    value = torch_layers.LOSSES[loss](torch.nn.functional)(z, wanted if loss == "softmax" else wanted.double())
    value.backward()
    own, gradient = numpy_losses.KINDS[loss](LABELS, CLASSES), outputs.copy()
    own.gradient(gradient)
    assert own.value(outputs) == pytest.approx(value.item(), rel=1e-12)
    np.testing.assert_allclose(gradient, z.grad.numpy(), rtol=1e-6)


@pytest.mark.parametrize("name", ["kernels-only", "pytorch"])
def test_a_step_of_each_loss_goes_where_numpy_s_goes(
    name: str, loss: str, beside: None, own_state: Path, tmp_path: Path
) -> None:
    if name == "pytorch":
        pytest.importorskip("torch", reason="no torch: pip install torch")
    net = replace(chain("x", "a test", FEW, (6, 5, CLASSES), rate=0.5, momentum=0.9), loss=loss)
    want, got = (build(x, net, tmp_path) for x in ("numpy", name))
    for model in (want, got):
        model.step()
        model.step()
    assert got.loss() == pytest.approx(want.loss(), rel=1e-5)
    assert_same(got.parameters(), want.parameters(), rtol=1e-5, atol=1e-6)
