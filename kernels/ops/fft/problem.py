"""Discrete Fourier transforms of a batch of real images, and their inverses."""

from __future__ import annotations

from dataclasses import dataclass
from math import log2
from typing import ClassVar

from kernels import places
from kernels.lazy import np
from kernels.problem import Array, Arrays, Excerpt, Operand, Problem, axis

LIMIT = 8.0  # × u √stages × root mean square of the correct result: correct kernels reach 0.2 to 4.3


@dataclass(frozen=True)
class Fft(Problem):
    """Transform of `batch` real images (r2c), y = Σ x e^(-2πi(jk/h + lm/w)), or its inverse (c2r).

    A complex number is two neighboring floats, so a spectrum is batch × h × 2(w/2 + 1). Imaginary parts that no real
    image has are ignored, as in NumPy and all other libraries. How far a NaN or an infinity spreads in its image
    differs between correct algorithms.
    """

    op: ClassVar[str] = "fft"

    batch: int = axis("images", 64, low=1)
    h: int = axis("image height", 64, low=2)
    w: int = axis("image width", 64, low=2)
    # r2c: the half spectrum of w/2 + 1 columns, whose conjugates are the other columns. c2r: its image, divided by h·w
    direction: str = axis("real to complex (r2c) or back (c2r)", "r2c", choices=("r2c", "c2r"), shown="word")

    @property
    def count(self) -> int:
        """Pixels of an image."""
        return self.h * self.w

    @property
    def stages(self) -> float:
        """Half the sum of the prime factors of h·w, which is log2(h·w) for powers of two.

        A transform of length p may be computed as sums of p terms, whose random error is √(p/2) u.
        """
        return sum(map(_factors, (self.h, self.w))) / 2

    @property
    def flops(self) -> float:
        """Nominal FLOPs, 2.5 N log2 N for N pixels, as in benchFFT (Frigo, Johnson 2005)."""
        return 2.5 * self.batch * self.count * log2(self.count)

    @property
    def summed(self) -> int:
        return self.count

    @property
    def graded(self) -> dict[str, int]:
        return {"x": 0}

    def operands(self) -> tuple[Operand, ...]:
        image, spectrum = (self.batch, self.h, self.w), (self.batch, self.h, 2 * (self.w // 2 + 1))
        x, y = (image, spectrum) if self.direction == "r2c" else (spectrum, image)
        return Operand("x", x, "in"), Operand("y", y, "out")

    def excerpt(self, rng: np.random.Generator) -> Excerpt:
        some = places.rows(rng, self.batch, self.count)
        return self.excerpt_rows(some, batch=len(some))

    def reference(self, x: Arrays) -> dict[str, Array]:
        given = x["x"].astype(np.float64)
        if self.direction == "r2c":
            return {"y": np.fft.rfft2(given).view(np.float64)}
        return {"y": np.fft.irfft2(given.view(np.complex128), s=(self.h, self.w))}

    def bound(self, x: Arrays, want: Arrays, u: float) -> dict[str, Array]:
        """Bound the error of each image by LIMIT · u · √stages times the root mean square of its result.

        Errors of the stages are independent and add up like a random walk (Gentleman, Sande 1966); the worst-case bound
        (Higham, Accuracy and Stability, chapter 24) grows as log2 N. The RMS of a spectrum is the norm of its image.
        """
        image = x["x"] if self.direction == "r2c" else want["y"]
        norm = np.sqrt(np.square(image, dtype=np.float64).sum(axis=(1, 2), keepdims=True))
        size = norm if self.direction == "r2c" else norm / self.count**0.5
        return {"y": LIMIT * u * self.stages**0.5 * np.broadcast_to(size, want["y"].shape)}


def _factors(n: int) -> int:
    """Return the sum of the prime factors of n."""
    total, factor = 0, 2
    while factor * factor <= n:
        while n % factor == 0:
            n //= factor
            total += factor
        factor += 1
    return total + (n if n > 1 else 0)
