"""`make gpu`, in an environment within an environment."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import subprocess
import venv
import zipfile
from pathlib import Path

import pytest

from reports import store
from tests.gpu.session.conftest import log
from tests.gpu.session.processes import ROOT


def wheel(package: str, folder: Path) -> Path:
    """Make a wheel of what is installed, as `make wheels` would have brought it."""
    distribution = importlib.metadata.distribution(package)
    tag = next(x for x in (distribution.read_text("WHEEL") or "").splitlines() if x.startswith("Tag:")).split()[1]
    folder.mkdir(exist_ok=True)
    target = folder / f"{package}-{distribution.version}-{tag}.whl"
    with zipfile.ZipFile(target, "w") as archive:
        for file in distribution.files or []:
            if ".." not in file.parts and file.suffix != ".pyc":
                archive.write(str(file.locate()), str(file))
    return target


@pytest.mark.slow
def test_the_recipe_in_an_environment_within_an_environment(tmp_path: Path) -> None:
    """As on a GPU's machine: python3 is of an environment made by another one's, has all packages but one, which is
    carried as a wheel, beside one that fits no Python of today; there is no network. No environment is made: it
    would see none of them."""
    if shutil.which("make") is None or shutil.which("git") is None:
        pytest.skip("no make or no git")
    outer, inner = tmp_path / "outer", tmp_path / "inner"
    venv.create(outer)
    subprocess.run([outer / "bin/python", "-m", "venv", inner], check=True)
    python = inner / "bin/python"
    site = next((inner / "lib").glob("python*/site-packages"))
    have = Path(pytest.__file__).parents[1]
    for path in have.iterdir():
        mine = path.name.startswith(("msgspec", "__editable__", "kernelgap", "_virtualenv"))
        if not mine and not (site / path.name).exists():
            (site / path.name).symlink_to(path)
    clone = tmp_path / "the clone"
    listed = ["git", "ls-files", "-co", "--exclude-standard"]
    tracked = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True)
    for name in tracked.stdout.splitlines():
        if (ROOT / name).exists() and not name.startswith(("docs/", "reports/reference/")):
            (clone / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, clone / name)
    out = tmp_path / "out"
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
    environment |= {"PIP_NO_INDEX": "1", "KERNELGAP_STATE": str(tmp_path / "state"), "OUT": str(out)}

    def make() -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["make", "-s", "gpu", "PART=1", "FAKE=1", f"PYTHON={python}"],
            cwd=clone,
            env=environment,
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
        )

    without = make()
    assert without.returncode == 2 and "msgspec" in without.stderr + without.stdout, without
    msgspec = wheel("msgspec", clone / "wheels")
    shutil.copy(msgspec, msgspec.with_name("msgspec-0.1-cp27-cp27m-win32.whl"))
    (clone / ".site/rich").mkdir(parents=True)  # of another Python, from before
    ran = make()
    assert "gpu: wheels/msgspec-0.1-cp27-cp27m-win32.whl is not for this Python" in ran.stdout
    assert not (clone / ".site/rich").exists()
    assert ran.returncode == 0, (ran, log(out)[-3000:])
    assert (clone / ".site/msgspec").is_dir() and not list(clone.glob(".venv*"))
    assert {contest.contest.partition("/")[0] for contest in store.read(out / "gpu-1.jsonl").contests} >= {"strategy"}
