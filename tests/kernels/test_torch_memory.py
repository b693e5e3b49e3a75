"""Bytes that a call of PyTorch holds: what it allocates and has not given back, at its peak."""

from __future__ import annotations

import pytest

from kernels.libs import torch as torch_library

pytestmark = pytest.mark.skipif(torch_library.missing() is not None, reason=str(torch_library.missing()))


def test_what_is_given_back_counts_while_it_is_held(capfd: pytest.CaptureFixture[str]) -> None:
    import torch

    before = torch.empty(5000)

    def call() -> None:
        first = torch.empty(1000)
        del first
        second, third = torch.empty(2000), torch.empty(100)
        before.neg_()
        del second, third

    assert torch_library.peak(torch, call) == 4 * 2100
    assert torch_library.peak(torch, lambda: before.neg_()) == 0
    assert capfd.readouterr() == ("", "")
