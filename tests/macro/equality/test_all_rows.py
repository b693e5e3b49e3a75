"""Each kind of layer, and each way of it, in every framework that is here: the work of NumPy, or what it lacks."""

from __future__ import annotations

from pathlib import Path

import pytest

from macro.equality.proof import prove
from macro.frameworks import find, home, interpreter, names
from macro.processes.job import Setting
from tests.macro.models import NETWORKS

pytestmark = pytest.mark.slow
ENVIRONMENTS = home()
LACKS = {  # the first words of why, by network and the beginning of a row's name
    ("normalized", "cntk"): "its adapter has no norm",
    ("groups", "tensorflow"): "TensorFlow has no gradient of grouped convolutions",
    ("groups", "keras-tensorflow"): "TensorFlow has no gradient of grouped convolutions",
    ("groups", "cntk"): "CNTK has no grouped convolutions",
    ("dilation", "tensorflow-graph"): "TensorFlow has no gradient of dilated convolutions",
    ("dilation", "tensorflow-eager"): "TensorFlow has no gradient of dilated convolutions",
    ("dilation", "cntk"): "CNTK has no dilated convolutions",
    ("across channels", "keras"): "its adapter has no lrn",
    ("around", "cntk"): "its adapter has no shortcut",
    ("around", "keras-tensorflow"): "crashes",  # TensorFlow does
}
MISSING = ("No module named", "threads: pip install torch")  # of packages that are not here
SET = {"mxnet": {"variables": {"MXNET_MKLDNN_ENABLED": "0"}}}  # else its gradient of lrn is wrong


@pytest.mark.parametrize("name", [name for name in NETWORKS if name not in ("all kinds", "passes")])
def test_equal_or_lacking(name: str, own_state: Path, tmp_path: Path) -> None:
    if ENVIRONMENTS.is_dir():
        (own_state / "environments").symlink_to(ENVIRONMENTS)
    rows = [find(row) for row in names() if interpreter(find(row)) is not None]
    wanted = [(row, Setting(knobs=SET.get(row.name, {}))) for row in rows]
    wanted += [(find("kernels-only"), Setting(2))]
    verdicts = prove(NETWORKS[name], 4, wanted, tmp_path, lambda text: None)
    told = {}
    for verdict in verdicts:
        lacks = [why for (of, row), why in LACKS.items() if of == name and verdict.framework.startswith(row)]
        right = verdict.equal if not lacks else not verdict.compared and str(verdict.why).startswith(lacks[0])
        if not right and not any(word in str(verdict.why) for word in MISSING):
            told[verdict.framework] = verdict.why
    assert not told
