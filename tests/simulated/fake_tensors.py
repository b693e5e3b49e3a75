"""PyTorch's tensors of a GPU, computed on the CPU, in the fake CuPy's memory and order: `install(patch, fake)`.

Every operator that changes or makes something is enqueued, once: as it reaches PyTorch's dispatcher, where on a GPU a
kernel or a few would be launched. Refused as by PyTorch: tensors of the host among those of the device. A value that is
wanted on the host waits for the stream.
"""

from __future__ import annotations

import functools
from types import SimpleNamespace
from typing import Any

import pytest

from kernels.libs import torch_cuda
from tests.simulated.fake_cupy import FakeCupy
from tests.simulated.fake_cupy_objects import STREAM

MADE = ("empty", "full", "ones", "tensor", "zeros")  # functions that take a device
PRODUCTS = {"aten::mm": (0, 1), "aten::addmm": (1, 2), "aten::addmm_": (1, 2)}  # and their two factors
MIXED = "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!"


def install(patch: pytest.MonkeyPatch, fake: FakeCupy) -> None:
    """Until the patch is undone."""
    tensor = torch_cuda.tensor
    patch.setattr(torch_cuda, "load", functools.partial(_load, fake))
    patch.setattr(torch_cuda, "tensor", lambda torch, view: torch.held(tensor(torch.plain, view)))


def _load(fake: FakeCupy, device: Any) -> Any:
    import torch

    assert device.stream.ptr == STREAM
    torch.set_grad_enabled(False)
    return _module(torch, fake)


@functools.lru_cache(maxsize=1)
def _module(torch: Any, fake: FakeCupy) -> Any:
    """The module, but for what makes tensors of the device out of nothing or of the host's memory."""
    held, host = kinds(torch, fake)

    def made(name: str, *given: Any, device: Any = "cpu", **more: Any) -> Any:
        found = getattr(torch, name)(*given, **more)
        return found if str(device) == "cpu" else held(found)

    names = {name: functools.partial(made, name) for name in MADE}
    own = SimpleNamespace(plain=torch, held=held, from_numpy=lambda x: torch.from_numpy(x).as_subclass(host), **names)

    class Module:
        def __getattr__(self, name: str) -> Any:
            return getattr(own, name) if hasattr(own, name) else getattr(torch, name)

    return Module()


def kinds(torch: Any, fake: FakeCupy) -> tuple[Any, Any]:
    """The class of the device's tensors, and that of the host's, which can be sent there."""

    class Held(torch.Tensor):  # type: ignore[misc]
        """`plain` is its memory."""

        __torch_function__ = torch._C._disabled_torch_function_impl
        device = property(lambda self: torch.device("cuda:0"))

        @staticmethod
        def __new__(cls, plain: Any) -> Any:
            made = torch.Tensor._make_wrapper_subclass(
                cls, plain.size(), strides=plain.stride(), storage_offset=plain.storage_offset(), dtype=plain.dtype
            )
            made.plain = plain
            return made

        def __init__(self, plain: Any) -> None:
            pass

        @classmethod
        def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return operator(torch, fake, Held, func, args, kwargs or {})

    class OfHost(torch.Tensor):  # type: ignore[misc]
        __torch_function__ = torch._C._disabled_torch_function_impl

        def to(self, place: str) -> Any:
            there = Held(torch.empty_like(self.as_subclass(torch.Tensor)))
            there.copy_(self)
            return there

    return Held, OfHost


def operator(torch: Any, fake: FakeCupy, held: Any, func: Any, args: Any, kwargs: Any) -> Any:
    """A view at once; what writes, when its turn comes; what gives new tensors, too, their shapes known before."""
    from torch.utils._pytree import tree_flatten, tree_map

    schema = func._schema
    given, _ = tree_flatten((args, kwargs))
    _refuse_hosts(torch, held, schema.name, given)
    args, kwargs = tree_map(lambda x: x.plain if isinstance(x, held) else x, (args, kwargs))
    if schema.name == "aten::_local_scalar_dense":
        fake.run()
        return func(*args, **kwargs)
    written = [x for x in _written(schema, args, kwargs) if x is not None]
    if not written and any(x.alias_info for x in schema.returns):
        return tree_map(held, func(*args, **kwargs))
    if schema.name == "aten::copy_" and not isinstance(given[1], held):
        args = (args[0], args[1].clone())  # as it is now: the host's memory may go away
    cut = _cut(torch) if cuts_products(torch.backends.cuda.matmul) else None
    places = PRODUCTS.get(schema.name, ()) if cut else ()

    def work() -> Any:
        return func(*(cut(x) if cut and i in places else x for i, x in enumerate(args)), **kwargs)

    if written:
        fake.launch(schema.name, fake.cost("torch"), work)
        own = {id(x.plain): x for x in given if isinstance(x, held)}
        found = [own[id(x)] for x in written]
        return found[0] if len(schema.returns) == 1 else tuple(found) if schema.returns else None
    made = func(*args, **kwargs)  # of whatever lies there now
    made, form = tree_flatten(made)

    def again() -> None:
        for x, new in zip(made, tree_flatten(work())[0], strict=True):
            x.copy_(new)

    fake.launch(schema.name, fake.cost("torch"), again)
    return torch.utils._pytree.tree_unflatten([held(x) for x in made], form)


def cuts_products(switch: Any) -> bool:
    """Return whether products of fp32 are made in TF32: by the new name where there is one, as torch itself looks."""
    if hasattr(switch, "fp32_precision"):
        return bool(switch.fp32_precision == "tf32")
    return bool(switch.allow_tf32)


def _refuse_hosts(torch: Any, held: Any, name: str, given: list[Any]) -> None:
    """A number may come from the host, and a copy may."""
    hosts = [x for x in given if isinstance(x, torch.Tensor) and not isinstance(x, held)]
    if name != "aten::copy_" and any(x.dim() for x in hosts):
        raise RuntimeError(MIXED)


def _written(schema: Any, args: Any, kwargs: Any) -> list[Any]:
    """The arguments that an operator changes, those of its lists one after another."""
    found: list[Any] = []
    for i, argument in enumerate(schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            value = args[i] if i < len(args) else kwargs.get(argument.name)
            found += value if isinstance(value, (list, tuple)) else [value]
    return found


def _cut(torch: Any) -> Any:
    """To the bits that TF32 keeps."""

    def cut(x: Any) -> Any:
        if x.dtype != torch.float32:
            return x
        return (x.contiguous().view(torch.int32) & ~0x1FFF).view(torch.float32)

    return cut
