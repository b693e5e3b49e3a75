"""VGG-11 on images of 32 × 32 (Simonyan, Zisserman, ICLR 2015, configuration A): a network of one's own.

python -m macro equal docs/examples/vgg.py:VGG11 --batch 32
python -m macro explain docs/examples/vgg.py:VGG11 pytorch jax --batch 32
"""

from macro.networks.base import Network
from macro.networks.layers import Convolution, Dense, Dropout, Flatten, Pool

FILTERS = (64, None, 128, None, 256, 256, None, 512, 512, None, 512, 512, None)  # None: a pooling


def features():
    number = 0
    for filters in FILTERS:
        if filters is None:
            yield Pool(name=f"pool{number}")
            continue
        number += 1
        yield Convolution(name=f"conv{number}", filters=filters, pad=1, activation="relu")


VGG11 = Network(
    "vgg-11",
    "arXiv 1409.1556, configuration A, for 32 × 32",
    64,
    (
        *features(),
        Flatten(name="flat"),
        Dense(name="fc1", outputs=512, activation="relu"),
        Dropout(name="drop1"),
        Dense(name="fc2", outputs=512, activation="relu"),
        Dropout(name="drop2"),
        Dense(name="out", outputs=10),
    ),
    rate=0.01,
    momentum=0.9,
    input=(3, 32, 32),
)
