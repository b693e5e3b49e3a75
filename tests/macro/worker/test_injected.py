"""What `--soak` adds to NumPy's step takes time, and leaves its answer as it is."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from macro.frameworks import find
from macro.networks.base import chain
from macro.processes import job
from micro.command import injected
from tests.conftest import load

NET = chain("small", "a test", 8, (6, 5, 4, 3), rate=0.1, momentum=0.9)


@pytest.mark.parametrize("what", [None, *injected.EXPECTED])
def test_a_step_with_something_added_goes_where_numpy_s_goes(what: str | None, beside: None, tmp_path: Path) -> None:
    plugin = load(injected.written(tmp_path, what, "fc2", 0.0))
    asked = {"network": NET.plan(), "threads": 1, "batch": NET.batch, **job.write_arrays(NET, NET.batch, tmp_path)}
    want = load(find("numpy").path).build(asked | {"knobs": {}})
    got = plugin.build(asked | {"knobs": plugin.ROWS["plugin"]})
    for model in (want, got):
        model.step()
        model.step()
    for name, array in want.parameters().items():
        np.testing.assert_allclose(got.parameters()[name], array, rtol=1e-5, atol=1e-6)
