"""Two cases of one small product, and a machine without canaries, for scripted contests."""

from __future__ import annotations

import pytest

from kernels.ops.gemm.problem import Gemm
from micro.planning.contest import Case, Contest
from micro.worker.messages import ContestCost

PROBLEM = Gemm(8, 8, 8)
FIRST, SECOND = Case(PROBLEM, "openblas"), Case(PROBLEM, "naive")
CONTEST = Contest("two", "which is faster?", "variant", (FIRST, SECOND))
CALL = 17e-6
SHORT = ContestCost((4, 4), (CALL, CALL), 2e-4)


@pytest.fixture
def no_canaries(light_fake: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("micro.worker.contest.canaries", lambda device: [])
