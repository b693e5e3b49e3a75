"""An operation that was recorded is called again as it was, on tensors of its own."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="no torch: pip install torch")


@pytest.fixture
def again(watch: ModuleType, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    import torch_again  # type: ignore[import-not-found]

    monkeypatch.setattr(torch_again, "LEAST", 1e-4)
    monkeypatch.setattr(torch_again, "SHORT", 0.0)
    module: ModuleType = torch_again
    return module


def call(name: str, *inputs: tuple[list[int], list[int], str, Any]) -> dict[str, Any]:
    shapes, strides, types, arguments = (list(one) for one in zip(*inputs, strict=True))
    return {"name": name, "shapes": shapes, "strides": strides, "types": types, "arguments": arguments}


def tensor(*shape: int, stride: tuple[int, ...] = ()) -> tuple[list[int], list[int], str, Any]:
    return list(shape), list(stride or torch.empty(shape).stride()), "float", None


def value(x: Any) -> tuple[list[int], list[int], str, Any]:
    return [], [], "ScalarList" if isinstance(x, list) else "Scalar" if x is not None else "", x


LINEAR = call("aten::addmm", tensor(8), tensor(4, 16), tensor(16, 8, stride=(1, 16)), value(1), value(2))
LARGE = call("aten::mm", tensor(512, 512), tensor(512, 512))
CONVOLUTION = call(
    "aten::convolution_backward",
    *(tensor(2, 8, 6, 6), tensor(2, 3, 8, 8), tensor(8, 3, 3, 3), value([8]), value([1, 1]), value([0, 0])),
    *(value([1, 1]), value(False), value([0, 0]), value(1), value([True, True, True])),
)


def test_it_is_the_same_call(again: ModuleType) -> None:
    """Words of its schema that cannot stand by their place among them."""
    operands = again._operands(torch, LINEAR)
    assert operands[2].stride() == (1, 16) and operands[3:] == [1, 2]
    made = again._overload(torch, "aten::addmm", operands)(operands)
    assert torch.allclose(made, operands[0] + 2 * operands[1] @ operands[2])
    image, filters, bias = again._overload(torch, CONVOLUTION["name"], inputs := again._operands(torch, CONVOLUTION))(
        inputs
    )
    assert (image.shape, filters.shape, bias.shape) == (inputs[1].shape, inputs[2].shape, (8,))


def test_operands_are_the_same_or_so_many_that_no_cache_holds_them(
    again: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts: list[int] = []
    monkeypatch.setattr(again, "_timed", lambda call, sets: counts.append(len(sets)) or 1.0)
    for cache in (0, 7 * 4 * (8 + 64 + 128) // 2):
        again.seconds(torch, LINEAR, cache)
    assert counts == [1, 2, 1, 8]
    with pytest.raises(LookupError, match="would lie in a cache"):
        again.seconds(torch, LINEAR, 1 << 40)
    monkeypatch.undo()
    assert all(seconds > 0 for seconds in again.seconds(torch, LARGE, 0))
    with pytest.raises(LookupError, match="a call takes"):
        again.seconds(torch, LINEAR, 0)


def test_the_programs_random_numbers_stay_its_own(again: ModuleType) -> None:
    torch.manual_seed(1)
    want = torch.rand(3)
    torch.manual_seed(1)
    again.seconds(torch, LINEAR, 0)
    assert torch.equal(torch.rand(3), want)


@pytest.mark.parametrize(
    ("name", "inputs"),
    [
        ("aten::embedding", (tensor(8, 4), ([3], [1], "long int", None))),
        ("aten::cat", (([[3], [4]], [], "TensorList", None), value(0))),
        ("aten::mm", (tensor(8, 4),)),
        ("aten::mm", (tensor(8, 4), tensor(5, 6))),
    ],
)
def test_what_cannot_be_made_again_is_refused(again: ModuleType, name: str, inputs: tuple[Any, ...]) -> None:
    with pytest.raises(LookupError):
        again.seconds(torch, call(name, *inputs), 0)
