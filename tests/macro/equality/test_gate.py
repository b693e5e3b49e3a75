"""Questions to frameworks before anything is timed: a wrong answer costs its framework alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import pytest

from kernels.errors import LaunchError, Unavailable
from macro.equality import gate, proof
from macro.equality.proof import Verdict
from macro.frameworks import find
from macro.networks.base import Network, chain
from macro.processes.job import Setting
from macro.timing.entry import Entry, Plan
from tests.simulated import frameworks

SMALL = chain("small", "a test", 4, (8, 4), 0.1)


def test_what_differs_in_threads_alone_is_asked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = list[tuple[str, int]]()

    def ask(entries: Sequence[Entry], *rest: object) -> None:
        for entry in entries:
            asked.append((entry.framework.name, entry.setting.threads))
            entry.identity = {"framework": entry.framework.name}
            if entry.framework.name == "jax":
                entry.fail(Unavailable("not here"))
            if (entry.framework.name, entry.setting.threads) == ("mxnet", 1):
                entry.identity = {}
                entry.fail(LaunchError("it died"))

    monkeypatch.setattr(gate, "_ask", ask)
    monkeypatch.setattr(gate, "_proven", lambda *of: True)
    names = ("numpy", "jax", "kernels-only", "mxnet")
    rows = [(name, Setting(threads)) for threads in (1, 2) for name in names]
    entries = [Entry(find(name), setting) for name, setting in [*rows, ("numpy", Setting(2, "keep"))]]
    gate.refuse_unequal(Plan(SMALL, 4, "step", 1.0, 1), entries, tmp_path, lambda text: None)
    # Kernels-only chooses others on two threads; another heap is another program's; who died once may live on two.
    ones, twos = [(name, 1) for name in names], [("kernels-only", 2), ("numpy", 2), ("mxnet", 2)]
    assert asked == [*ones, *twos]
    assert " ".join(entry.status for entry in entries) == "ok skipped ok failed ok skipped ok ok ok"
    assert entries[4].identity == {"framework": "numpy"} and entries[5].reason == "not here"


TINY = chain("tiny", "a test", 4, (6, 5, 3), rate=0.1, momentum=0.5)
CHANGED = """
_{method} = Model.{method}


def {method}(self):
    found = _{method}(self)
    {change}
    return found


Model.{method} = {method}
"""


def verdict(folder: Path, method: str, change: str, network: Network = TINY) -> Verdict:
    """Of NumPy's adapter with what `method` gives changed."""
    odd = frameworks.write(folder, "odd", CHANGED.format(method=method, change=change))
    (judged,) = proof.prove(network, network.batch, [(odd, Setting())], folder, lambda text: None)
    return judged


@pytest.mark.slow
@pytest.mark.usefixtures("own_state")
@pytest.mark.parametrize(
    ("method", "change", "why"),
    [
        ("work", "del found['parameters']", "its work() returns no parameters"),
        ("work", "found['parameters'] = [1]", "its work() returns no parameters"),
        (
            "gradients",
            "found = dict((k, v.astype(object)) for k, v in found.items())",
            "its answer's arrays cannot be read: ",
        ),
        ("step", "import os; os._exit(4)", "ends its process with exit code 4"),
    ],
)
def test_what_gives_no_answer_is_not_compared(tmp_path: Path, method: str, change: str, why: str) -> None:
    judged = verdict(tmp_path, method, change)
    assert (judged.equal, judged.compared) == (False, False) and (judged.why or "").startswith(why)


@pytest.mark.slow
@pytest.mark.usefixtures("own_state")
@pytest.mark.parametrize(
    ("method", "change", "why"),
    [
        ("gradients", "del found['out.bias']", "the answer lacks gradient.out.bias"),
        ("gradients", "found = {}", "the answer lacks gradient.fc1.weight"),
        ("parameters", "del found['out.weight']", "the answer lacks after1.out.weight"),
        ("parameters", "found['out.weight'] = found['out.weight'].T", "after1.out.weight differs by inf times"),
        (
            "gradients",
            "found = dict((k, v.astype('f2')) for k, v in found.items())",
            "its gradient.fc1.weight is float16",
        ),
        ("work", "found['dtype'] = 'bfloat16'", "computes in bfloat16, not in single precision"),
        ("loss", "found = float('nan')", "loss 0 differs by nan times its bound"),
        ("gradients", "found['out.bias'][:] = np.nan", "gradient.out.bias differs by nan times its bound"),
    ],
)
def test_another_answer_is_not_equal(tmp_path: Path, method: str, change: str, why: str) -> None:
    judged = verdict(tmp_path, method, change)
    assert (judged.equal, judged.compared) == (False, True) and (judged.why or "").startswith(why)


@pytest.mark.usefixtures("own_state")
def test_a_loss_of_zero_is_compared(tmp_path: Path) -> None:
    one = chain("one", "a class alone", 4, (6, 1), rate=0.1)
    assert verdict(tmp_path, "loss", "pass", one).equal
    assert verdict(tmp_path, "loss", "found += 0.01", one).where == "loss 0"


@pytest.mark.slow
@pytest.mark.usefixtures("own_state")
def test_what_dies_in_its_proof_has_failed_and_does_no_other_work(tmp_path: Path) -> None:
    plan = Plan(TINY, TINY.batch, "step", 1.0, 1)
    entries = [Entry(frameworks.sick(tmp_path, "step", "exits"), Setting()), Entry(find("numpy"), Setting())]
    gate.refuse_unequal(plan, entries, tmp_path, lambda text: None)
    assert [entry.status for entry in entries] == ["failed", "ok"]
    assert entries[0].reason == "ends its process with exit code 3"
    with pytest.raises(LaunchError, match=r"^sick-step: ends its process with exit code 3$"):
        gate.refuse(plan, entries[0], tmp_path, lambda text: None)


@pytest.mark.usefixtures("own_state")
def test_one_proof_serves_all_that_it_holds_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other heaps, too; where the first of them does not run, the next one is asked."""
    asked = list[list[str]]()
    died, other = Verdict("numpy", False, "it died", math.nan, ""), Verdict("numpy", False, "a loss", 3.0, "loss")

    def prove(network: object, batch: int, wanted: Sequence[tuple[object, Setting]], *more: object) -> list[Verdict]:
        asked.append([setting.heap for _, setting in wanted])
        return [died if setting.heap == "default" else other for _, setting in wanted]

    monkeypatch.setattr(gate, "prove", prove)
    settings = [
        Setting(heap="default"),
        Setting(heap="keep"),
        Setting(2, heap="keep"),
        Setting(knobs={"order": "reversed"}),
    ]
    entries = [Entry(find("numpy"), setting, identity={"version": "1"}) for setting in settings]
    gate.refuse_unequal(Plan(TINY, TINY.batch, "step", 1.0, 1), entries, tmp_path, lambda text: None)
    assert asked == [["default", "default"], ["keep"]]
    assert [entry.status for entry in entries] == ["failed", "wrong", "wrong", "failed"]
