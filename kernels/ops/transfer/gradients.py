"""Gradients of the networks of the texts, layer by layer: how many numbers each has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kernels.moved import LENGTH


@dataclass(frozen=True)
class Gradient:
    """Numbers of each layer's, weights with their bias; a normalization is a layer."""

    title: str
    layers: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        return LENGTH * sum(self.layers)


def _resnet_50() -> tuple[int, ...]:
    """Four stages of bottleneck blocks between a 7×7 convolution and a product; each convolution has a
    normalization behind it (He et al. 2015, arXiv:1512.03385)."""
    layers, channels = [3 * 64 * 49, 2 * 64], 64
    for width, blocks in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for block in range(blocks):
            layers += [channels * width, 2 * width, 9 * width * width, 2 * width, 4 * width * width, 8 * width]
            if block == 0:  # its shortcut
                layers += [4 * channels * width, 8 * width]
            channels = 4 * width
    return (*layers, 2048 * 1000 + 1000)


def _resnet_56() -> tuple[int, ...]:
    """Of CIFAR-10: three stages of nine blocks of two 3×3 convolutions, shortcuts without parameters."""
    layers, channels = [9 * 3 * 16, 2 * 16], 16
    for width in (16, 32, 64):
        for _ in range(18):
            layers += [9 * channels * width, 2 * width]
            channels = width
    return (*layers, 64 * 10 + 10)


# Shi et al. 2017, arXiv:1608.07249 v7, but for Karmanov's, of DeepLearningFrameworks.
GRADIENTS: Mapping[str, Gradient] = {
    "fcn-s": Gradient("FCN-S", (54_790_144, 4_196_352, 4_196_352, 54_814_848)),
    "alexnet-s": Gradient(
        "AlexNet-S", (34_944, 614_656, 885_120, 1_327_488, 884_992, 37_752_832, 16_781_312, 4_097_000)
    ),
    "resnet-50": Gradient("ResNet-50", _resnet_50()),
    "fcn-r": Gradient("FCN-R", (1_607_680, 8_392_704, 4_195_328, 10_250)),
    "lstm": Gradient("LSTM", (2_560_000, 525_312, 525_312, 2_570_000)),
    "karmanov-cnn": Gradient("Karmanov's CNN", (1_400, 22_550, 45_100, 90_100, 3_277_312, 5_130)),
    "resnet-56": Gradient("ResNet-56", _resnet_56()),
    "alexnet-r": Gradient("AlexNet-R", (2_432, 25_632, 51_264, 5_770)),
}
