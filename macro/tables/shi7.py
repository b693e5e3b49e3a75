"""The main table of Shi, Wang, Xu and Chu, Benchmarking State-of-the-Art Deep Learning Software Tools (2016, 2017)."""

from __future__ import annotations

from macro.tables import Line, Seen, Table

RERUN = "an independent re-run of its scripts, September 2016"
TITAN = "Titan X (Maxwell), i7-5960X, CUDA 7.5, cuDNN 5.1"
ISSUE = "issue 7187 and pull requests of TensorFlow and dlbench, 2017"


def titan(*seconds: float) -> Seen:
    """Return the re-run's figures by tool."""
    return Seen(
        RERUN, TITAN, dict(zip(("Caffe", "CNTK", "MXNet", "TensorFlow", "Theano", "Torch"), seconds, strict=True))
    )


TABLE = Table(
    name="shi7",
    source="arXiv 1608.07249 v7, table 7, seconds of a mini-batch",
    threads=(1, 2, 4, 8, 16, 32),
    hardware="i7-3820 (4 cores) on 1 to 8 threads, two E5-2630 v3 (16 cores) on 1 to 32; CUDA 8.0, cuDNN 5.1",
    devices=("GTX 980", "GTX 1080", "K80"),
    figures="its numbers are in no copy that this suite could be made from; its text has the orders",
    rows={"pytorch": "Torch", "tensorflow-graph": "TensorFlow", "mxnet": "MXNet", "cntk": "CNTK"},
    passes=("pytorch", "jax", "tensorflow-graph"),
    without="its LSTM: networks here have no recurrent layer yet",
    lines=(
        Line(
            "FCN-S",
            "fcn-s",
            64,
            (32, 64, 128, 256, 512, 1024),
            "Caffe > CNTK, Torch > TensorFlow, MXNet",
            (titan(0.037, 0.031, 0.027, 0.024, 0.016, 0.026),),
            (
                "its text says four hidden layers, its scripts have three",
                "TensorFlow's loss was of three operations, with one-hot labels copied in each step",
                "MXNet's optimizer had momentum and weight decay, the others none",
            ),
        ),
        Line(
            "AlexNet-S",
            "alexnet-s",
            16,
            (16, 32, 64, 128),
            "MXNet > Torch > the rest",
            (titan(0.046, 0.035, 0.032, 0.032, 0.026, 0.028),),
            (
                "five scripts, five networks: 62.4 M parameters in Torch and CNTK, 76.0 M in TensorFlow, 28.8 M in "
                "Caffe, 11.1 M in MXNet, whose graph left four layers out",
                "TensorFlow trained its images too, and had a ReLU behind its logits; Torch had no loss",
                "MXNet's optimizer had momentum and weight decay, the others none",
            ),
        ),
        Line(
            "ResNet-50",
            "resnet-50",
            16,
            (8, 16, 32, 64),
            "MXNet >> CNTK, TensorFlow > Caffe",
            (titan(0.416, 0.184, 0.153, 0.257, 0.595, 0.157),),
            (
                "Caffe's batch normalization took running statistics, as in inference",
                "Caffe's first convolution had a bias and no padding",
                "MXNet normalized in front of its convolutions, and its images too; TensorFlow trained its images",
                "an earlier version's MXNet network was 10.8 times cheaper",
                "the stride was on the 1 × 1 in Caffe and TensorFlow, on the 3 × 3 in the others",
            ),
        ),
        Line(
            "FCN-R",
            "fcn-r",
            1024,
            (342, 512, 1024, 2048, 4096),
            "Torch > Caffe, CNTK, MXNet > TensorFlow",
            (Seen(ISSUE, "one die of a K80", {"TensorFlow": 0.057}), Seen(ISSUE, "GTX 1080", {"TensorFlow": 0.0153})),
            (
                "CNTK's layers stood in another order, 13.7 M parameters for 14.2 M",
                "Torch took the logarithm of the softmax twice; TensorFlow's step had the assembly of its batch inside",
            ),
        ),
        Line(
            "AlexNet-R",
            "alexnet-r",
            1024,
            (86, 128, 256, 512, 1024, 2048),
            "CNTK > Caffe, Torch > MXNet > TensorFlow (K80)",
            (Seen(ISSUE, "GTX 1080, images made on the processor, its batch not told", {"TensorFlow": 0.055}),),
            (
                "TensorFlow's images were decoded on the GPU, within the step",
                "Caffe rounds the sizes of its poolings up: 89,578 parameters for 85,098",
                "TensorFlow had a ReLU behind its logits; Torch took the logarithm of the softmax twice",
            ),
        ),
        Line(
            "ResNet-56",
            "resnet-56",
            128,
            (11, 16, 32, 64, 128),
            "MXNet > Caffe, CNTK, Torch > TensorFlow",
            (
                Seen(ISSUE, "GTX 1080, its batch not told", {"TensorFlow": 0.170}),
                Seen(ISSUE, "the same, images made on the processor, Winograd", {"TensorFlow": 0.150}),
                Seen(ISSUE, "the same, channels first, one kernel a normalization", {"TensorFlow": 0.0745}),
            ),
            (
                "CNTK's network was ResNet-110, with twice the work",
                "Caffe's shortcuts had parameters, its batch normalization no scale",
                "Torch and MXNet kept biases and had no ReLU behind their sums; MXNet normalized its images too",
                "Torch took the logarithm of the softmax twice",
            ),
        ),
    ),
)
