"""Chains through each route to another process, which runs its share of the kernels."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from kernels import build
from kernels.launch import Bind, Launch
from kernels.maths import alone
from kernels.native import launch, structure
from kernels.ops.chain.problem import Chain
from kernels.ops.transfer import variants as transfer
from kernels.problem import Array
from kernels.provider import SUITE
from kernels.setting import Setting
from kernels.variant import Variant, row

SOURCE = Path(__file__).with_name("chain.c")
Argument = structure("pointer: x y peer exchange", "int64: count links elsewhere")  # C struct `argument` of chain.c


def prepare(route: str, problem: Chain, device: object, setting: Setting) -> Bind:
    """Prepare the chain; the other process is started even if it has no share.

    Raises Unavailable where the system forbids the route.
    """
    alone(setting)
    peer = transfer.Peer(route, (problem.count,), between=build.address(SOURCE, "chain_link"))
    function, exchange = build.address(SOURCE, "chain_run"), build.address(transfer.PEER_SOURCE, "transfer_exchange")
    of = {"count": problem.count, "links": problem.links, "elsewhere": problem.elsewhere}

    def bind(buffers: Sequence[Array]) -> Launch:
        argument = Argument(peer=peer.place, exchange=exchange, **of)
        return launch(function, argument, "xy", buffers, keep=(peer,))

    return bind


VARIANTS: tuple[Variant[Chain], ...] = tuple(row(SUITE, route, partial(prepare, route)) for route in transfer.ROUTES)
