"""Where kernels-only computes: this processor, or a GPU, on which CuPy makes all passes that no kernel of the suite
makes, under NumPy's names and in the stream of those kernels.

In the style of Python 3.6 but for imports of the suite. On a stand-in alone so far, never on a GPU.
"""

import os
import sys

import numpy

HERE = os.path.dirname(os.path.abspath(__file__))


def place(job):
    """The device of its kernels."""
    name = job.get("device", "cpu")
    return "cpu" if name == "fake" else name


def opened(job):
    """That device. Raises NotImplementedError where it is not there."""
    from kernels.devices import missing, open_device
    from kernels.errors import SuiteError

    reason = missing(place(job))
    if reason:
        raise NotImplementedError(reason)
    try:
        device = open_device(place(job))
    except SuiteError as error:
        raise NotImplementedError(str(error))
    if place(job) != "cpu":
        on(device.cp)
    return device


def on(cupy):
    """The layers' arrays and passes by CuPy, in this process from now on."""
    ways = {
        "np": cupy,
        "aligned": lambda shape: cupy.zeros(tuple(shape), numpy.float32),
        "copied": lambda array: cupy.asarray(array),
        "host": lambda array: array.get(),
    }
    for module in list(sys.modules.values()):
        beside = os.path.dirname(os.path.abspath(getattr(module, "__file__", None) or "")) == HERE
        if beside and getattr(module, "np", None) is numpy:
            for name in set(ways) & set(vars(module)):
                setattr(module, name, ways[name])


def address(array):
    """Of its first number, wherever it is."""
    place_on_gpu = getattr(array.data, "ptr", None)
    return array.__array_interface__["data"][0] if place_on_gpu is None else place_on_gpu


def seconds(device, call):
    """Of a call, by the device's own clock; the first one is none of it."""
    call()
    device.sync()
    start = device.mark()
    call()
    end = device.mark()
    device.sync()
    return device.between(start, end).wall
