"""Batch normalization by channel, training or frozen, and local response normalization across channels."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from kernels import places
from kernels.errors import UsageError
from kernels.problem import Excerpt, Operand, Problem, axis

if TYPE_CHECKING:
    import numpy as np

    from kernels.problem import Array, Arrays

EPSILON = 1e-5
WIDTH, ALPHA, BETA, BIAS = 5, 1e-4, 0.75, 2.0  # Krizhevsky, Sutskever and Hinton 2012, section 3.3
LIMIT = 32.0  # unit roundoffs


@dataclass(frozen=True)
class Norm(Problem):
    """batch: y = scale · (x − mean)/√(variance + ε) + shift of each channel. train: mean and variance are those of the
    batch; mean and rstd = 1/√(variance + ε), which the gradient needs, are written beside y, as PyTorch and cuDNN do.
    frozen: they were kept from earlier. lrn: y = x / (2 + α/5 · Σ x² of five neighboring channels)^¾. NCHW."""

    op: ClassVar[str] = "norm"

    images: int = axis("images of the batch", low=1)
    maps: int = axis("feature maps: channels", low=1)
    size: int = axis("edge of an image", low=1)
    method: str = axis("which normalization", "batch", choices=("batch", "lrn"))
    mode: str = axis("statistics of the batch, or kept ones", "train", choices=("train", "frozen"))

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.method, self.mode) == ("lrn", "frozen"):
            raise UsageError("--mode frozen: a local response normalization keeps no statistics")

    @property
    def keeps(self) -> bool:
        """Whether the statistics are an answer."""
        return (self.method, self.mode) == ("batch", "train")

    @property
    def channels(self) -> int:
        return self.maps

    @property
    def count(self) -> int:
        return self.images * self.maps * self.size**2

    @property
    def flops(self) -> float:
        """Of an element: its share of mean and variance, 4, its normalization, 2; of lrn square, sum and roots."""
        if self.method == "lrn":
            return 9.0 * self.count
        return (6.0 if self.mode == "train" else 2.0) * self.count

    @property
    def bytes(self) -> float:
        return float(self.footprint)

    @property
    def summed(self) -> int:
        return self.images * self.size**2

    def operands(self) -> tuple[Operand, ...]:
        shape, row = (self.images, self.channels, self.size**2), (1, self.channels)
        gain = () if self.method == "lrn" else (Operand("scale", row, "in"), Operand("shift", row, "in"))
        kept = () if not self.keeps else (Operand("mean", row[1:], "out"), Operand("rstd", row[1:], "out"))
        return (Operand("x", shape, "in"), *gain, Operand("y", shape, "out"), *kept)

    def kept(self) -> tuple[Array, Array]:
        """Mean and variance of each channel from earlier, float32: of the problem, not drawn."""
        import numpy as np

        place = np.arange(self.channels, dtype=np.float32)
        return np.asarray(np.sin(place) / 4, "f4"), np.asarray(1 + np.cos(place) / 2, "f4")

    def excerpt(self, rng: np.random.Generator) -> Excerpt:
        """Some channels where statistics are of a channel of all images, else some images."""
        images, maps, pixels = places.every((self.images, self.maps, self.size**2))
        if self.keeps:
            maps = places.rows(rng, self.maps, self.images * self.size**2)
        else:
            images = places.rows(rng, self.images, self.maps * self.size**2)
        shapes = {3: (images, maps, pixels), 2: (*places.every((1,)), maps), 1: (maps,)}
        part = replace(self, images=len(images), maps=len(maps))
        return Excerpt(part, {x.name: shapes[len(x.shape)] for x in self.operands()})

    def reference(self, x: Arrays) -> dict[str, Array]:
        import numpy as np

        image = x["x"].astype("f8")
        if self.method == "lrn":
            return {"y": image / self._pool(image * image) ** BETA}
        mean, variance = self._statistics(image)
        rstd = 1 / np.sqrt(variance + EPSILON)
        y = (image - mean) * rstd * x["scale"][0, :, None] + x["shift"][0, :, None]
        return {"y": y, "mean": mean[:, 0], "rstd": rstd[:, 0]} if self.keeps else {"y": y}

    def _statistics(self, image: Array) -> tuple[Array, Array]:
        if self.mode == "frozen":
            mean, variance = self.kept()
            return mean.astype("f8")[:, None], variance.astype("f8")[:, None]
        axes = (0, 2)
        return image.mean(axis=axes)[:, None], image.var(axis=axes)[:, None]

    def _pool(self, squares: Array) -> Array:
        import numpy as np

        edge = WIDTH // 2
        padded = np.pad(squares, ((0, 0), (edge, edge), (0, 0)))
        total = sum(padded[:, i : i + self.channels] for i in range(WIDTH))
        return np.asarray(BIAS + ALPHA / WIDTH * total)

    def bound(self, x: Arrays, want: Arrays, u: float) -> dict[str, Array]:
        """Of a difference the larger side counts, of a channel with next to no variance its mean."""
        import numpy as np

        if self.method == "lrn":
            return {"y": LIMIT * u * np.abs(want["y"])}
        image = x["x"].astype("f8")
        mean, variance = self._statistics(image)
        size = (np.abs(image) + np.abs(image).mean(axis=(0, 2))[:, None] + np.abs(mean)) / np.sqrt(variance + EPSILON)
        worse = 1 + np.abs(image).max() ** 2 / (variance + EPSILON)  # what is lost of a variance beside its squares
        y = LIMIT * u * (size * worse * np.abs(x["scale"][0, :, None]) + np.abs(x["shift"][0, :, None]))
        if not self.keeps:
            return {"y": y}
        of_mean = LIMIT * u * np.abs(image).mean(axis=(0, 2))
        return {"y": y, "mean": of_mean, "rstd": LIMIT * u * worse[:, 0] * want["rstd"]}
