"""The files that a proof of equal work holds for."""

from __future__ import annotations

from pathlib import Path

import pytest

from macro import frameworks
from macro.equality import code


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
