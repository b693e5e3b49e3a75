"""Recording of the operations that a PyTorch program dispatches, for a replay.

Tensors are tracked by identity: results are kept in slots for later calls, in-place operations work on the tensor
itself, and memory is freed at the same place as in the program, by a separate call. Tensors that outlive the program,
such as gradients, are freed at the start of the next replay. The replay is outside autograd: inputs are detached, and
the gradient mode is the caller's.

Recording can change the program: meanwhile autograd accumulates out of place into new tensors, not in place.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import torch_rows


class Slot:
    """A holder of a tensor between replayed calls."""

    __slots__ = ("lasting", "storage", "value")

    def __init__(self, storage: Any, value: Any = None, lasting: bool = False) -> None:
        self.storage, self.value, self.lasting = storage, value, lasting


def _filled(given: Any) -> Any:
    if type(given) is Slot:
        return given.value
    if type(given) is list:
        return [_filled(x) for x in given]
    return given


def _again(call: Callable[..., Any], args: Any, kwargs: dict[str, Any], results: list[Any]) -> Callable[..., Any]:
    """Return a replay of `call` that reads its arguments from slots and writes its results to slots."""
    flat = not any(type(x) is list for x in args) and not kwargs

    def again() -> None:
        if flat:
            values = call(*[x.value if type(x) is Slot else x for x in args])
        else:
            values = call(*_filled(args), **{k: _filled(v) for k, v in kwargs.items()})
        if len(results) == 1 and type(values) not in (tuple, list):
            values = (values,)
        for slot, value in zip(results, values or ()):
            if slot is not None:
                slot.value = value

    return again


def _free(slots: list[Slot]) -> Callable[..., Any]:
    def free() -> None:
        for slot in slots:
            slot.value = None

    return free


class Recording:
    """Operations dispatched while `call` runs.

    `events`: input of torch_rows.align; `steps`, in order: (index of event, call), or (None, call that frees memory).
    """

    def __init__(self, call: Callable[..., Any]) -> None:
        self.events, self.steps = list[dict[str, Any]](), list[tuple[Any, Callable[[], None]]]()
        self._known, self._gone = dict[int, tuple[Slot, Any]](), list[Slot]()
        self._holders, self._watched = dict[Any, int](), dict[int, tuple[Slot, Any]]()
        self._open = list[int]()
        self._node: Any = None
        with self._mode():
            call()
        self._bury()
        self.alive = [slot for slot, _ in self._watched.values()]
        for slot, watched in self._watched.values():
            slot.value = watched()

    def _mode(self) -> Any:
        from torch.utils._python_dispatch import TorchDispatchMode

        recording = self

        class Mode(TorchDispatchMode):  # type: ignore[misc]
            def __torch_dispatch__(
                self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
            ) -> Any:
                return recording.dispatched(func, args, kwargs or {})

        return Mode()

    def dispatched(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        self._bury()
        name = func.name().split(".")[0]
        self._enter_node()
        if name == "profiler::_record_function_enter_new":
            self._open.append(self._event(args[0], -1, []))
            return func(*args, **kwargs)
        if name == "profiler::_record_function_exit":
            self._open.pop()
            return func(*args, **kwargs)
        templates = self._template(list(args)), {k: self._template(v) for k, v in kwargs.items()}
        returned = func(*args, **kwargs)
        self._done(func, name, args, templates, returned)
        return returned

    def _done(self, func: Any, name: str, args: Any, templates: Any, returned: Any) -> None:
        import torch

        shapes = [list(x.shape) if isinstance(x, torch.Tensor) else [] for x in args]
        number = torch._C._autograd._get_sequence_nr() - 1 if self._node is None else -1
        index = self._event(name, number, shapes)
        results = [self._result(x) for x in (returned if isinstance(returned, (tuple, list)) else (returned,))]
        self.steps.append((index, _again(func, templates[0], templates[1], results)))

    def _enter_node(self) -> None:
        """Add an event for the autograd node being executed, if the node is new."""
        import torch

        node = torch._C._current_autograd_node()
        key = None if node is None else (node.name(), node._sequence_nr())
        if key is None or (key[0].endswith("AccumulateGrad") or self._node is None or key != self._node[0]):
            self._node = None
        if key is not None and self._node is None:
            index = self._event(torch_rows.NODE + key[0], key[1], [])
            self._node = key, index

    def _event(self, name: str, sequence: int, shapes: Any) -> Any:
        within = self._open[-1] if self._open else None
        if self._node is not None:
            within = self._node[1]
        self.events.append({"name": name, "within": within, "sequence": sequence, "shapes": shapes})
        return len(self.events) - 1

    def _template(self, given: Any) -> Any:
        import torch

        if isinstance(given, torch.Tensor):
            return self._slot(given)
        if isinstance(given, (list, tuple)):
            return [self._template(x) for x in given]
        return given

    def _slot(self, tensor: Any) -> Any:
        """Return the slot of a tensor that is read: a recorded result, or a tensor from before, kept alive."""
        if id(tensor) not in self._known:
            storage = tensor.untyped_storage()._cdata
            if storage in self._holders:
                raise RuntimeError("an unrecorded view of a recorded tensor cannot be replayed")
            slot = Slot(None, tensor.detach() if tensor.requires_grad else tensor, True)
            self._known[id(tensor)] = slot, tensor  # held, so that its id is not reused
        return self._known[id(tensor)][0]

    def _result(self, tensor: Any) -> Any:
        """Return a new slot for a result; None if it is no tensor or was written in place."""
        import torch

        if not isinstance(tensor, torch.Tensor) or id(tensor) in self._known:
            return None
        storage, key = tensor.untyped_storage()._cdata, id(tensor)
        slot = Slot(storage)
        self._known[key] = slot, None
        self._holders[storage] = self._holders.get(storage, 0) + 1
        self._watched[key] = slot, weakref.ref(tensor, lambda _: self._died(key))
        return slot

    def _died(self, key: int) -> None:
        slot = self._watched.pop(key)[0]
        del self._known[key]
        self._holders[slot.storage] -= 1
        self._gone.append(slot)

    def _bury(self) -> None:
        """Record a call that empties the slots of tensors freed since the last operation, if any memory was."""
        if all(self._holders.get(slot.storage) for slot in self._gone):
            return
        for slot in self._gone:
            if not self._holders.get(slot.storage, 1):
                del self._holders[slot.storage]
        self.steps.append((None, _free(self._gone)))
        self._gone = []


def record(call: Callable[..., Any], forget: Callable[[], object], align: Callable[[Any], Any]) -> Any:
    """Run `call` twice and return its operations as (rows, column, call).

    `forget` drops the results of `call`, which the recorded calls own from then on.
    """
    call()  # so that persistent allocations exist already
    recording = Recording(call)
    forget()
    aligned = align(recording.events)
    calls = [(torch_rows.FREED, "free", _free(recording.alive))] if recording.alive else []
    for index, again in recording.steps:
        calls.append(aligned[index] + (again,) if index is not None else ([], "free", again))
    return calls
