"""What a proof of equal work holds for: files of code, and the kernels that kernels-only chose."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from kernels.errors import LaunchError
from macro import frameworks
from macro.equality import code, timed
from macro.equality.proof import key, prove, proven
from macro.frameworks import find
from macro.processes.job import Setting
from macro.timing.entry import Entry, Plan, begin
from tests.macro.equality.odd_networks import NET
from tests.macro.models import started


def names(framework: str) -> set[str]:
    begin = [frameworks.find(framework).path, code.LOOP, *code.WORKER.glob(code.KINDS)]
    return {path.stem for path in code.files(begin)}


def test_an_adapter_has_its_builders_and_those_of_no_other() -> None:
    assert {"pytorch", "loop", "recorder", "torch_layers"} <= names("pytorch")
    assert {"numpy", "numpy_layers", "numpy_images"} <= names("numpy")
    assert {"jax", "jax_layers", "layouts"} <= names("jax")
    assert not names("jax") & {"torch_layers", "torch_record", "torch_watch", "script", "blocks", "library_talk"}
    assert not names("pytorch") & {"jax_layers", "script", "blocks", "boundary", "torch_watch", "library_talk"}


@pytest.mark.parametrize("framework", frameworks.names())
def test_every_module_that_builds_layers_is_some_adapters(framework: str) -> None:
    """None is imported in a way that is not seen."""
    words = {"tensorflow": "tf", "pytorch": "torch", "kernels": "suite"}
    family = framework.partition("-")[0]
    stem = f"{words.get(family, family)}_layers"
    assert (code.WORKER / f"{stem}.py").exists() and stem in names(framework)


def test_what_loads_files_by_path_or_kernels_has_all_of_them(tmp_path: Path) -> None:
    assert {"torch_layers", "jax", "winograd", "blocked"} <= names("kernels-only")
    (tmp_path / "mine.py").write_text(
        "import importlib.util\nspec = importlib.util.spec_from_file_location('o', 'x')\n"
    )
    assert {"torch_layers", "numpy", "pytorch"} <= {path.stem for path in code.files([tmp_path / "mine.py"])}
    assert not {"winograd", "blocked"} & names("pytorch")


def test_a_change_of_what_is_imported_deep_inside_is_another_digest(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name, text in (
        ("adapter", "def build():\n    import layers\n"),
        ("layers", "from deep import x\n"),
        ("deep", "x = 1\n"),
        ("other", "y = 1\n"),
        ("loop", ""),
    ):
        (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.setattr(code, "WORKER", tmp_path)
    monkeypatch.setattr(code, "LOOP", tmp_path / "loop.py")

    def digest() -> str:
        code.digest.cache_clear()
        return code.digest((tmp_path / "adapter.py",))

    first = digest()
    (tmp_path / "other.py").write_text("y = 2\n")
    assert digest() == first
    (tmp_path / "deep.py").write_text("x = 2\n")
    assert digest() != first
    code.digest.cache_clear()


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
    with ExitStack() as stack, pytest.raises(LaunchError, match="chosen other kernels than those that were proven"):
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
