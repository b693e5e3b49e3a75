"""Our binding of cuFFT on a stand-in that computes: what it passes, and what it says when it is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kernels.errors import LaunchError, Unavailable
from kernels.libs import cuda, cufft
from tests.simulated import fake_cufft

LENGTHS, COUNT, STREAM = (4, 6), 5, 0x40


def address(array: np.ndarray) -> int:
    return int(array.ctypes.data)


def test_there_and_back_by_frequency() -> None:
    """The spectra of one frequency lie together; back, nothing is scaled."""
    library, area = fake_cufft.Library(), np.zeros(fake_cufft.AREA, np.uint8)
    frames = np.random.default_rng(0).standard_normal((COUNT, *LENGTHS)).astype(np.float32)
    spectra, back = np.zeros((4, 4, COUNT), np.complex64), np.zeros_like(frames)
    for inverse, source, target in ((False, frames, spectra), (True, spectra, back)):
        plan = cufft.plan(LENGTHS, COUNT, inverse, STREAM, library)
        assert plan.nbytes == fake_cufft.AREA and library.plans[plan.number.value].stream == STREAM
        plan.work_in(address(area))
        plan.call(address(source), address(target))()
        if not inverse:
            assert np.allclose(spectra, np.fft.rfft2(frames).transpose(1, 2, 0), atol=1e-5)
    assert np.allclose(back / np.prod(LENGTHS), frames, atol=1e-5)
    assert len(library.plans) == 1
    del plan
    assert not library.plans


def test_a_plan_without_its_work_area_is_refused() -> None:
    plan = cufft.plan(LENGTHS, COUNT, False, STREAM, fake_cufft.Library())
    with pytest.raises(LaunchError, match="cufftExecR2C answers 1: CUFFT_INVALID_PLAN"):
        plan.call(0x100, 0x200)()


def test_without_a_device_it_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    library: Any = fake_cufft.Library(status=5)
    monkeypatch.setattr(cuda, "load", lambda name: library)
    with pytest.raises(Unavailable, match="cufftCreate answers 5: CUFFT_INTERNAL_ERROR: no usable GPU"):
        cufft.plan(LENGTHS, COUNT, False, STREAM)
    assert cufft.kernel() == ("cuFFT 12.1.0", None)


def test_a_status_that_is_not_known_is_told_by_its_number() -> None:
    with pytest.raises(LaunchError, match="cufftExecC2R answers 99: unknown"):
        cufft.check("cufftExecC2R", 99)
    with pytest.raises(Unavailable, match="cufftMakePlanMany answers 8: CUFFT_INVALID_SIZE"):
        cufft.check("cufftMakePlanMany", 8)
