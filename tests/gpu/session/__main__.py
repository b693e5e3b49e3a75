"""Everything that a GPU is asked which is here for minutes: five parts, the most valuable first.

    python3 -m tests.gpu.session --part 1 --out FOLDER

`make gpu` is the same. Part 1 has the front door (OP_N against OP_T in cuBLAS), bandwidth, launches, types; part 2
the other benchmarks and tests; part 3 compute-sanitizer and Nsight Compute over the suite's kernels; part 4
convolutions, transfers and the rest; part 5 steps of networks. Each is useful wherever it is cut. Without a part the
first runs, then what fits into 520 s, and what was left out is printed. Without an NVIDIA driver the same steps run on
the fake device: a test of this command.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import shutil
import signal
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import IO

from kernels import state
from kernels.libs import cuda
from tests.gpu import suite_kernels
from tests.gpu.session import preflight, steps

PACKED = 14 << 20  # bytes of a file of traces, where it has several


def main(argv: Sequence[str] | None = None) -> int:
    """Return 0 when every step ended by itself and well, 1 when a step did not, 2 where a GPU cannot be used."""
    parser = argparse.ArgumentParser("python -m tests.gpu.session", description=__doc__, allow_abbrev=False)
    default = Path(os.environ.get("OUT") or "gpu-out")
    parser.add_argument("--part", type=int, choices=tuple(steps.PARTS), help="which of the five")
    parser.add_argument("--out", type=Path, default=default, help="folder ($OUT, else gpu-out)")
    parser.add_argument("--seconds", type=float, help="for all of it (240, 480 or 520; 520 without --part)")
    parser.add_argument("--fake", action="store_true", help="the fake device even where a GPU is")
    options = parser.parse_args(argv)
    here = cuda.driver_here() and not options.fake
    if reason := preflight.missing(here):
        print(f"gpu: {reason}", file=sys.stderr)
        return 2
    out: Path = options.out.resolve()
    if reason := unusable(out, here):
        print(f"gpu: {reason}: another folder, --out or $OUT", file=sys.stderr)
        return 2
    if here:
        os.environ.update(cupy_cache())
    seconds = options.seconds or (steps.PARTS[options.part] if options.part else steps.SESSION)
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)  # a limit from outside ends it as Ctrl-C does
    try:
        return run_parts(options.part, out, here, seconds)
    except KeyboardInterrupt:
        pack(out)
        print(f"gpu: interrupted; what was measured is in {out}", file=sys.stderr)
        return 130
    finally:
        signal.signal(signal.SIGTERM, before)


def cupy_cache() -> dict[str, str]:
    """Return the variable that moves CuPy's cache into ours where its folder below the home cannot be written.

    CuPy computes nothing without a folder for what it compiles.
    """
    folder = Path(os.environ.get("CUPY_CACHE_DIR") or os.path.expanduser("~/.cupy/kernel_cache"))
    with suppress(OSError):
        if folder.is_absolute():
            folder.mkdir(parents=True, exist_ok=True)
            if os.access(folder, os.W_OK | os.X_OK):
                return {}
    return {"CUPY_CACHE_DIR": str(state.folder() / "cupy")}


def unusable(out: Path, here: bool) -> str | None:
    """Return why the folder, which is made where it is missing, cannot be written, or holds another device's run."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=out) as file:
            file.write(bytes(4096))
    except OSError as error:
        return f"{out}: {error.strerror}"
    device = steps.device(here)
    for path in (steps.run_file(out, part) for part in steps.PARTS):
        with suppress(OSError, ValueError, KeyError, TypeError), path.open(encoding="utf-8") as lines:
            name = json.loads(lines.readline())["facts"]["device"]["name"]
            if name != device:
                return f"{path} is of {name}, not of {device}"
    return None


def run_parts(part: int | None, out: Path, here: bool, seconds: float) -> int:
    """Run a part, or part after part while there is time; return the exit code."""
    end = time.monotonic() + seconds
    codes: dict[str, int] = {}
    for number in (part,) if part else tuple(steps.PARTS):
        left = min(end - time.monotonic(), steps.PARTS[number])
        if codes and left < steps.LEAST:
            print(f"gpu: part {number} is left: --part {number}")
            continue
        with (out / f"gpu-{number}.txt").open("a", encoding="utf-8") as log:
            say = partial(_say, log)
            say(f"part {number}, {'cuda:0' if here else 'the fake device'}, {left:.0f} s")
            if here and not codes and not ready(say):
                return 2
            left = min(end - time.monotonic(), steps.PARTS[number])
            by_name = steps.take(number, out, here, left, say, log, partial(pack, out))
            codes |= {f"{name} of part {number}": code for name, code in by_name.items()}
    failed = [name for name, code in codes.items() if code]
    print(f"gpu: {', '.join(sorted(x.name for x in out.iterdir()))} in {out}")
    if failed:
        print(f"gpu: not well: {', '.join(failed)}")
    return int(bool(failed))


def pack(out: Path) -> None:
    """Pack traces, and what wrong kernels left, into few files of which none is large."""
    for path in sorted(out.glob("gpu-[1-5]*")):
        if path.suffix in (".txt", ".jsonl"):
            continue
        files = [path] if path.is_file() else [x for x in path.rglob("*") if x.is_file()]
        with _archive(out, sum(x.stat().st_size + tarfile.RECORDSIZE for x in files)) as archive:
            archive.add(path, path.name)
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def _archive(out: Path, nbytes: int) -> tarfile.TarFile:
    """Open the first archive with room for so many bytes, a new one where those that are there were cut off."""
    for number in itertools.count(1):
        path = out / f"gpu-traces{'' if number == 1 else f'-{number}'}.tar"
        if not path.exists() or path.stat().st_size + nbytes <= PACKED:
            with suppress(tarfile.ReadError):
                return tarfile.open(path, "a")
    raise AssertionError("there is always another name")


def ready(say: Callable[[str], None]) -> bool:
    """Check every package and compile the suite's kernels for this device; return whether CuPy computes here."""
    packages = preflight.check(say)
    if packages["cupy"].reason:
        say("without CuPy nothing can be measured here")
        return False
    if not packages["nvcc"].reason:  # a compiler that does not answer would keep us waiting
        began, report = time.monotonic(), suite_kernels.compile_all(packages["cupy"].facts["arch"])
        say(f"{report.compiled} of {report.files} files compiled in {time.monotonic() - began:.1f} s")
        for reason in report.failed:
            say(reason)
    return True


def _say(log: IO[str], text: str) -> None:
    """Write to the screen and to the log, at once."""
    for stream in (sys.stdout, log):
        stream.write(f"gpu: {text}\n")
        stream.flush()


if __name__ == "__main__":
    sys.exit(main())
