"""Places of operands: apart, aligned, inside, and the same distribution for all blocks of one size."""

from __future__ import annotations

import numpy as np
import pytest

from kernels.devices.kind import ALIGNMENT
from kernels.errors import LaunchError
from micro.worker.placement import draw, fixed, orders, refuse_shared

ROUNDS = 400
LAYOUTS = [
    ([64], 64),
    ([64], 4096),
    ([1, 63, 64, 65, 128], 1 << 12),
    ([16384, 16384, 16384], 3 * 16384),
    ([16384, 16384, 49152], 1 << 18),
    ([4, 1 << 16, 100, 100, 1 << 12], 1 << 17),
]
IDS = [f"{len(sizes)} in {space}" for sizes, space in LAYOUTS]


@pytest.mark.parametrize("unit", [ALIGNMENT, 512])
@pytest.mark.parametrize(("sizes", "space"), LAYOUTS, ids=IDS)
def test_blocks_are_aligned_inside_and_apart(sizes: list[int], space: int, unit: int) -> None:
    space *= unit // ALIGNMENT
    offsets = draw(np.random.default_rng(1), sizes, space, ROUNDS, unit)
    assert offsets.shape == (ROUNDS, len(sizes))
    assert (offsets % unit == 0).all()  # so that no two share a line
    assert (offsets >= 0).all()
    assert (offsets + np.array(sizes) <= space).all()
    order = np.argsort(offsets, axis=1)
    starts = np.take_along_axis(offsets, order, axis=1)
    ends = starts + np.array(sizes)[order]
    assert (starts[:, 1:] >= ends[:, :-1]).all()


def test_blocks_of_one_size_have_one_distribution() -> None:
    """Neither position in the list nor neighbors of other sizes make a block's places different."""
    from scipy.stats import ks_2samp

    sizes = [4096, 1 << 15, 4096, 64, 4096]
    offsets = draw(np.random.default_rng(3), sizes, 1 << 17, 4000, 64)
    for other in (2, 4):
        assert ks_2samp(offsets[:, 0], offsets[:, other]).pvalue > 0.01
    first = [(offsets[:, i] == offsets[:, [0, 2, 4]].min(axis=1)).mean() for i in (0, 2, 4)]
    assert first == pytest.approx([1 / 3] * 3, abs=0.03)


def test_a_place_differs_from_round_to_round() -> None:
    offsets = draw(np.random.default_rng(4), [4096, 4096], 1 << 20, 100, 64)
    assert len(set(offsets[:, 0].tolist())) > 90
    assert offsets.min() < 1 << 17
    assert offsets.max() > (1 << 20) - (1 << 17)


def test_one_seed_gives_one_layout() -> None:
    one, same, other = (draw(np.random.default_rng(s), [64, 640], 1 << 14, 9, 64) for s in (5, 5, 6))
    assert (one == same).all()
    assert (one != other).any()


def test_blocks_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="do not fit"):
        draw(np.random.default_rng(1), [64, 65], 128, 1, 64)


def test_places_that_share_nothing_are_taken() -> None:
    """Fixed ones stand one behind the other; blocks of one case may overlap."""
    assert fixed([64, 1, 100, 64], 2, 64).tolist() == [[0, 64, 128, 256]] * 2
    sizes = [100, 64, 1000]
    for offsets in (fixed(sizes, 3, 64), draw(np.random.default_rng(7), sizes, 1 << 11, ROUNDS, 64)):
        refuse_shared(offsets, sizes, ["a", "b", "c"])
    refuse_shared(np.array([[0, 128], [128, 0]]), [128, 128], ["one", "two"])
    refuse_shared(np.array([[0, 64]]), [128, 128], ["one", "one"])


@pytest.mark.parametrize("offsets", [[0, 0], [0, 64], [64, 0], [0, 127]])
def test_shared_memory_is_refused_by_name(offsets: list[int]) -> None:
    rows = np.array([[0, 128], offsets])
    with pytest.raises(LaunchError, match=r"(one and two|two and one) share memory"):
        refuse_shared(rows, [128, 128], ["one", "two"])


def test_a_host_never_measures_cases_that_share_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    from kernels.devices.fake import Fake
    from kernels.ops.gemm.problem import Gemm
    from micro.planning.contest import VISIT, Case
    from micro.worker import placement
    from micro.worker.host import Host

    monkeypatch.setattr("micro.worker.contest.canaries", lambda device: [])
    host = Host(Fake(lambda name, problem: 1e-5), 0)
    cases = [Case(Gemm(8, 8, 8), name) for name in ("openblas", "naive")]
    host.settle(host.open(cases, [True, True], 1), VISIT)
    host.look(0, 1)
    monkeypatch.setattr(placement, "draw", lambda rng, sizes, space, rounds, unit: np.zeros((rounds, len(sizes)), int))
    with pytest.raises(LaunchError, match="share memory"):
        host.look(1, 1)


def test_odd_rounds_run_their_predecessor_backwards_whatever_the_chunk() -> None:
    whole = orders(seed=3, first=0, rounds=8, count=5)
    assert (whole[1::2] == whole[::2, ::-1]).all()
    assert len({tuple(order) for order in whole[::2]}) > 1
    apart = [orders(3, number, 1, 5)[0] for number in range(8)]
    assert (whole == apart).all()


def test_every_case_is_in_every_place_equally_often() -> None:
    found = orders(seed=5, first=0, rounds=4000, count=4)
    for case in range(4):
        counts = (found == case).sum(axis=0)
        assert abs(counts - 1000).max() < 5 * 1000**0.5
