"""From a command line to its contests and back, for the command, Python and `micro.ab`, on one device or several."""

from __future__ import annotations

import importlib
import itertools
import json
import re
import shlex
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import fields, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import micro
from kernels import devices
from kernels.catalog import find
from kernels.devices.base import Limits
from kernels.errors import Unavailable, UsageError, choice
from kernels.libs import cuda
from kernels.ops.gemm.problem import Gemm
from kernels.setting import Setting
from micro import ab, ceiling, selftest
from micro.arms.server import Arm
from micro.command.line import main
from micro.planning.axes import along
from micro.planning.benchmark import Request, outside_caches
from micro.planning.contest import Case, parse
from micro.planning.options import removed, request
from micro.planning.repeat import Repeat
from reports import store
from tests.conftest import Ran
from tests.micro.plans import BENCHMARKS, contests

REFERENCE = Path(__file__).parents[3] / "reports/reference"
DEVICES = ("cpu", "fake:cuda")


pytestmark = pytest.mark.usefixtures("four_cores")


@pytest.mark.parametrize("name", BENCHMARKS)
def test_the_command_python_and_ab_plan_the_same(
    name: str, capsys: pytest.CaptureFixture[str], in_process: Callable[..., Ran]
) -> None:
    listed = in_process(capsys, main, BENCHMARKS[name], name, ["--list"]).out.splitlines()
    names = [line.partition(" (differs")[0] for line in listed if not line.startswith(" ")]
    assert names == [contest.name for contest in micro.plan(name).contests]
    cases = dict.fromkeys(line.split()[0] for line in listed if line.startswith(" "))
    assert [*cases] == [case["name"] for case in Arm("fake").plan([f"micro.{name}"])["cases"]]


def repeated(name: str, line: str) -> list[Case]:
    """The cases that a line of a benchmark measures."""
    return [case for contest in contests(name, *shlex.split(line)[3:]) for case in contest.cases]


@pytest.mark.parametrize("device", DEVICES)
def test_ceilings_and_selftests_are_repeated_whole(
    device: str, capsys: pytest.CaptureFixture[str], in_process: Callable[..., Ran]
) -> None:
    case = replace(contests("gemm", "--transpose", "--device", device)[0].cases[0], role="ceiling")
    words = shlex.split(Repeat("gemm").line(case))[3:]
    assert words == ([] if device == "cpu" else ["--device", device])
    ran = in_process(capsys, ceiling.main, [*words, "--list"])
    assert ran.code == 0 and "peak (differs:" in ran.out
    assert Repeat("selftest").line(replace(case, role="measured")) == "python -m micro.selftest"


def test_an_axis_that_the_default_question_does_not_read_is_not_dropped() -> None:
    for line in ("update --part wgrad", "gather --does step", "optimizer --lr 0.5", "memory --pause 1"):
        name, *words = line.split()
        found = BENCHMARKS[name]
        assert found.default and found.default not in request(found, name, words, raising=True)[1].flags


REMOVED = re.compile(r"--variant \S*(nnpack|-dft)")  # rows that committed files have and the tables no longer
COMMITTED = {path.name: path for path in sorted(REFERENCE.rglob("*.jsonl"))}


def understood(line: str) -> bool:
    """Whether the command of a line takes its words."""
    _, _, module, *words = shlex.split(line)
    if module == "micro.ab":
        return bool(ab.parser().parse_args(words).words)
    if module == "macro":
        own: Any = importlib.import_module(f"macro.{words[0]}")
        return bool(own.parser().parse_args(words[1:]).network)
    if module in ("micro.ceiling", "micro.selftest"):
        own = {"micro.ceiling": ceiling, "micro.selftest": selftest}[module]
        return own.parser().parse_args(words) is not None
    return bool(repeated(module.removeprefix("micro."), line))


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMITTED)
def test_every_line_of_a_committed_run_file_is_understood(name: str) -> None:
    for line in sorted({result.repeat for result in store.read(COMMITTED[name]).results} - {""}):
        with pytest.raises(UsageError) if REMOVED.search(line) else nullcontext():
            assert understood(line), line


@pytest.mark.parametrize("line", ["python -m micro.gemm --mm 4", "python -m macro run fcn-s --framework x"])
def test_a_line_that_is_not_understood_is_found(line: str) -> None:
    with pytest.raises((SystemExit, UsageError)):
        understood(line)


# Options of the release before


@pytest.mark.parametrize("line", [x for x in removed().values() if x.startswith("type python -m micro.")])
def test_what_is_typed_for_a_removed_option_is_planned(line: str) -> None:
    module, *words = shlex.split(line.partition(", or ")[0])[3:]
    assert contests(module.removeprefix("micro."), *words)


# Names of axes and of variants

SMALL = Gemm(8, 8, 8)


def test_other_words_name_axes_that_there_are() -> None:
    for benchmark in BENCHMARKS.values():
        named = {axis for axes in benchmark.problem.called.values() for axis in axes}
        assert named <= {axis.name for axis in fields(benchmark.problem)}
        assert not benchmark.problem.called.keys() & {axis.name for axis in fields(benchmark.problem)}
    assert choice("abc", ("xyz", "axx", "zzz", "wbc1"), 2) == "choose from wbc1, axx and 2 more", "the nearest first"
    assert choice("abc", ("xyz", "axx"), 2) == "choose from xyz, axx"


SIZE = ("--m", "8", "--n", "8", "--k", "8")
CPU, FAKE, GPU = Setting(), Setting(device="fake"), Setting(device="fake:cuda")
GONE = "the driver was eaten"
Run = Callable[..., Ran]


def test_what_is_missing_is_told_without_opening_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from kernels.devices import cuda as gpu

    monkeypatch.setattr(gpu, "missing", lambda: GONE)
    monkeypatch.setattr(gpu, "open_device", lambda index: pytest.fail("opened"))
    assert devices.missing("cuda:0") == GONE
    assert devices.missing("cpu") is devices.missing("fake:cuda") is None
    with pytest.raises(UsageError, match=r"^--device banana: no device kind 'banana'; choose from "):
        devices.missing("banana")


def test_a_device_has_a_name_and_runs_its_kernels() -> None:
    """An open device goes by the name that cases have; so does one that plays another, where it is typed."""
    kernels = {"cpu": "cpu", "cuda:7": "cuda", "cuda": "cuda", "fake": "cpu", "fake:cpu": "cpu", "fake:cuda": "cuda"}
    assert {name: devices.kind_of(name).kernels for name in kernels} == kernels
    for name in ("cpu", "cpu:0", "fake", "fake:cpu", "fake:cuda"):
        assert devices.open_device(name).name == name
        assert name.startswith("cpu") or devices.kind_of(name).first == name


def test_rows_are_looked_for_by_the_devices_that_run_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """A table is not always called as the file of its device is."""
    from kernels.devices import cuda as gpu

    assert [devices.running(kernels) for kernels in ("cpu", "cuda")] == [devices.kind_of("cpu"), gpu.KIND]
    assert devices.running("nowhere") is None
    row = replace(find("gemm", "cublas"), name="lost", device="nowhere")
    monkeypatch.setattr("micro.planning.benchmark.find", lambda op, name: row)
    assert of_products(("lost",), CPU).case(SMALL, "lost").skip == "a kernel for nowhere: no device here runs it"


def known(monkeypatch: pytest.MonkeyPatch, **more: Any) -> None:
    """As if a card were such a device."""
    kind = replace(devices.kind_of("cuda:0"), **more)
    monkeypatch.setattr("micro.planning.benchmark.kind_of", lambda name: kind)
    monkeypatch.setattr("micro.planning.benchmark.missing", lambda name: None)
    outside_caches.cache_clear()


def test_a_device_that_cannot_be_opened_is_planned_as_a_usual_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its `missing` need not know everything; one without caches still has a memory."""

    def gone(name: str) -> None:
        raise Unavailable(GONE)

    bare = SimpleNamespace(limits=lambda: Limits(1 << 30, 1, ()), describe=lambda: {"model": "bare"})
    for name, more, opened, mib in (("cuda:0", {}, gone, 256), ("bare:0", {"caches": ()}, lambda name: bare, 128)):
        known(monkeypatch, **more)
        monkeypatch.setattr("micro.planning.benchmark.open_device", opened)
        assert outside_caches(name) == mib << 20
    outside_caches.cache_clear()


def test_a_short_queue_still_takes_a_call() -> None:
    """A launch of the ladder is a quarter of it, but never nothing."""
    from micro import launch

    axes = {"kernel": ("gemm",), "chain": (1,)}
    one = Request("launch", axes, ("cuda-c",), (GPU,), frozenset(), frozenset({"variant"}))
    for queue, calls in ((3, 1), (0, launch.CHAIN), (512, 128)):
        with pytest.MonkeyPatch.context() as patch:
            known(patch, queue=queue)
            assert launch.ladder(one)[0].name == f"ladder/launch/kernel:gemm/chain:{calls}"
    outside_caches.cache_clear()


def of_products(variants: tuple[str, ...], *settings: Setting, absent: dict[str, str] | None = None) -> Request:
    axes = {"m": (8,), "n": (8,), "k": (8,)}
    return Request("gemm", axes, variants, settings, frozenset(), absent=absent or {})


@pytest.mark.parametrize(
    ("variants", "settings", "pairs"),
    [
        (("openblas", "cublas"), (CPU, GPU), [("openblas", CPU), ("cublas", GPU)]),
        (("openblas", "cublas"), (GPU, CPU), [("cublas", GPU), ("openblas", CPU)]),
        (("openblas",), (CPU, FAKE), [("openblas", CPU), ("openblas", FAKE)]),
        (("openblas", "cublas"), (CPU,), [("openblas", CPU), ("cublas", CPU)]),  # to be skipped with a reason
        (("openblas", "cublas"), (CPU, FAKE), [("openblas", CPU), ("cublas", CPU), ("openblas", FAKE)]),
        (
            ("openblas", "cublas"),
            (CPU, Setting(2), GPU),
            [("openblas", CPU), ("openblas", Setting(2)), ("cublas", GPU)],
        ),
    ],
)
def test_each_variant_goes_where_it_runs(
    variants: tuple[str, ...], settings: tuple[Setting, ...], pairs: list[tuple[str, Setting]]
) -> None:
    assert of_products(variants, *settings).pairs() == pairs


def test_why_a_case_is_skipped() -> None:
    both = of_products(("openblas", "cublas"), CPU, Setting(device="cuda:0"), absent={"cuda:0": GONE})
    assert both.case(SMALL, "openblas").skip is None
    assert both.case(SMALL, "cublas", Setting(device="cuda:0")).skip == GONE
    assert both.case(SMALL, "cublas").skip == "a kernel for cuda: --device cuda:0"
    assert both.case(SMALL, "openblas", GPU).skip == "a kernel for cpu: --device cpu"
    assert of_products(("cublas",), GPU).case(SMALL, "cublas").skip is None  # it plays what is not here
    refused = of_products(("naive",), FAKE).case(Gemm(4096, 4096, 4096), "naive").skip
    assert refused is not None and "slow" in refused  # … and refuses what that would


def test_along_devices() -> None:
    settings = tuple(Setting(threads, device=device) for device in ("cpu", "fake") for threads in (1, 2))
    contests = along(of_products(("openblas",), *settings), [SMALL], "device")
    assert [x.differs for x in contests] == ["device", "device"]
    assert [[y.setting for y in x.cases] for x in contests] == [list(settings[::2]), list(settings[1::2])]
    assert len({x.name for x in contests}) == 2


@pytest.mark.parametrize("field", ["isa", "data", "heap"])
def test_along_what_libraries_take_and_operands_hold(field: str) -> None:
    values = {"isa": ("default", "avx2"), "data": ("normal", "zeros"), "heap": ("default", "keep")}
    settings = [Setting(**dict(zip(values, some, strict=True))) for some in itertools.product(*values.values())]
    contests = along(of_products(("openblas", "naive"), *settings), [SMALL, Gemm(9, 9, 9)], field)
    assert len({x.name for x in contests}) == len(contests) == 2 * 2 * 2 * 2
    for contest in contests:
        assert contest.differs == field
        assert len({getattr(x.setting, field) for x in contest.cases}) == len(contest.cases) == 2
        assert len({(x.problem, x.variant) for x in contest.cases}) == 1


# Through the command line


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch) -> None:
    """No GPU here, for one reason."""
    from kernels.devices import cuda as gpu

    monkeypatch.setattr(gpu, "missing", lambda: GONE)
    monkeypatch.setattr(cuda, "missing", lambda: GONE)


def measured(ran: Ran) -> list[dict[str, Any]]:
    return [x for x in json.loads(ran.out)["results"] if x["role"] == "measured"]


@pytest.mark.parametrize("devices", ["fake,cuda:0", "cuda:0,fake"])
def test_a_device_that_is_not_here_costs_its_cases_alone(gemm: Run, without: None, devices: str) -> None:
    ran = gemm(*SIZE, "--device", devices, "--variant", "openblas,naive,cublas", "--json", "-")
    told = {(x["variant"], x["device"]): (x["status"], x["reason"]) for x in measured(ran)}
    assert ran.code == 0
    assert told == {
        ("openblas", "fake"): ("ok", None),
        ("naive", "fake"): ("ok", None),
        ("cublas", "cuda:0"): ("skipped", GONE),
    }
    assert sum(x["ratio"] is not None for x in json.loads(ran.out)["comparisons"]) == (devices[0] == "f")


def listed(ran: Ran) -> list[Setting]:
    return [parse(line.split()[0]).setting for line in ran.out.splitlines() if line.startswith("  ")]


def test_settings_are_those_that_a_device_has(gemm: Run) -> None:
    """A GPU has no threads of ours, is cold as a whole, and multiplies any data."""
    ran = gemm(*SIZE, "--threads", "2", "--device", "fake,fake:cuda", "--variant", "openblas,cublas", "--list")
    assert listed(ran) == [Setting(2, device="fake"), Setting(device="fake:cuda")]
    words = ("--cold", "all", "--data", "zeros,normal", "--device", "fake:cuda", "--variant", "cublas", "--list")
    wanted = [Setting(cold=("a", "b", "c"), device="fake:cuda", data=x) for x in ("zeros", "normal")]
    assert listed(gemm(*SIZE, *words)) == wanted


def test_two_devices_are_measured_against_each_other(gemm: Run) -> None:
    words = ("--device", "fake,fake:cuda", "--variant", "openblas,cublas,cuda-tiled")
    ran = gemm(*SIZE, *words, "--budget", "1s", "--json", "-")
    told = json.loads(ran.out)
    assert ran.code == 0
    found = [" ".join((x["variant"], x["device"], x["status"])) for x in measured(ran)]
    assert found == ["openblas fake ok", "cublas fake:cuda ok", "cuda-tiled fake:cuda ok"]
    assert [bool(x["ratio"]) for x in told["comparisons"]] == [True, True]
    bounds = {(x["op"], x["device"]) for x in told["results"] if x["role"] == "ceiling"}
    assert bounds == {(op, device) for op in ("fma", "stream") for device in ("fake", "fake:cuda")}
    for result in measured(ran):
        again = gemm(*result["repeat"].split()[3:], "--list")
        assert again.out.splitlines()[1].strip() == result["name"]


def test_by_default_each_device_has_its_own_variants(gemm: Run) -> None:
    ran = gemm(*SIZE, "--device", "fake,fake:cuda", "--list")
    cases = [parse(line.split()[0]) for line in ran.out.splitlines() if line.startswith("  ")]
    by_device = {d: [x.variant for x in cases if x.setting.device == d] for d in ("fake", "fake:cuda")}
    assert by_device["fake"][0] == "openblas" and by_device["fake:cuda"][0] == "cublas"
    assert not set(by_device["fake"]) & set(by_device["fake:cuda"])
    assert not [line for line in ran.out.splitlines() if "skipped: a kernel for" in line]


@pytest.mark.parametrize("question", [("--transpose",), ("--crossover",), ("--net", "lenet"), ("--types",)])
def test_a_question_is_put_to_each_device(gemm: Run, question: tuple[str, ...]) -> None:
    alone = [gemm(*question, "--device", device, "--list").out for device in ("fake", "fake:cuda")]
    both = gemm(*question, "--device", "fake,fake:cuda", "--list")
    assert both.code == 0 and all(alone)
    cases = [line for line in both.out.splitlines() if line.startswith("  ")]
    assert cases == [line for out in alone for line in out.splitlines() if line.startswith("  ")]
    contests = [line for line in both.out.splitlines() if not line.startswith("  ")]
    assert len(set(contests)) == len(contests)
