"""kernels-only is timed with the kernels that it was proven with: it chooses once, and says what."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from kernels.errors import LaunchError
from macro.equality import timed
from macro.equality.proof import key, prove, proven
from macro.frameworks import find
from macro.processes import job
from macro.processes.job import Setting
from macro.processes.process import Process
from macro.timing.entry import Entry, Plan, begin
from tests.macro.equality.odd_networks import NET

ROW = find("kernels-only")


def hello(folder: Path, setting: Setting) -> dict[str, Any]:
    files = job.write_arrays(NET, NET.batch, folder)
    written = job.write(ROW, NET, NET.batch, setting, files, folder)
    with Process(ROW, written, setting, folder / "log") as process:
        return process.expect("hello")


@pytest.mark.slow
def test_it_says_all_that_it_chose_and_chooses_it_once(own_state: Path, tmp_path: Path) -> None:
    first = hello(tmp_path, Setting())
    products = first["flags"]["products"]
    assert {name.partition("/")[0] for name in products} >= {"conv", "gemm"}
    again = hello(tmp_path, Setting())
    assert again["flags"] == first["flags"]
    assert key(NET, NET.batch, ROW, Setting(), again) == key(NET, NET.batch, ROW, Setting(), first)
    (file,) = (own_state / "products").glob("*.json")
    kept = json.loads(file.read_text("utf-8"))
    assert products.items() <= kept.items()
    name = next(name for name in kept if name.startswith("conv"))
    other = "im2col" if kept[name] != "im2col" else "im2col-blocks"
    file.write_text(json.dumps({**kept, name: other, "gemm/of/another/network": "openblas"}), "utf-8")
    changed = hello(tmp_path, Setting())
    assert changed["flags"]["products"] == {**products, name: other}
    entry = Entry(ROW, Setting(), identity=first)
    files = job.write_arrays(NET, NET.batch, tmp_path)
    with ExitStack() as stack, pytest.raises(LaunchError, match="chosen other kernels than those that were proven"):
        begin(Plan(NET, NET.batch, "step", 1.0, 1), entry, Setting(), files, tmp_path, stack)
    assert key(NET, NET.batch, ROW, Setting(), first) != key(NET, NET.batch, ROW, Setting(), {**first, "flags": {}})
    file.write_text("torn", "utf-8")
    assert hello(tmp_path, Setting())["flags"]["products"].keys() == products.keys()


@pytest.mark.slow
def test_a_proof_at_two_batches_is_of_the_kernels_of_the_timed_one(
    own_state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of a large network, whose small batch has others."""
    pytest.importorskip("torch", reason="no torch: pip install torch")
    monkeypatch.setattr(timed, "LARGE", 1.0)
    (verdict,) = prove(NET, NET.batch, [(ROW, Setting())], tmp_path, lambda text: None)
    assert verdict.equal and f"at batch {NET.batch}" in verdict.proof, verdict
    assert proven(NET, NET.batch, ROW, Setting(), hello(tmp_path, Setting())) == verdict.proof


def test_a_proof_is_of_so_many_threads() -> None:
    told = {"version": "1"}
    assert key(NET, NET.batch, ROW, Setting(1), told) != key(NET, NET.batch, ROW, Setting(2), told)
    plain = find("numpy")
    assert key(NET, NET.batch, plain, Setting(1), told) == key(NET, NET.batch, plain, Setting(2), told)
