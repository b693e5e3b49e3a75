"""Trials of advice in a script's process, what its settings are, and which of its lines take time."""

from __future__ import annotations

import importlib
import threading
import time

import pytest

torch = pytest.importorskip("torch", reason="no torch: pip install torch")

pytestmark = pytest.mark.usefixtures("with_torch")


def test_a_switch_is_set_and_set_back() -> None:
    trials, before = importlib.import_module("trials"), torch.get_num_threads()
    trial = trials.trial(torch, f"threads={before + 1}")
    trial.apply()
    assert torch.get_num_threads() == before + 1
    trial.undo()
    assert torch.get_num_threads() == before
    torch.autograd.set_detect_anomaly(True)
    off = trials.trial(torch, "anomaly=off")
    off.apply()
    assert not torch.is_anomaly_enabled()
    off.undo()
    assert torch.is_anomaly_enabled()
    torch.autograd.set_detect_anomaly(False)
    with pytest.raises(trials.Refused):
        trials.trial(torch, "faster")


def test_an_optimizer_is_fused_and_steps_alike_before_and_after() -> None:
    trials = importlib.import_module("trials")
    weights = torch.nn.Parameter(torch.ones(4))
    optimizer = torch.optim.Adam([weights], 0.1)
    weights.grad = torch.ones(4)
    optimizer.step()
    trial = trials.trial(torch, "fused")
    trial.apply()
    assert optimizer.param_groups[0]["fused"]
    optimizer.step()
    trial.undo()
    assert not optimizer.param_groups[0]["fused"]
    optimizer.step()
    assert torch.allclose(weights, torch.full((4,), 0.7), atol=1e-4)
    with pytest.raises(trials.Refused, match="no optimizer has a fused form"):
        kept = [optimizer, torch.optim.LBFGS([weights])]
        optimizer.param_groups[0]["fused"] = True
        trials.trial(torch, "fused")
    del kept


def test_several_groups_of_parameters_are_fused_together() -> None:
    trials = importlib.import_module("trials")
    weights = [torch.nn.Parameter(torch.ones(3)) for _ in range(2)]
    optimizer = torch.optim.SGD([{"params": weights[:1]}, {"params": weights[1:], "lr": 0.2}], 0.1)
    trial = trials.trial(torch, "fused")
    trial.apply()
    assert [group["fused"] for group in optimizer.param_groups] == [True, True]
    trial.undo()
    assert not any(group["fused"] for group in optimizer.param_groups)


def test_settings_are_those_of_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = importlib.import_module("torch_settings")
    monkeypatch.setenv("OMP_PROC_BIND", "close")
    data = torch.utils.data.TensorDataset(torch.ones(8, 2))
    loader = torch.utils.data.DataLoader(data, batch_size=4)
    weights = torch.nn.Parameter(torch.ones(2))
    seen = settings.settings(torch, [torch.optim.SGD([weights], 0.1, fused=True)])
    assert seen["anomaly"] is False and seen["gradients"] and seen["default_dtype"] == "float32"
    assert seen["cores"] >= 1 and seen["variables"]["OMP_PROC_BIND"] == "close" and not seen["flushed"]
    assert {"kind": "SGD", "tensors": 1, "fused": True, "foreach": None, "fusible": True} in seen["optimizers"]
    assert [x["batch"] for x in seen["loaders"] if x["in_memory"]] == [4] and loader is not None


def test_a_line_has_its_time_and_a_short_step_is_not_sampled() -> None:
    lines = importlib.import_module("lines")
    sampler = lines.Lines(0.0, lambda: None)
    sampler.start()
    end = time.monotonic() + 0.2
    while time.monotonic() < end:
        sum(range(1000))
    (file, _, function, text, seconds), *_ = sampler.stop()
    assert file == __file__ and function.startswith("test_a_line") and text and seconds > 0.02
    began = time.monotonic_ns()
    late = lines.Lines(60.0, lambda: began)
    late.start()
    assert late.stop() == [] and not [x for x in threading.enumerate() if x.name == "kernelgap lines"]
