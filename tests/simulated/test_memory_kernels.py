"""The CUDA kernels of a chain of loads on the CPU, broken; and the key of dropout, which each launch makes anew."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest

from kernels.errors import UsageError
from kernels.ops.chase import Chase
from kernels.ops.chase import gpu as chase
from kernels.ops.dropout import Dropout
from kernels.ops.dropout import gpu as dropout
from tests.simulated import cases, launcher

pytestmark = pytest.mark.skipif(launcher.missing() is not None, reason=launcher.missing() or "")
BROKEN = [
    ("i + 1 < lines ? i + 1 : 0", "i + 1"),
    ("} while (i >= lines)", "} while (false)"),
    ("0xC2B2AE35ull", "0xC2B2AE37ull"),
    ("int shift = bits / 2 + 1", "int shift = bits / 2"),
    ("if (i >= lines) return;", ""),
    ("i < steps / STOPS", "i < steps / STOPS - 1"),
    ("2654435761u", "2654435763u"),
    ("if (threadIdx.x) return;", "if (threadIdx.x > 1) return;"),
]


@pytest.mark.parametrize(("text", "instead"), BROKEN)
def test_a_broken_chain_of_loads_is_refused(text: str, instead: str) -> None:
    kernel = cases.find("chase_walk")
    source = kernel.source.read_text()
    assert text in source
    with contextlib.suppress(launcher.LaunchFailed):
        assert not all(cases.run(kernel, x, source.replace(text, instead)).allowed for x in kernel.problems)


def test_a_key_is_another_in_each_launch() -> None:
    """By the text of the kernel: what makes no new key keeps the same elements again."""
    problem, text = Dropout(4099), dropout.SOURCE.read_text()
    key, both = dropout.launches(problem, "dropout_both")
    x = problem.fill(np.random.default_rng(0))

    def masks(source: str) -> list[bytes]:
        """Of two launches: of one key made, and of a second made of it."""
        found = []
        for keys in ((key,), (key, key)):
            got = launcher.launch(source, (*keys, both), problem.operands(), x)
            found.append((got["y"] != 0).tobytes())
        return found

    first, second = masks(text)
    assert first != second
    same = masks(text.replace("key[0] = mixed(key[0] + 0x9e3779b9u)", "key[0] = 1"))
    assert same[0] == same[1]


def test_what_is_none_of_these_kernels_is_refused() -> None:
    with pytest.raises(UsageError, match=r"no kernel chase in chase\.cu"):
        chase.launches(Chase(1024), "chase")
    with pytest.raises(UsageError, match="a GPU's pages are its own: --page 4096"):
        chase.launches(Chase(1 << 21, 1 << 21), "chase_walk")
    with pytest.raises(UsageError, match=r"no kernel dropout in dropout\.cu"):
        dropout.launches(Dropout(16), "dropout")
