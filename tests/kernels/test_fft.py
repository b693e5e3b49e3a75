"""Transforms of images: every row right at odd sizes and powers of two, the bound's room, plans used again."""

from __future__ import annotations

import platform
import subprocess
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from kernels import maths
from kernels.catalog import find
from kernels.errors import Unavailable
from kernels.libs import fftw, mkl
from kernels.ops.fft import Fft, variants
from kernels.ops.fft.problem import LIMIT
from kernels.ops.fft.variants import VARIANTS
from kernels.setting import Setting
from tests.kernels.rows import CPU, checked

LONG = ((1, 256, 32), (1, 32, 1024), (1, 128, 512))  # lengths of every remainder of radix 4, rows and columns
DIRECTIONS = ("r2c", "c2r")
PAIR = Fft(2, 32, 64)


def test_our_lengths_are_powers_of_two() -> None:
    accepted = [(h, w) for h in (16, 32, 48, 64) for w in (31, 32, 96, 128) if variants.c_accepts(Fft(2, h, w)) is None]
    assert accepted == [(32, 32), (32, 128), (64, 32), (64, 128)]


WIDTHS = {"native": (), "avx2": ("-mno-avx512f",), "sse": ("-mno-avx",)}


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("width", WIDTHS)
def test_ours_is_right_at_every_width_of_vectors(width: str, direction: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if WIDTHS[width] and platform.machine() != "x86_64":
        pytest.skip("instruction sets of another processor")
    monkeypatch.setattr(variants, "flags", lambda: (*maths.flags(), *WIDTHS[width]))
    for size in LONG:
        checked(Fft(*size, direction), find("fft", "c"))


def test_the_truth_is_the_sum_that_it_is_said_to_be() -> None:
    problem = Fft(2, 3, 4)
    x = problem.fill(np.random.default_rng(1))["x"].astype("f8")
    waves = [np.exp(-2j * np.pi * np.outer(np.arange(n), np.arange(n)) / n) for n in (3, 4)]
    spectrum = np.einsum("nhw,hj,wl->njl", x, *waves)[:, :, :3]
    y = problem.reference({"x": x})["y"]
    np.testing.assert_allclose(y[..., 0::2] + 1j * y[..., 1::2], spectrum, atol=1e-12)
    np.testing.assert_allclose(replace(problem, direction="c2r").reference({"x": y})["y"], x, atol=1e-12)


def test_work_is_benchfft_s_and_operands_are_floats() -> None:
    problem = Fft(3, 16, 10)
    assert problem.flops == pytest.approx(2.5 * 3 * 160 * np.log2(160))
    assert problem.bytes == 4 * 3 * 16 * (10 + 12)
    assert [x.shape for x in problem.operands()] == [(3, 16, 10), (3, 16, 12)]
    assert [x.shape for x in replace(problem, w=11, direction="c2r").operands()] == [(3, 16, 12), (3, 16, 11)]
    assert Fft() == Fft(64, 64, 64, "r2c")
    assert [Fft(1, *size).stages for size in ((64, 64), (2, 3), (30, 49), (2, 101))] == [12, 2.5, 12, 51.5]


# The bound


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("size", [(8, 32, 32), (8, 64, 64), (4, 60, 90)])
def test_it_leaves_an_honest_kernel_room_and_not_much(size: tuple[int, int, int], direction: str) -> None:
    problem, row = Fft(*size, direction), find("fft", "scipy")
    shares = []
    for seed in range(5):
        x = problem.fill(np.random.default_rng(seed))
        got = np.zeros(problem.outputs[0].shape, "f4")
        row.prepare(problem, CPU, Setting())([x["x"], got]).call()
        want = problem.reference(x)
        shares.append((np.abs(got - want["y"]) / problem.bound(x, want, 2.0**-24)["y"]).max())
    assert min(shares) > 0.1 and max(shares) < 0.6


def test_it_grows_with_the_root_of_the_stages() -> None:
    x = {"x": np.ones((1, 4, 4), "f4")}
    whole = Fft(1, 4, 4).bound(x, Fft(1, 4, 4).reference(x), 1.0)["y"]
    np.testing.assert_allclose(whole, LIMIT * 2 * 4)  # of four stages; a norm of four


def test_numpy_has_no_spectrum_in_single_precision() -> None:
    """Its answer is the right one, rounded once: what its row's reason says."""
    x = np.random.default_rng(2).standard_normal((64, 64), np.float32)
    right = np.fft.rfft(x.astype("f8"))
    np.testing.assert_array_equal(np.fft.rfft(x), right.astype("c8"))
    assert "--direction c2r" in str(find("fft", "numpy").accepts(Fft()))


# Ours


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_a_range_of_images_is_a_call_of_its_own(direction: str) -> None:
    """As a thread of several would have one."""
    problem = Fft(3, 32, 64, direction)
    x = problem.fill(np.random.default_rng(5))
    y = np.full(problem.outputs[0].shape, np.nan, "f4")
    launch = find("fft", "c").prepare(problem, CPU, Setting())([x["x"], y])
    assert launch.entry is not None
    argument: Any = launch.entry.argument
    argument.x, argument.y, argument.batch = argument.x + x["x"][0].nbytes, argument.y + y[0].nbytes, 1
    launch.call()
    assert np.isnan(y[[0, 2]]).all()
    np.testing.assert_allclose(y[1], problem.reference(x)["y"][1], rtol=1e-4, atol=1e-3)


def test_its_workspace_is_one_image_s() -> None:
    one, many = (find("fft", "c").prepare(Fft(batch, 64, 64), CPU, Setting()) for batch in (1, 9))
    held = [bind([np.zeros(1, "f4")] * 2).workspace for bind in (one, many)]
    assert held[0] == held[1] >= 4 * 64 * 64 + 8 * 128


def test_numpy_runs_on_one_thread() -> None:
    with pytest.raises(Unavailable, match="--threads 1"):
        find("fft", "numpy").prepare(Fft(1, 32, 32, "c2r"), CPU, Setting(2))


# Libraries


@pytest.mark.parametrize(("name", "package"), [("pyfftw", "pyfftw"), ("torch", "torch")])
def test_a_missing_package_is_a_reason(name: str, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert str(find("fft", name).missing()).startswith(f"{package} is not installed: pip install {package}")


def test_libraries_name_themselves() -> None:
    told = {row.name: row.kernel() for row in VARIANTS if not row.missing()}
    assert [str(told[name][0]).partition(" ")[0] for name in ("scipy", "numpy")] == ["scipy", "numpy"]
    assert all(isa is None for _, isa in told.values())


needs_fftw = pytest.mark.skipif(fftw.missing() is not None, reason=fftw.missing() or "")


AFTER_MKL = """
import sys
from kernels.libs import fftw, mkl
if "mkl" in sys.argv:
    mkl.load()
print(fftw.load().fftw_version)
"""


@pytest.mark.skipif(bool(fftw.missing() or mkl.missing()), reason="no pyfftw or no mkl: pip install pyfftw mkl")
def test_mkl_does_not_answer_for_fftw() -> None:
    """MKL, loaded before, exports FFTW's functions to every library that is loaded later."""
    commands = [[sys.executable, "-c", AFTER_MKL, *words] for words in ([], ["mkl"])]
    alone, after = (subprocess.run(command, capture_output=True, text=True, check=True).stdout for command in commands)
    assert alone == after and alone


@needs_fftw
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_one_plan_serves_every_placement(direction: str) -> None:
    problem = Fft(2, 6, 10, direction)
    bind = variants.fftw_planned(problem, CPU, Setting())
    drawn = [problem.fill(np.random.default_rng(seed)) for seed in range(2)]
    places = [[CPU.allocate(x.nbytes).view("f4").reshape(x.shape) for x in problem.operands()] for _ in drawn]
    for place, x in zip(places, drawn, strict=True):
        place[0][...] = x["x"]
    launches = [bind(place) for place in places]
    for turn in (0, 1, 1, 0):
        places[turn][1][...] = np.nan
        launches[turn].call()
        np.testing.assert_allclose(places[turn][1], problem.reference(drawn[turn])["y"], rtol=1e-4, atol=1e-4)
    assert launches[0].workspace == (0 if direction == "r2c" else problem.operands()[0].nbytes)


@needs_fftw
def test_its_plan_tells_the_widest_vectors() -> None:
    def of(*words: str) -> str | None:
        wisdom = "\n".join(f"  (fftwf_codelet_{word} 0 #x31bff #x31bff)" for word in words)
        return fftw.Plan(type("Made", (), {"execute": None, "update_arrays": None}), wisdom.encode()).isa

    assert of("r2cf_64") is None
    assert of("r2cf_64", "n1fv_64_sse2") == "sse2"
    assert of("n1fv_64_avx", "n1fv_64_sse2", "t1fv_8_avx2_128") == "avx2"
    assert of("hc2cf_32", "hc2cfdftv_32_avx512") == "avx512"


@needs_fftw
def test_a_launch_names_its_plan_s_vectors() -> None:
    problem = Fft(2, 64, 64)
    room = [CPU.allocate(x.nbytes).view("f4").reshape(x.shape) for x in problem.operands()]
    told = variants.fftw_planned(problem, CPU, Setting())(room).kernel
    assert told is not None and "FFTW 3" in str(told[0])
    assert told[1] in (None, *fftw.SETS)


@needs_fftw
def test_it_plans_for_the_threads_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, plan = [], fftw.plan
    monkeypatch.setattr(fftw, "plan", lambda *given, threads: (asked.append(threads), plan(*given, threads=threads))[1])
    checked(PAIR, "pyfftw", setting=Setting(2))
    assert asked == [2]
