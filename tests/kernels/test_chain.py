"""Chains with a share in another process: each is right, has its share there, and one without a kernel is refused."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

from kernels.devices.cpu import Cpu
from kernels.errors import WrongResult
from kernels.launch import Launch
from kernels.ops.chain import Chain, variants
from kernels.ops.transfer import variants as transfer
from kernels.setting import Setting
from kernels.variant import Variant
from tests.kernels.rows import checked

SHARES = (0, 1, 3, 5)


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("variant", variants.VARIANTS, ids=lambda variant: variant.name)
def test_every_way_is_right(variant: Variant[Any], share: int) -> None:
    checked(Chain(4 * 1003, 5, share), variant)
    checked(Chain(1 << 20, 5, share), variant)


@pytest.mark.parametrize("share", SHARES)
def test_the_share_is_done_by_the_other_process(share: int, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[transfer.Peer] = []

    class Kept(transfer.Peer):
        def __init__(self, *of: Any, **more: Any) -> None:
            super().__init__(*of, **more)
            made.append(self)

    monkeypatch.setattr(transfer, "Peer", Kept)
    bind = variants.prepare("shared", Chain(4096, 5, share), Cpu(), Setting())
    x = np.ones((1, 1024), "f4")
    bind([x, np.empty_like(x)]).call()
    jobs = ctypes.c_uint32.from_address(ctypes.c_void_p.from_address(made[0].place).value or 0)  # the first of both
    assert jobs.value == share


@pytest.mark.parametrize("links", [4, 64])
def test_a_chain_without_one_of_its_kernels_is_refused(links: int) -> None:
    def prepare(problem: Chain, device: object, setting: Setting) -> Any:
        def bind(buffers: Any) -> Launch:
            def call() -> None:
                kept = np.float32(63 / 64) ** (links - 1)
                np.add(kept * buffers[0], 1 - kept, out=buffers[1])

            return Launch(call)

        return bind

    with pytest.raises(WrongResult, match="values have errors"):
        checked(Chain(4096, links), Variant("short", "cpu", "mine", prepare))
