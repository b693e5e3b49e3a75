"""Batch normalization (training or frozen) and local response normalization, with their gradients."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, TypeAlias

from kernels import places
from kernels.errors import UsageError
from kernels.lazy import np
from kernels.problem import Array, Arrays, Excerpt, Operand, Problem, axis, direction

# Kept mean and variance of each channel, or None to compute them from the batch
Kept: TypeAlias = "tuple[Array, Array] | None"
EPSILON = 1e-5
WIDTH, ALPHA, BETA, BIAS = 5, 1e-4, 0.75, 2.0  # Krizhevsky, Sutskever and Hinton 2012, section 3.3


def batch(x: Arrays, kept: Kept, step: bool) -> dict[str, Array]:
    """Return the outputs of batch normalization by name, with the gradients if `step`."""
    image, scale = x["x"].astype("f8"), x["scale"][0, :, None].astype("f8")
    mean, variance = _statistics(image, kept)
    rstd = 1 / np.sqrt(variance + EPSILON)
    normal = (image - mean) * rstd
    outputs = {"y": normal * scale + x["shift"][0, :, None]}
    if kept is None:
        outputs |= {"mean": mean[:, 0], "rstd": rstd[:, 0]}
    if not step:
        return outputs
    slope = x["dy"].astype("f8")
    of_shift, of_scale = slope.sum(axis=(0, 2)), (slope * normal).sum(axis=(0, 2))
    if kept is None:
        slope = slope - (of_shift[:, None] + normal * of_scale[:, None]) / (image.shape[0] * image.shape[2])
    return {**outputs, "dx": slope * scale * rstd, "dscale": of_scale, "dshift": of_shift}


def _statistics(image: Array, kept: Kept) -> tuple[Array, Array]:
    """Return each channel's mean and variance, kept or of the batch, as C × 1 arrays."""
    if kept is not None:
        mean, variance = kept
        return mean.astype("f8")[:, None], variance.astype("f8")[:, None]
    axes = (0, 2)
    return image.mean(axis=axes)[:, None], image.var(axis=axes)[:, None]


def batch_bound(x: Arrays, kept: Kept, step: bool) -> dict[str, Array]:
    """Return error bounds of batch normalization in unit roundoffs.

    The bounds allow for cancellation in differences and in channels whose variance is small beside their mean.
    """
    image, scale = x["x"].astype("f8"), np.abs(x["scale"][0, :, None])
    mean, variance = _statistics(image, kept)
    deviation = np.sqrt(variance + EPSILON)
    typical = np.abs(image).mean(axis=(0, 2))
    size = (np.abs(image) + typical[:, None] + np.abs(mean)) / deviation
    worse = 1 + np.abs(image).max() ** 2 / (variance + EPSILON)  # cancellation in the variance
    units = {"y": size * worse * scale + np.abs(x["shift"][0, :, None])}
    if kept is None:
        units |= {"mean": typical, "rstd": worse[:, 0] / deviation[:, 0]}
    if not step:
        return units
    slope = np.abs(x["dy"].astype("f8"))
    through = slope
    if kept is None:
        through = slope + slope.mean(axis=(0, 2))[:, None] + 2 * size * (slope * size).mean(axis=(0, 2))[:, None]
    of_scale = 2 * (slope * size * worse).sum(axis=(0, 2))
    return {**units, "dx": through * worse * scale / deviation, "dscale": of_scale, "dshift": slope.sum(axis=(0, 2))}


def local(x: Arrays, step: bool) -> dict[str, Array]:
    """Return y of local response normalization, in a step also dx by the quotient rule."""
    image = x["x"].astype("f8")
    size = _size(image)
    outputs = {"y": image / size**BETA}
    if step:
        slope = x["dy"].astype("f8")
        around = _near(slope * image / size ** (BETA + 1))
        outputs["dx"] = slope / size**BETA - 2 * BETA * ALPHA / WIDTH * image * around
    return outputs


def local_bound(x: Arrays, want: Arrays, step: bool) -> dict[str, Array]:
    """Return error bounds of local response normalization in unit roundoffs; dx sums absolute terms."""
    units = {"y": np.abs(want["y"])}
    if step:
        image, slope = np.abs(x["x"].astype("f8")), np.abs(x["dy"].astype("f8"))
        size = _size(image)
        around = _near(slope * image / size ** (BETA + 1))
        units["dx"] = slope / size**BETA + 2 * BETA * ALPHA / WIDTH * image * around
    return units


def _size(image: Array) -> Array:
    """Return the LRN denominator before its power BETA: 2 + α/5 · Σ x² of five channels."""
    return np.asarray(BIAS + ALPHA / WIDTH * _near(image * image))


def _near(planes: Array) -> Array:
    """Return the sum over the five-channel LRN window around each channel."""
    edge, channels = WIDTH // 2, planes.shape[1]
    padded = np.pad(planes, ((0, 0), (edge, edge), (0, 0)))
    return np.asarray(sum(padded[:, i : i + channels] for i in range(WIDTH)))


LIMIT = 32.0  # unit roundoffs
KEPT = 2  # channels after which kept statistics repeat, so that excerpts of blocks of KEPT channels match
OPERATIONS = {  # of an element: forward, gradient
    ("batch", "train"): (6.0, 9.0),  # mean and variance 4, normalization 2; two sums 4, dx 5
    ("batch", "frozen"): (2.0, 5.0),  # multiply-add; two sums 4, product 1
    ("lrn", "train"): (9.0, 12.0),  # square, sum and roots; the same of the quotients that neighbors add
}


@dataclass(frozen=True)
class Norm(Problem):
    """Normalization of NCHW images: by channel (batch), or across five neighboring channels (lrn).

    A step adds the gradients from dy: dx, and for batch normalization dscale and dshift. As in a network, all of y is
    complete before any gradient begins. In training, dx includes the gradient through mean and variance.
    """

    op: ClassVar[str] = "norm"

    images: int = axis("batch size (images)", low=1)
    maps: int = axis("channels", low=1)
    size: int = axis("image height and width", low=1)
    # batch: y = scale · (x − mean)/√(variance + ε) + shift. lrn: y = x / (2 + α/5 · Σ x² of five channels)^¾
    method: str = axis("normalization", "batch", choices=("batch", "lrn"))
    # train: of the batch; mean and rstd = 1/√(variance + ε) are written too, for the gradient, as in PyTorch and cuDNN
    mode: str = axis("statistics of the batch (train) or stored ones (frozen)", "train", choices=("train", "frozen"))
    phase: str = direction("forward, or forward and gradients", "forward", "step")

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.method, self.mode) == ("lrn", "frozen"):
            raise UsageError("--mode frozen: local response normalization has no statistics to freeze")

    @property
    def keeps(self) -> bool:
        """True if mean and rstd are outputs."""
        return (self.method, self.mode) == ("batch", "train")

    @property
    def step(self) -> bool:
        """True if the gradients are computed too."""
        return self.phase == "step"

    @property
    def channels(self) -> int:
        return self.maps

    @property
    def count(self) -> int:
        return self.images * self.maps * self.size**2

    @property
    def flops(self) -> float:
        forward, gradient = OPERATIONS[self.method, self.mode]
        return (forward + gradient * self.step) * self.count

    @property
    def summed(self) -> int:
        return self.images * self.size**2

    def operands(self) -> tuple[Operand, ...]:
        shape, row = (self.images, self.channels, self.size**2), (1, self.channels)
        step, gained = self.step, self.method == "batch"
        gain = (Operand("scale", row, "in"), Operand("shift", row, "in")) if gained else ()
        given = (Operand("dy", shape, "in"),) if step else ()
        kept = (Operand("mean", row[1:], "out"), Operand("rstd", row[1:], "out")) if self.keeps else ()
        gradients = (Operand("dx", shape, "out"),) if step else ()
        of_gain = (Operand("dscale", row[1:], "out"), Operand("dshift", row[1:], "out")) if step and gained else ()
        return (Operand("x", shape, "in"), *gain, *given, Operand("y", shape, "out"), *kept, *gradients, *of_gain)

    def kept(self) -> tuple[Array, Array]:
        """Return each channel's kept mean and variance, float32, fixed by the problem."""
        place = np.arange(self.channels, dtype=np.float32) % KEPT
        return np.asarray(np.sin(place) / 4, "f4"), np.asarray(1 + np.cos(place) / 2, "f4")

    def excerpt(self, rng: np.random.Generator) -> Excerpt:
        """Return some channels if outputs are sums over all images, else some images."""
        images, maps, pixels = places.every((self.images, self.maps, self.size**2))
        if self.keeps:
            maps = places.rows(rng, self.maps, self.images * self.size**2)
        elif self.method == "batch" and self.step:
            maps = places.blocks(rng, self.maps, KEPT, KEPT)
        else:
            images = places.rows(rng, self.images, self.maps * self.size**2)
        shapes = {3: (images, maps, pixels), 2: (*places.every((1,)), maps), 1: (maps,)}
        part = replace(self, images=len(images), maps=len(maps))
        return Excerpt(part, {x.name: shapes[len(x.shape)] for x in self.operands()})

    def reference(self, x: Arrays) -> dict[str, Array]:
        if self.method == "lrn":
            return local(x, self.step)
        return batch(x, None if self.keeps else self.kept(), self.step)

    def bound(self, x: Arrays, want: Arrays, u: float) -> dict[str, Array]:
        if self.method == "lrn":
            units = local_bound(x, want, self.step)
        else:
            units = batch_bound(x, None if self.keeps else self.kept(), self.step)
        return {name: LIMIT * u * array for name, array in units.items()}
