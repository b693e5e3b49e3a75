"""Options shared by macro's commands, and functions that parse their values."""

from __future__ import annotations

import argparse
import re
import string
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from kernels.errors import UsageError
from kernels.heap import POLICIES
from macro.frameworks import Framework, find
from macro.processes.job import Setting
from micro.planning.options import Parser
from micro.worker.process import POOLS

if TYPE_CHECKING:
    from macro.networks.base import Network

DEFAULT = "numpy,kernels-only,pytorch,jax"
REFUSED = {  # variables that --set refuses, as the adapters set them
    "NPROC": "use --threads instead",
    "MXNET_CPU_WORKER_NTHREADS": "use --threads instead",
    "KERAS_BACKEND": "choose the backend by --frameworks, e.g. keras-jax",
    "KERAS_HOME": "the suite sets it, to a folder of the environment",
    "JAX_PLATFORMS": "use --device instead",
}
INSTEAD = {"--division": "use python -m macro advise NETWORK FRAMEWORK --shell FILE, which writes the settings"}
LETTERS = string.ascii_lowercase[1:]  # suffixes of control runs


def parser(command: str, about: str | None, several: bool = False) -> argparse.ArgumentParser:
    """Return a parser with the options of commands that run frameworks; `several`: --batch takes a list."""
    options = Parser(f"python -m macro {command}", description=about, allow_abbrev=False)
    options.instead = INSTEAD
    options.add_argument("network", help="fcn-s, alexnet-r, resnet-56, …, or a file: net.json, net.py:NAME")
    options.add_argument("--frameworks", default=DEFAULT, metavar="NAMES", help=f"comma-separated ({DEFAULT})")
    if several:
        options.add_argument("--batch", metavar="N", help="samples per step (the network's), or a list: 16,32,64")
    else:
        options.add_argument("--batch", type=int, metavar="N", help="samples per step (the network's)")
    options.add_argument("--threads", default="1", metavar="N", help="threads per framework (1)")
    add_variables(options)
    return options


def add_device(options: argparse.ArgumentParser, several: bool = False) -> None:
    """Add --device, where steps run; `several`: it takes a list."""
    more = ", or a list: cpu,cuda:0" if several else ""
    options.add_argument("--device", default="cpu", metavar="NAME", help=f"cpu, cuda:0, fake (cpu){more}")


def add_variables(options: argparse.ArgumentParser) -> None:
    """Add --set, environment variables of every framework's process."""
    options.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="set an environment variable in all processes"
    )


def network(name: str) -> Network:
    """Return a network by name or file. Raises UsageError."""
    from macro import networks

    return networks.find(name)


def batch(asked: int | None, net: Network) -> int:
    """Return the requested batch size, or the network's if None. Raises UsageError."""
    count = net.batch if asked is None else asked
    if count < 1:
        raise UsageError(f"--batch {asked}: must be 1 or more")
    return count


def batches(text: str | None, net: Network) -> list[int]:
    """Parse a comma list of batch sizes; None: the network's batch size. Raises UsageError."""
    try:
        counts = [None] if text is None else [int(word) for word in text.split(",")]
    except ValueError:
        raise UsageError(f"--batch {text}: must be a whole number, or a list: 16,32,64") from None
    return list(dict.fromkeys(batch(count, net) for count in counts))


def check(words: argparse.Namespace) -> None:
    """Check --runs and --resume. Raises UsageError."""
    if words.runs < 1:
        raise UsageError(f"--runs {words.runs}: must be 1 or more")
    if words.resume and words.output is None:
        raise UsageError("--resume: requires a run file, -o FILE")


def frameworks(text: str) -> list[Framework]:
    """Parse a comma list of frameworks, or `all`; a repeated name is a control run. Raises UsageError."""
    from macro.frameworks import names

    asked = names() if text == "all" else [name for name in text.split(",") if name]
    if not asked:
        raise UsageError(f"--frameworks {text}: name at least one of {', '.join(names())}")
    return [find(name) for name in twins(asked)]


def twins(asked: Sequence[str]) -> list[str]:
    """Make names distinct as control runs: the second `numpy` is `numpy~b`, then `~c`. Raises UsageError."""
    names: list[str] = []
    for name in asked:
        free = (x for x in (name, *(f"{name}~{letter}" for letter in LETTERS)) if x not in names)
        names.append(next(free, name))
    if len(set(names)) < len(names):
        raise UsageError(f"--frameworks: {names[-1]} is named more than {len(LETTERS) + 1} times")
    return names


def words(text: str, option: str, choices: Sequence[str]) -> list[str]:
    """Parse a comma list of known words. Raises UsageError."""
    chosen = text.split(",")
    for word in chosen:
        if word not in choices:
            raise UsageError(f"{option} {word or text}: choose from {', '.join(choices)}")
    return chosen


def setting(threads: int, heap: str, variables: Mapping[str, str] | None = None, device: str = "cpu") -> Setting:
    """Return the setting of a framework's process; `variables`: added to its environment."""
    return Setting(threads, heap, {"variables": dict(variables)} if variables else {}, device=device)


def devices(text: str) -> list[str]:
    """Parse a comma list of devices. Raises UsageError if a device is unknown or not available."""
    from kernels.devices import kind_of, missing

    names: dict[str, None] = {}
    for name in text.split(","):
        if not re.fullmatch(r"cpu|fake|cuda(:\d+)?", name):
            raise UsageError(f"--device {name}: choose from cpu, cuda:0 (cuda:1, …), fake")
        kind = kind_of(name)
        full = kind.first if name == kind.name else name
        if reason := missing(full):
            raise UsageError(f"--device {full}: {reason}")
        names[full] = None
    return list(names)


def elsewhere(framework: Framework, device: str) -> str | None:
    """Return the reason why a framework cannot run steps on a device, or None."""
    if device.partition(":")[0] in framework.devices:
        return None
    return f"{framework.name} runs only on {' and '.join(framework.devices)} in this suite, not on {device}"


def variables(texts: Sequence[str]) -> dict[str, str]:
    """Parse NAME=VALUE texts of --set into a mapping. Raises UsageError."""
    values = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not re.fullmatch(r"[A-Za-z_]\w*", name):
            raise UsageError(f"--set {text}: must be NAME=VALUE")
        if why := (dict.fromkeys(POOLS, REFUSED["NPROC"]) | REFUSED).get(name):
            raise UsageError(f"--set {text}: {why}")
        values[name] = value
    return values


def threads(text: str) -> list[int]:
    """Parse a comma list of thread counts, each at most the number of cores. Raises UsageError."""
    from kernels.devices.cpu import cores

    try:
        counts = [int(word) for word in text.split(",")]
    except ValueError:
        raise UsageError(f"--threads {text}: must be a whole number, or a list: 1,2") from None
    for count in counts:
        if not 1 <= count <= cores():
            raise UsageError(f"--threads {count}: this process may use 1 to {cores()} cores")
    return list(dict.fromkeys(counts))


def heaps(text: str) -> list[str]:
    """Parse a comma list of heap policies. Raises UsageError."""
    return words(text, "--heap", tuple(POLICIES))


def say(quiet: bool, text: str) -> None:
    """Print a line of progress to stderr, unless `quiet`."""
    if not quiet:
        sys.stderr.write(f"{text}\n")  # a single write, as other threads print too
        sys.stderr.flush()
