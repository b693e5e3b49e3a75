"""FCN-R: a fully connected classifier of MNIST's size (arXiv 1608.07249, "FCN-R").

By Shi, Wang, Xu and Chu. Caffe, MXNet, TensorFlow and Torch scripts have 2048, 4096, 1024 hidden units in this order;
CNTK's has 4096, 2048, 1024, and so other products and 3 % fewer parameters.
"""

from __future__ import annotations

from macro.networks.base import Network, by_name, dense

SOURCE = "arXiv 1608.07249, FCN-R"

TEXT = Network("fcn-r", SOURCE, 1024, dense(2048, 4096, 1024, 10), rate=0.05, momentum=0.9, input=(784,))
NETWORKS = by_name(
    TEXT,
    TEXT.variant("plain", f"{SOURCE}, without its momentum", momentum=0.0),
    TEXT.variant("cntk", f"{SOURCE}, the order of its CNTK script", layers=dense(4096, 2048, 1024, 10)),
)
