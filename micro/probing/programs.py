"""What a probe runs in a process of its own: `python -m micro.probing.programs NAME PARENT …`, a JSON line."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

from kernels.libs import convolutions
from micro.probing import accuracy, facts, processes
from micro.probing import own_kernels as probing_own_kernels


def torch_work() -> tuple[Callable[[], object], Callable[[], object]]:
    """A product and a convolution, warmed; how to wait for them."""
    torch = facts.package("torch")

    x = torch.randn(512, 512).cuda()
    image, weight = torch.randn(8, 16, 28, 28).cuda(), torch.randn(32, 16, 3, 3).cuda()

    def work() -> None:
        torch.relu(x @ x.t()).sum()
        torch.nn.functional.conv2d(image, weight, padding=1)

    work()
    return work, torch.cuda.synchronize


def torch_profiler() -> dict[str, Any]:
    """The names that torch's own profiler gives to the kernels of `torch_work`."""
    torch = facts.package("torch")

    work, wait = torch_work()
    kinds = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=kinds) as seen:
        work()
        wait()
    ran = {x.name[:200] for x in seen.events() if str(x.device_type).endswith("CUDA")}
    return {"kernels": sorted(ran)}


def torch_error() -> dict[str, Any]:
    """torch's convolutions and product against double precision, on its defaults."""
    import numpy as np

    torch = facts.package("torch")
    errors: dict[str, Any] = {}
    for shape in convolutions.SMALL:
        given = convolutions.operands(shape)
        x, w = (torch.from_numpy(given[name]).cuda() for name in "xw")
        y = torch.nn.functional.conv2d(x, w, padding=shape.pad)
        gap = accuracy.error(y.cpu().numpy(), convolutions.reference("y", shape, given))
        errors[shape.name] = {**gap, "like": accuracy.precision(gap["l2"])}
    a, b = (np.random.default_rng(i).standard_normal((512, 512), np.float32) for i in (2, 3))
    product = (torch.from_numpy(a).cuda() @ torch.from_numpy(b).cuda()).cpu().numpy()
    errors["product"] = accuracy.error(product, a.astype("f8") @ b.astype("f8"))
    errors["rounding"] = rounding(torch)
    return errors


def rounding(torch: Any) -> dict[str, Any]:
    """What torch lets its products and convolutions round fp32 to: in words since 2.9, which warns of the older
    switches; before, whether to TF32."""
    places = {
        "convolutions": getattr(torch.backends.cudnn, "conv", torch.backends.cudnn),
        "products": torch.backends.cuda.matmul,
    }
    return {name: getattr(place, "fp32_precision", None) or place.allow_tf32 for name, place in places.items()}


def launches(count: str) -> dict[str, Any]:
    """Host time of `count` launches of a tiny kernel through CuPy, three times."""
    import cupy

    x = cupy.ones(32, cupy.float32)
    add = cupy.ElementwiseKernel("float32 x", "float32 y", "y = x + 1", "one_more")
    add(x, x)
    microseconds = []
    for _ in range(3):
        cupy.cuda.runtime.deviceSynchronize()
        start = time.perf_counter()
        for _ in range(int(count)):
            add(x, x)
        cupy.cuda.runtime.deviceSynchronize()
        microseconds.append(round((time.perf_counter() - start) / int(count) * 1e6, 3))
    return {"us a launch": microseconds, "launches": 3 * int(count) + 1}


def own_kernels(path: str, size: str, *kernels: str) -> dict[str, Any]:
    """Our own kernels launched once each; a line a kernel to the file `path`."""
    import cupy

    from kernels.devices.cuda import open_device

    cupy.cuda.set_allocator(None)  # no pool: a memory checker then has each operand's end
    file = os.open(path, os.O_WRONLY | os.O_APPEND)

    def tell(line: dict[str, Any]) -> None:
        os.write(file, json.dumps(line).encode() + b"\n")

    return {"launched": probing_own_kernels.each(open_device("0"), size, kernels, tell)}


PROGRAMS: dict[str, Callable[..., dict[str, Any]]] = {
    "torch-profiler": torch_profiler,
    "torch-error": torch_error,
    "launches": launches,
    "own-kernels": own_kernels,
}


def main(name: str, parent: str, *words: str) -> None:
    if os.getppid() == int(parent):
        processes.die_with(int(parent))
    else:  # a tool stands between
        processes.follow(int(parent))
    sys.stdout.write("\n" + json.dumps(facts.plain(PROGRAMS[name](*words))) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
