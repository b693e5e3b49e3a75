"""Trials of advice in a script's process, what its settings are, and which of its lines take time."""

from __future__ import annotations

import gc
import importlib
import sys
import threading
import time
from typing import Any

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
    gc.collect()  # optimizers of other tests
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


def test_a_loader_that_only_a_loop_refers_to_is_seen_by_its_iterator() -> None:
    settings = importlib.import_module("torch_settings")
    data = torch.utils.data.TensorDataset(torch.ones(8, 2))
    batches = iter(torch.utils.data.DataLoader(data, batch_size=2, shuffle=True))
    gc.collect()
    row = {"workers": 0, "batch": 2, "in_memory": True, "in_order": False}
    assert row in settings.loaders(torch) and next(batches)[0].shape == (2, 2)


def test_loaders_of_streams_and_of_whole_batches_are_seen() -> None:
    class Stream(torch.utils.data.IterableDataset):
        def __iter__(self) -> Any:
            return iter(torch.ones(8, 2))

    settings, data = importlib.import_module("torch_settings"), torch.utils.data.TensorDataset(torch.ones(8, 2))
    whole = torch.utils.data.BatchSampler(torch.utils.data.RandomSampler(data), 4, False)
    loaders = (
        torch.utils.data.DataLoader(Stream(), batch_size=3),
        torch.utils.data.DataLoader(data, batch_size=None, sampler=whole, num_workers=2),
    )
    rows = settings.loaders(torch)
    assert {"workers": 0, "batch": 3, "in_memory": False, "in_order": False} in rows and loaders
    assert {"workers": 2, "batch": None, "in_memory": True, "in_order": False} in rows


def test_a_line_has_its_time_and_a_short_step_is_not_sampled() -> None:
    lines = importlib.import_module("lines")
    sampler, usual = lines.Lines(0.0, 60.0, time.monotonic_ns), sys.getswitchinterval()
    sampler.start()
    assert sys.getswitchinterval() == pytest.approx(lines.SWITCH)  # else samples of a busy line go to the next call
    end = time.monotonic() + 0.2
    while time.monotonic() < end:
        sum(range(1000))
    (file, _, function, text, seconds, long), *_ = sampler.stop()
    assert long == 0 and sys.getswitchinterval() == usual
    assert file == __file__ and function.startswith("test_a_line") and text and seconds > 0.02
    began = time.monotonic_ns()
    late = lines.Lines(60.0, 90.0, lambda: began)
    late.start()
    assert late.stop() == [] and not [x for x in threading.enumerate() if x.name == "kernelgap lines"]


def test_a_step_is_looked_at_when_it_may_be_long() -> None:
    lines = importlib.import_module("lines")
    young, old = (lines.Lines(0.5, 60.0, lambda age=age: time.monotonic_ns() - age) for age in (0, 10**9))
    assert old._pause() == lines.PERIOD < 0.4 < young._pause() <= 0.5
    assert lines.Lines(0.5, 60.0, lambda: None)._pause() == lines.COARSE


def test_a_long_step_is_put_down_to_its_longest_line() -> None:
    lines, began = importlib.import_module("lines"), time.monotonic_ns()
    sampler = lines.Lines(0.02, 60.0, lambda: began)
    sampler.start()
    time.sleep(0.06)
    time.sleep(0.2)
    (row,) = sampler.stop()
    assert row[3] == "time.sleep(0.2)" and row[4] > 0.2 and row[5] == 1


def net(seed: int = 0) -> tuple[torch.nn.Module, torch.optim.Optimizer, torch.Tensor]:
    """Return a convolution with its optimizer after a step, and images."""
    torch.manual_seed(seed)
    model = torch.nn.Sequential(torch.nn.Conv2d(4, 8, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(288, 2))
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    return model, optimizer, torch.randn(5, 4, 8, 8)


def step(model: torch.nn.Module, optimizer: torch.optim.Optimizer, x: torch.Tensor) -> torch.Tensor:
    optimizer.zero_grad()
    output = model(x)
    output.square().mean().backward()
    optimizer.step()
    return output.detach()


def test_channels_last_stores_filters_and_states_and_steps_alike() -> None:
    trials = importlib.import_module("trials")
    plain, changed = net(), net()
    step(*plain)
    step(*changed)
    trial = trials.ChannelsLast(torch)
    trial.apply()
    weight = changed[0][0].weight
    state = changed[1].state[weight]["exp_avg"]
    assert weight.is_contiguous(memory_format=torch.channels_last) and not weight.is_contiguous()
    assert state.is_contiguous(memory_format=torch.channels_last)
    seen = []
    handle = changed[0][0].register_forward_pre_hook(lambda layer, args: seen.append(args[0].stride()))
    outputs = [step(*changed) for _ in range(3)]
    handle.remove()
    assert seen[0][1] == 1  # channels are innermost
    trial.undo()
    assert weight.is_contiguous() and not changed[0][0]._forward_pre_hooks
    outputs += [step(*changed) for _ in range(2)]
    for output in outputs:
        assert torch.allclose(step(*plain), output, atol=1e-5)


def test_bf16_runs_products_in_bf16_and_leaves_the_outputs_type() -> None:
    trials, (model, optimizer, x) = importlib.import_module("trials"), net()
    trial = trials.Bfloat16(torch)
    inner = []
    handle = model[3].register_forward_hook(lambda layer, args, output: inner.append(output.dtype))
    trial.apply()
    assert step(model, optimizer, x).dtype == torch.float32
    with pytest.raises(RuntimeError):
        model(x[:, :2])
    trial.undo()
    step(model, optimizer, x)
    handle.remove()
    assert inner == [torch.bfloat16, torch.float32] and not torch.is_autocast_enabled("cpu")


def test_products_are_rounded_during_the_trial_alone() -> None:
    trials, before = importlib.import_module("trials"), torch.get_float32_matmul_precision()
    trial = trials.trial(torch, "products")
    trial.apply()
    assert torch.get_float32_matmul_precision() == "medium" and trial.flags == {"products": "bfloat16"}
    with pytest.raises(trials.Refused, match="products run in bfloat16"):
        trials.trial(torch, "products")
    trial.undo()
    assert torch.get_float32_matmul_precision() == before


def test_whole_batches_are_the_same_batches() -> None:
    trials, data = importlib.import_module("trials"), torch.utils.data
    loader = data.DataLoader(data.TensorDataset(torch.arange(10.0), torch.arange(20).reshape(10, 2)), batch_size=4)
    before = list(loader)
    trial = trials.trial(torch, "batches")
    trial.apply()
    during = list(loader)
    trial.undo()
    assert all(torch.equal(a, b) for x, y in zip(before, during, strict=True) for a, b in zip(x, y, strict=True))
    assert loader.dataset.tensors[0][[1, 2]].tolist() == during[0][0][1:3].tolist()


def test_a_form_is_refused_where_all_have_it() -> None:
    trials, (model, optimizer, x) = importlib.import_module("trials"), net()
    trial = trials.trial(torch, "foreach")
    trial.apply()
    assert optimizer.param_groups[0]["foreach"] is True and not optimizer.param_groups[0]["fused"]
    step(model, optimizer, x)
    trial.undo()
    assert optimizer.param_groups[0]["foreach"] is None


def test_denormal_numbers_of_a_step_are_counted() -> None:
    denormals, (model, optimizer, x) = importlib.import_module("denormals"), net()
    with torch.no_grad():
        model[0].weight[0, 0, 0, 0] = 1e-40
        model[3].weight.fill_(1e-40)
        model[3].bias.fill_(0.0)
    counter = denormals.Denormals(torch)
    counter.start()
    model(x)
    counts = counter.stop()
    assert counts["weights"] == [577, sum(p.numel() for p in model.parameters())]
    assert counts["activations"][0] == 10 and counts["activations"][1] == 5 * (288 * 3 + 2)
    assert not torch.nn.modules.module._global_forward_hooks
    del optimizer


def test_a_frozen_heap_is_left_out_of_collections() -> None:
    trial = importlib.import_module("trials").trial(torch, "gc")
    trial.apply()
    assert gc.get_freeze_count() > 1000
    trial.undo()
    assert gc.get_freeze_count() == 0


def test_switches_restore_their_second_value() -> None:
    trials = importlib.import_module("trials")
    torch.use_deterministic_algorithms(True, warn_only=True)
    trial = trials.trial(torch, "deterministic=off")
    trial.apply()
    assert not torch.are_deterministic_algorithms_enabled()
    trial.undo()
    assert torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(False)
    torch.autograd.set_detect_anomaly(True, check_nan=False)
    off = trials.trial(torch, "anomaly=off")
    off.apply()
    off.undo()
    assert torch.is_anomaly_enabled() and not torch.is_anomaly_check_nan_enabled()
    torch.autograd.set_detect_anomaly(False)


def test_a_block_that_is_given_up_undoes_its_trial() -> None:
    blocks = importlib.import_module("blocks")
    done: list[str] = []
    held = blocks.Blocks(None, None, "never")
    held.applied = type("Applied", (), {"undo": lambda self: done.append("undone")})()
    held.request = {"spans": False}
    held.leave()
    assert done == ["undone"] and held.applied is None
    gc.callbacks.remove(held._collected)


def test_an_optimizer_without_a_fused_form_takes_foreach_alone() -> None:
    trials = importlib.import_module("trials")
    weights = torch.nn.Parameter(torch.ones(3))
    optimizer = torch.optim.RMSprop([weights], 0.1)
    keys = set(optimizer.param_groups[0])
    trials._check(torch, optimizer, optimizer.param_groups[0], "foreach")
    trial = trials.Form(torch, "foreach")
    trial.apply()
    assert optimizer.param_groups[0]["foreach"] is True
    trial.undo()
    assert set(optimizer.param_groups[0]) == keys and optimizer.param_groups[0]["foreach"] is None


def test_compiled_code_is_not_compiled_again(monkeypatch: pytest.MonkeyPatch) -> None:
    trials = importlib.import_module("trials")
    monkeypatch.setattr(trials, "compiled", lambda: True)
    with pytest.raises(trials.Refused, match="compiled again"):
        trials.trial(torch, "bf16")
    with pytest.raises(trials.Refused, match="no loader"):
        trials.trial(torch, "batches")


def test_adamw_whose_defaults_it_does_not_take_is_fused() -> None:
    trials = importlib.import_module("trials")
    optimizer = torch.optim.AdamW([torch.nn.Parameter(torch.ones(3))], 0.1)
    trials._check(torch, optimizer, optimizer.param_groups[0], "fused")
