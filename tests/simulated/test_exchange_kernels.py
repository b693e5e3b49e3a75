"""The kernels of words that threads hand each other on the CPU, broken."""

from __future__ import annotations

import contextlib

import pytest

from kernels.errors import UsageError
from kernels.ops.exchange import Exchange
from kernels.ops.exchange import variants as exchange
from tests.simulated import cases, launcher

pytestmark = pytest.mark.skipif(launcher.missing() is not None, reason=launcher.missing() or "")
BROKEN = [
    ("load", "thread % WARP * (unsigned)spread", "thread % WARP"),
    ("load", "if (thread < UNROLL - 1) words", "if (thread < UNROLL - 2) words"),
    ("load", "at = (at + UNROLL) % THREADS", "at = at + UNROLL & THREADS / 2 - 1"),
    ("load", "int rest = steps % UNROLL", "int rest = steps % (UNROLL - 1)"),
    ("shuffle", "1 << i) + 1;\n#pragma", "1) + 1;\n#pragma"),
    ("shuffle", "i < steps % DISTANCES", "i < steps % 4"),
    ("add_shared", "words[thread] = 0;", ""),
    ("add_shared", "words + thread % (unsigned)spread", "words"),
    ("add_shared", "atomicAdd(to, value)", "*to = value"),
    ("add_global", "if (own < spread) y[own] = 0;", "if (own < spread - 1) y[own] = 0;"),
    ("add_global", "y + own % spread", "y + threadIdx.x % spread"),
    ("add_global", "index_t left = steps; left;", "index_t left = steps; left > 1;"),
]


@pytest.mark.parametrize(("name", "text", "instead"), BROKEN)
def test_one_that_is_broken_is_refused(name: str, text: str, instead: str) -> None:
    kernel = cases.find(f"exchange_{name}")
    source = kernel.source.read_text()
    assert text in source
    with contextlib.suppress(launcher.LaunchFailed):
        assert not all(cases.run(kernel, x, source.replace(text, instead)).allowed for x in kernel.problems)


def test_what_does_not_solve_a_problem_is_refused() -> None:
    for name in ("exchange_load", exchange.CLEAR):
        with pytest.raises(UsageError, match="take exchange_shuffle"):
            exchange.launches(Exchange("shuffle"), name)
