"""FCN-S: a wide fully connected classifier on synthetic data (arXiv 1608.07249, "FCN-S").

By Shi, Wang, Xu and Chu. 26752 is the number of movies of MovieLens-20M rounded up to a multiple of 128. The paper's
text has four hidden layers and 55 million parameters; all its scripts have three and 118.0 million, 54.8 of them in
fc1. A variant of the scripts has six, an older one 512 features and 1000 classes.
"""

from __future__ import annotations

from macro.networks.base import Network, by_name, dense

SOURCE = "arXiv 1608.07249, FCN-S"
WIDE, HIDDEN = 26752, 2048

SCRIPTS = Network(
    "fcn-s", f"{SOURCE}, as its scripts: three hidden layers", 64, dense(*[HIDDEN] * 3, WIDE), rate=0.01, input=(WIDE,)
)
NETWORKS = by_name(
    SCRIPTS,
    SCRIPTS.variant("4", f"{SOURCE}, as its text: four hidden layers", layers=dense(*[HIDDEN] * 4, WIDE)),
    SCRIPTS.variant("6", f"{SOURCE}, its twin of six hidden layers", layers=dense(*[HIDDEN] * 6, WIDE)),
    SCRIPTS.variant(
        "512",
        f"{SOURCE}, its older script: 512 features, 1000 classes",
        layers=dense(*[HIDDEN] * 3, 1000),
        input=(512,),
    ),
)
