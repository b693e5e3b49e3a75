"""The vector functions of kernels/maths.c against double precision, in every instruction set that runs here."""

from __future__ import annotations

import platform
import subprocess
from pathlib import Path

import pytest

from kernels import build, maths
from kernels.devices.cpu import instruction_sets
from kernels.errors import Unavailable

SOURCE = Path(__file__).with_name("ulp.c")
PROMISED = {  # units of the last place; of exp_of_negative between −1 and 0, below which its argument's rounding counts
    "exp_of": 3,
    "exp_of_negative": 4,
    "expm1_of": 3,
    "sigmoid_of": 3,
    "tanh_of": 3,
    "log_of": 3,
}
SETS = {"sse": (), "avx2": ("-mavx2", "-mfma"), "avx512": ("-mavx512f", "-mavx512dq", "-mfma")}
x86 = pytest.mark.skipif(platform.machine() != "x86_64", reason="these instruction sets are of x86")


def errors(folder: Path, flags: tuple[str, ...], source: Path = maths.MATHS, step: int = 9973) -> dict[str, float]:
    """The largest error of each function, of one float in `step`."""
    program = folder / "ulp"
    own = [word for word in build.FLAGS if not word.startswith("-march")]
    command = [build.compiler()[0], *own, *flags, "-include", str(source), str(SOURCE), "-o", str(program), "-lm"]
    subprocess.run(command, check=True)
    told = subprocess.run([program, str(step)], capture_output=True, text=True, check=True).stdout
    return {name: float(error) for name, error, _ in map(str.split, told.splitlines())}


@x86
@pytest.mark.parametrize("name", SETS)
def test_functions_keep_what_is_promised(name: str, tmp_path: Path) -> None:
    if name not in instruction_sets():
        pytest.skip(f"this processor lacks {name}")
    found = errors(tmp_path, SETS[name])
    assert found.keys() == PROMISED.keys()
    assert {name: error for name, error in found.items() if error > PROMISED[name]} == {}


@x86
@pytest.mark.parametrize(
    ("old", "new", "function"),
    [
        ("1.6666665459e-1f", "1.6666e-1f", "exp_of"),
        ("9.67554189e-3f", "9.6e-3f", "exp_of_negative"),
        ("2.12194440e-4f;", "2.12e-4f;", "exp_of"),
        ("e / (e + 2.0f)", "1.0f - 2.0f / (e + 2.0f)", "tanh_of"),
        ("7.0376836292e-2f", "6.5e-2f", "log_of"),
    ],
)
def test_a_worse_one_is_told(old: str, new: str, function: str, tmp_path: Path) -> None:
    text = maths.MATHS.read_text()
    assert old in text
    worse = tmp_path / "maths.c"
    worse.write_text(text.replace(old, new, 1))
    assert errors(tmp_path, (), worse)[function] > PROMISED[function]


def test_a_library_is_of_the_text_it_was_made_from(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The digest of what is put in front of a file is among the flags."""
    before = maths.flags()
    other = tmp_path / "maths.c"
    other.write_text(maths.MATHS.read_text() + "\n")
    monkeypatch.setattr(maths, "MATHS", other)
    assert maths.flags.__wrapped__()[2] != before[2]


def test_several_threads_are_refused() -> None:
    from kernels.setting import Setting

    with pytest.raises(Unavailable, match="--threads 1"):
        maths.alone(Setting(threads=2))
