"""perf's words read: a recorded text of NumPy's step, odd names, switches; and reasons where there is no perf."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from kernels.errors import LaunchError
from macro.watching import perf
from macro.watching.perf import Sample, Sampler, Switch, parsed

TRACES = Path(__file__).parents[1] / "traces"


def test_a_recorded_step_is_read_whole() -> None:
    samples, switches, _ = parsed((TRACES / "numpy.perf").read_text("utf-8"))
    assert len(samples) == 55
    assert Counter(x.state for x in switches) == {"in": 16, "preempt": 15, "out": 1}
    assert {x.thread for x in samples} == {x.thread for x in switches} == {1234}
    assert switches[0] == Switch(1234, 39420_072045527, "in")
    assert [x.time for x in samples] == sorted(x.time for x in samples)
    module = "/usr/lib/python3/site-packages/numpy.libs/libscipy_openblas64_-32a4b2a6.so"
    assert samples[2] == Sample(1234, 39420_075052870, "sgemm_kernel_HASWELL", module)
    assert sum(x.module == "[kernel.kallsyms]" for x in samples) == 4


@pytest.mark.parametrize(
    ("symbol", "module"),
    [
        ("f", "/usr/lib/a.so"),
        ("at::add(at::Tensor const&, float)", "/usr/lib/a.so"),
        ("std::function<void ()>::operator()() const", "/usr/lib/a.so"),
        ("(anonymous namespace)::f(int)", "/usr/lib/a b.so"),
        ("f(int)", "/usr/lib/a.so (deleted)"),
        ("f", "/usr/lib (x)/a.so"),
        ("f", "[kernel.kallsyms]"),
        ("[unknown]", "[unknown]"),
        ("jit_avx2_gemm", "[JIT] tid 12"),
        ("[unknown]", "//anon"),
        ("f", "inlined"),
    ],
)
def test_symbols_and_modules_may_have_blanks_and_parentheses(symbol: str, module: str) -> None:
    (found,), none, _ = parsed(f"  12 3.5:     7f00 {symbol} ({module})\n")
    assert found == Sample(12, 3_500_000_000, symbol, module)
    assert none == []


def test_switches_are_in_out_or_pushed_aside_and_other_lines_nothing() -> None:
    text = """
    7 1.000000001: PERF_RECORD_SWITCH IN
    8 1.000000002: PERF_RECORD_SWITCH OUT preempt
    7 1.000000003: PERF_RECORD_SWITCH OUT
    failed to open /tmp/perf-7.map, continuing without symbols
    """
    samples, switches, _ = parsed(text)
    assert samples == []
    assert switches == [Switch(7, 10**9 + 1, "in"), Switch(8, 10**9 + 2, "preempt"), Switch(7, 10**9 + 3, "out")]


@pytest.fixture
def asked_again() -> Iterator[None]:
    perf.missing.cache_clear()
    yield
    perf.missing.cache_clear()


def stub(folder: Path, body: str) -> None:
    """A program called perf."""
    (folder / "perf").write_text(f"#!/bin/sh\n{body}\n")
    (folder / "perf").chmod(0o755)


def test_without_perf_it_is_said_how_to_have_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked_again: None
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert perf.missing() == "perf is not installed (Debian: apt-get install linux-perf)"


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("echo 'Permission denied: paranoid' >&2; echo more >&2; exit 255", "Permission denied: paranoid"),
        ("exit 1", "no reason given"),
    ],
)
def test_perf_that_may_not_sample_is_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked_again: None, body: str, why: str
) -> None:
    stub(tmp_path, body)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert perf.missing() == f"perf is not permitted to sample: {why}"


def test_nothing_is_left_of_a_perf_that_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stub(tmp_path, "echo first >&2; echo 'no such event' >&2; exit 255")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        sampler = Sampler(process.pid, tmp_path)
        sampler._process.wait()
        with pytest.raises(LaunchError, match="perf recorded no samples: no such event"):
            sampler.read()
        sampler.close()
        assert not [x for x in sampler.fifos if Path(x).exists()]
        process.communicate(b"\n")
