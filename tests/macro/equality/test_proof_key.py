"""What a proof of equal work holds for: files of code, and the kernels that kernels-only chose."""

from __future__ import annotations

import itertools
import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from kernels.errors import LaunchError
from macro.equality import code, timed
from macro.equality.proof import key, prove, proven
from macro.frameworks import find
from macro.processes.job import Setting
from macro.timing.entry import Entry, Plan, begin
from tests.macro.equality.odd_networks import NET
from tests.macro.models import started


def test_another_file_that_may_run_is_another_digest(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for folder in ("agent", "frameworks", "kernels/deep"):
        (tmp_path / folder).mkdir(parents=True)
    for name in ("agent/loop.py", "frameworks/plain.py", "frameworks/suite.py", "kernels/deep/x.c", "mine.py"):
        (tmp_path / name).write_text("x = 1\n")
    (tmp_path / "frameworks/suite.py").write_text('"""An adapter."""\n\nfrom kernels import deep\n')
    for constant, folder in (("AGENT", "agent"), ("ADAPTERS", "frameworks"), ("KERNELS", "kernels")):
        assert getattr(code, constant).is_dir()
        monkeypatch.setattr(code, constant, tmp_path / folder)

    def digests() -> dict[str, str]:
        return {name: code.digest.__wrapped__(tmp_path / name) for name in ADAPTERS}

    seen = [digests()]
    for changed in ("agent/loop.py", "frameworks/plain.py", "kernels/deep/x.c", "mine.py"):
        (tmp_path / changed).write_text("x = 2\n")
        seen.append(digests())
    same = [[x == y for x, y in zip(a.values(), b.values(), strict=True)] for a, b in itertools.pairwise(seen)]
    assert same == [[False] * 3, [False] * 3, [True, False, False], [True, True, False]]


ADAPTERS = ("frameworks/plain.py", "frameworks/suite.py", "mine.py")
ROW = find("kernels-only")


def hello(folder: Path, setting: Setting) -> dict[str, Any]:
    with started(ROW, NET, folder, setting) as process:
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
    with ExitStack() as stack, pytest.raises(LaunchError, match="chosen other kernels than in its proof"):
        begin(Plan(NET, NET.batch, "step", 1.0, 1), entry, Setting(), tmp_path, stack)
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
