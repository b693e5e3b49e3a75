"""The right answers of normalizations in float64, and what honest arithmetic may be off by."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from kernels.problem import Array, Arrays

    Kept: TypeAlias = (
        tuple[Array, Array] | None
    )  # mean and variance of each channel from earlier; None: the batch's own

EPSILON = 1e-5
WIDTH, ALPHA, BETA, BIAS = 5, 1e-4, 0.75, 2.0  # Krizhevsky, Sutskever and Hinton 2012, section 3.3


def batch(x: Arrays, kept: Kept, step: bool) -> dict[str, Array]:
    """Of a normalization by channel: its outputs by name, in a step the gradients among them."""
    import numpy as np

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
    """Mean and variance of each channel, a row each."""
    if kept is not None:
        mean, variance = kept
        return mean.astype("f8")[:, None], variance.astype("f8")[:, None]
    axes = (0, 2)
    return image.mean(axis=axes)[:, None], image.var(axis=axes)[:, None]


def batch_bound(x: Arrays, kept: Kept, step: bool) -> dict[str, Array]:
    """In units of roundoff. Of a difference the larger side counts, of a channel with next to no variance its mean."""
    import numpy as np

    image, scale = x["x"].astype("f8"), np.abs(x["scale"][0, :, None])
    mean, variance = _statistics(image, kept)
    deviation = np.sqrt(variance + EPSILON)
    typical = np.abs(image).mean(axis=(0, 2))
    size = (np.abs(image) + typical[:, None] + np.abs(mean)) / deviation
    worse = 1 + np.abs(image).max() ** 2 / (variance + EPSILON)  # what is lost of a variance beside its squares
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
    """Of a normalization across channels: y, and dx by the quotient rule."""
    image = x["x"].astype("f8")
    size = _size(image)
    outputs = {"y": image / size**BETA}
    if step:
        slope = x["dy"].astype("f8")
        around = _near(slope * image / size ** (BETA + 1))
        outputs["dx"] = slope / size**BETA - 2 * BETA * ALPHA / WIDTH * image * around
    return outputs


def local_bound(x: Arrays, want: Arrays, step: bool) -> dict[str, Array]:
    """In units of roundoff: of dx the terms without their signs."""
    import numpy as np

    units = {"y": np.abs(want["y"])}
    if step:
        image, slope = np.abs(x["x"].astype("f8")), np.abs(x["dy"].astype("f8"))
        size = _size(image)
        around = _near(slope * image / size ** (BETA + 1))
        units["dx"] = slope / size**BETA + 2 * BETA * ALPHA / WIDTH * image * around
    return units


def _size(image: Array) -> Array:
    """What is raised to the power of three quarters."""
    import numpy as np

    return np.asarray(BIAS + ALPHA / WIDTH * _near(image * image))


def _near(planes: Array) -> Array:
    """Of each channel the sum over the channels at most two away, itself among them."""
    import numpy as np

    edge, channels = WIDTH // 2, planes.shape[1]
    padded = np.pad(planes, ((0, 0), (edge, edge), (0, 0)))
    return np.asarray(sum(padded[:, i : i + channels] for i in range(WIDTH)))
