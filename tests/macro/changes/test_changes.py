"""Changes: which there are, when they apply, what they set, and that one without effect is found out."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kernels import heap
from kernels.errors import UsageError
from kernels.libs import openblas, preload
from kernels.libs import torch as torch_library
from macro import changes, networks
from macro.changes import Named, products
from macro.changes.base import BaselineProfile, ProcessSnapshot, Step
from macro.equality.proof import prove
from macro.frameworks import find
from macro.networks.base import chain
from macro.processes.job import Setting
from macro.timing.entry import Entry, Plan
from macro.watching.watch import Side

NETWORK = chain("small", "a test", 8, (12, 10, 4), rate=0.1)
APPLIES = json.loads(Path(__file__).with_name("applies.json").read_text("utf-8"))
AVX2, AVX512 = "mkl_blas_avx2_sgemm_kernel_0", "mkl_blas_avx512_sgemm_kernel_0"
OWN = """
from collections import Counter
from dataclasses import asdict, replace
from macro.changes.base import Change, Effect, Forecast
CHANGE = Change("mine", "a test", lambda step, value: None, lambda step, value: step.with_variables({"MINE": value}),
    lambda before, after: Effect(True, "seen"), lambda asked: Forecast(why="who knows"), takes="1")
"""


def step(framework: str = "pytorch", network: str | None = None, **setting: Any) -> Step:
    net = networks.find(network) if network else NETWORK
    return Step(Plan(net, 8, "step", 1.0, 1), find(framework), Setting(**setting))


def seen(**of: Any) -> ProcessSnapshot:
    plain: dict[str, Any] = {
        "symbols": Counter([AVX2] * 100),
        "maps": "",
        "variables": {},
        "faults": 9000.0,
        "faults_error": 0.0,
        "identity": {"flags": {"optimizer": "default", "mkldnn": True, "layout": "contiguous", "compile": False}},
    }
    return ProcessSnapshot(**{**plain, **of})


def before(**of: Any) -> BaselineProfile:
    plain = seen()
    told: dict[str, Any] = {name: getattr(plain, name) for name in plain.__dataclass_fields__}
    side = Side(Entry(find("pytorch"), Setting()))
    return BaselineProfile(**{**told, "side": side, "seconds": 1.0, "system": 0.2, **of})


def flags(**of: object) -> dict[str, Any]:
    return {"identity": {"flags": {**seen().identity["flags"], **of}}}


def test_a_change_is_named_as_its_file() -> None:
    for name in changes.names():
        assert changes.known(name).name == name
    assert {"heap-keep", "heap-jemalloc", "mkl-dispatch", "openblas-shim", "threads", "isa"} <= set(changes.names())


def test_what_a_change_of_ones_own_raises_is_why_it_does_not_apply(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(OWN.replace('step.with_variables({"MINE": value})', "step.nothing"))
    why = changes.find(f"{tmp_path}/mine.py=3").refused(step())
    assert why == "raises AttributeError: 'Step' object has no attribute 'nothing' (mine.py, line 5)"


def test_an_edit_is_of_a_program_where_no_variable_does_it() -> None:
    off = changes.find("onednn-off")
    assert off.edit(step(network="alexnet-r")) == "torch.backends.mkldnn.set_flags(False)"
    assert off.edit(step("tensorflow-graph")) == ""
    assert changes.find("compile").edit(step()) == "model = torch.compile(model)"
    assert changes.find("heap-keep").edit(step()) == ""


def test_a_change_of_ones_own_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(OWN)
    mine = changes.find(f"{tmp_path}/mine.py=3")
    assert mine.words == f"{tmp_path}/mine.py=3" and mine.apply(step()).setting.knobs == {"variables": {"MINE": "3"}}
    (tmp_path / "broken.py").write_text("CHANGE = 1")
    with pytest.raises(UsageError, match="defines no CHANGE"):
        changes.find(f"{tmp_path}/broken.py")
    with pytest.raises(UsageError, match="no such file"):
        changes.find(f"{tmp_path}/gone.py")
    (tmp_path / "raises.py").write_text("1 / 0")
    with pytest.raises(
        UsageError, match=r"raises.py: raises ZeroDivisionError: division by zero \(raises.py, line 1\)"
    ):
        changes.find(f"{tmp_path}/raises.py")


@pytest.mark.parametrize(("text", "where", "reason"), APPLIES["change, step, why it does not apply"])
def test_a_change_that_does_not_apply_says_why(text: str, where: dict[str, Any], reason: str) -> None:
    assert reason in (changes.find(text).refused(step(**where)) or "")


@pytest.mark.usefixtures("another_vendor")
@pytest.mark.parametrize(("text", "where", "field", "value"), APPLIES["change, step, field, value that it sets"])
def test_a_change_changes_one_thing(text: str, where: dict[str, Any], field: str, value: object) -> None:
    change, unchanged = changes.find(text), step(**where)
    assert change.refused(unchanged) is None
    made = change.apply(unchanged)
    assert getattr(made.setting, field) == value
    assert replace(made.setting, **{field: getattr(unchanged.setting, field)}) == unchanged.setting
    assert (made.plan, made.framework) == (unchanged.plan, unchanged.framework)


def test_on_its_own_vendors_processor_mkl_needs_no_other_dispatch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "vendor", lambda: "GenuineIntel")
    assert changes.find("mkl-dispatch").refused(step()) == "MKL uses these kernels on Intel processors anyway"


def test_compiled_it_is_another_row() -> None:
    assert changes.find("compile").apply(step()).framework.name == "pytorch-compile"


KEPT = {"variables": heap.variables("keep"), "faults": 0.0}


@pytest.mark.parametrize(
    ("text", "there", "evidence"),
    [
        ("heap-keep", seen(**KEPT), "page faults per step: 9000 before, 0 with the change"),
        ("onednn-off", seen(**flags(mkldnn=False)), "oneDNN off"),
        ("channels-last", seen(**flags(layout="channels_last")), "NHWC"),
        ("time-major", seen(**flags(major="time")), "time with the change"),
        ("packed", seen(**flags(recurrent="packed")), "packed with the change"),
        ("sequence", seen(**flags(recurrent="sequence")), "sequence with the change"),
        ("fused-optimizer", seen(**flags(optimizer="fused")), "fused"),
        ("foreach-optimizer", seen(**flags(optimizer="foreach")), "foreach"),
        ("update-in-wgrad", seen(**flags(update="in wgrad")), "updated in wgrad"),
        ("weights-transposed", seen(identity={"layout": "inputs x outputs"}), "stored as inputs x outputs"),
        ("compile", seen(**flags(compile=True)), "compiled"),
        ("batch=16", seen(identity={"batch": 16}), "None samples before, 16 with the change"),
        ("huge-pages", seen(variables={"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}, faults=9.0), "9 with the change"),
        ("threads=2", seen(identity={"threads": 2}), "threads None before, 2 with the change"),
        ("isa=avx2", seen(identity={"dispatch": "AVX2"}), "dispatch None, now AVX2"),
        ("isa=avx2", seen(symbols=Counter([AVX512])), "in avx2 kernels before, in avx512 with the change"),
    ],
)
def test_a_switch_that_does_nothing_is_no_effect(text: str, there: ProcessSnapshot, evidence: str) -> None:
    change = changes.find(text).change
    effect = change.took(before(), there)
    assert effect.there and evidence in effect.evidence
    assert not change.took(before(), seen()).there


def test_a_heap_whose_variables_are_there_and_whose_faults_stay_has_no_effect() -> None:
    change = changes.find("heap-keep").change
    assert not change.took(before(), seen(**{**KEPT, "faults": 8000.0})).there
    assert not change.took(before(), seen(faults=0.0)).there


def test_where_a_process_had_no_page_faults_its_variables_alone_are_the_proof() -> None:
    change, none = changes.find("heap-keep").change, before(faults=0.0)
    there = change.took(none, seen(**{**KEPT, "faults": 3000.0}))
    assert there.there and there.evidence.startswith("page faults per step: 0 before, 3000 with the change; another")
    assert not change.took(none, seen(faults=3000.0)).there


@pytest.mark.parametrize(
    ("symbols", "there"),
    [
        ({AVX512}, True),
        ({AVX2}, False),
        ({AVX2, AVX2.replace("_0", "_1"), "mkl_blas_avx2_sgemm_mscale"}, False),  # other functions of the same kernels
        (set(), False),  # nothing shows which
    ],
)
def test_another_dispatch_shows_in_the_kernels_that_products_run_in(symbols: set[str], there: bool) -> None:
    change, mapped = changes.find("mkl-dispatch").change, str(preload.library("mkl-intel"))
    assert change.took(before(), seen(maps=mapped, symbols=Counter(symbols))).there == there
    assert not change.took(before(), seen(maps="/usr/lib/libc.so.6", symbols=Counter([AVX512]))).there
    assert not change.took(before(symbols=Counter()), seen(maps=mapped, symbols=Counter([AVX512]))).there


def test_openblas_multiplies_where_its_file_is_mapped_and_mkl_is_not_seen() -> None:
    change, shim, scipy = (
        changes.find("openblas-shim").change,
        preload.library("sgemm-openblas"),
        openblas.path("scipy"),
    )
    own = Counter(["sgemm_kernel_SKYLAKEX"])
    assert change.took(before(), seen(maps=f"{shim}\n{scipy}", symbols=own)).there
    assert not change.took(before(), seen(maps=f"{shim}\n{scipy}")).there
    assert not change.took(before(), seen(maps=f"{shim}\n{openblas.path('numpy')}", symbols=own)).there
    assert not change.took(before(), seen(maps=f"{scipy}", symbols=own)).there


def test_blis_multiplies_where_it_is_mapped_and_no_product_is_left_in_mkls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(preload.WORDS, "blis", lambda: Path("/lib/libblis.so.4"))
    preload.library.cache_clear()
    change, mapped = changes.find("blis-shim").change, "/lib/libblis.so.4"
    others = Counter(["bli"] * 80)
    assert change.took(before(), seen(maps=mapped, symbols=others)).there
    assert not change.took(before(), seen(maps=mapped)).there
    assert not change.took(before(), seen(symbols=others)).there
    assert not change.took(before(), seen(maps=mapped, symbols=Counter(["bli"] * 4))).there  # too few to tell
    assert not change.took(before(symbols=Counter(["add"] * 80)), seen(maps=mapped, symbols=others)).there
    preload.library.cache_clear()


@pytest.mark.parametrize("told", [{}, {"mkldnn": "0"}])  # TensorFlow's and MXNet's
def test_without_onednn_no_sample_is_in_its_functions(told: dict[str, Any]) -> None:
    change, functions = changes.find("onednn-off").change, Counter({"dnnl::impl::cpu::x64::brgemm": 60, "add": 40})
    plain, others = {"identity": {"flags": told}}, Counter(["add"] * 50)
    assert change.took(before(symbols=functions, **plain), seen(symbols=others, **plain)).there
    assert not change.took(before(symbols=functions, **plain), seen(symbols=functions, **plain)).there
    assert not change.took(before(symbols=functions, **plain), seen(symbols=Counter(["add"] * 4), **plain)).there
    assert not change.took(before(symbols=others, **plain), seen(symbols=others, **plain)).there


def test_tensorflow_says_that_it_has_no_onednn() -> None:
    change, has = changes.find("onednn-off").change, {"identity": {"dnn": "oneDNN, on: by default"}}
    assert change.took(before(**has), seen(identity={"dnn": None})).there
    assert not change.took(before(**has), seen(**has)).there


@pytest.mark.slow
@pytest.mark.skipif(torch_library.missing() is not None, reason="PyTorch is not installed")
def test_what_the_adapter_of_pytorch_switches_is_equal_work(tmp_path: Path) -> None:
    names = ("update-in-wgrad", "weights-transposed", "foreach-optimizer")
    asked = [(find("pytorch"), changes.find(name).apply(step()).setting) for name in names]
    assert [(x.equal, x.why) for x in prove(NETWORK, 8, asked, tmp_path, lambda text: None)] == [(True, None)] * 3


@pytest.fixture
def jemalloc(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """An empty file in place of jemalloc, for tests that look its path up and never load it."""
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    library = tmp_path / "libjemalloc.so.2"
    library.touch()
    preload.library.cache_clear()
    yield library
    preload.library.cache_clear()


def test_an_allocator_is_in_effect_where_it_is_mapped(jemalloc: Path) -> None:
    change = changes.find("heap-jemalloc").change
    assert change.took(before(), seen(maps=str(jemalloc))).there
    assert not change.took(before(), seen()).there


def test_the_page_names_every_change() -> None:
    page = (Path(__file__).parents[3] / "docs/whatif.md").read_text("utf-8")
    assert not [name for name in changes.names() if f"`{name}" not in page]


def test_a_family_of_few_samples_tells_nothing() -> None:
    """The unchanged step was watched for longer."""
    change, mapped = changes.find("mkl-dispatch").change, str(preload.library("mkl-intel"))
    rare = before(symbols=Counter({AVX2: 8000, AVX512: 20}))
    assert not change.took(rare, seen(maps=mapped)).there
    assert change.took(before(symbols=Counter({AVX2: 8000, AVX512: 800})), seen(maps=mapped)).there


@pytest.mark.usefixtures("jemalloc")
@pytest.mark.parametrize("text", ["heap-jemalloc", "mkl-dispatch", "openblas-shim"])
def test_what_is_mapped_without_it_shows_nothing(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preload, "missing", lambda words, maps: None if words[0] in maps else "not mapped")
    word = {"heap-jemalloc": "jemalloc", "mkl-dispatch": "mkl-intel", "openblas-shim": "sgemm-openblas"}[text]
    effect = changes.find(text).change.took(before(maps=word), seen(maps=word, symbols=Counter([AVX512])))
    assert not effect.there and "is mapped without the change, too" in effect.evidence


def test_what_was_made_goes_before_what_was_asked_for() -> None:
    told = {"flags": {"optimizer": "fused"}, "made": {"optimizer": "default"}}
    assert not changes.find("fused-optimizer").change.took(before(), seen(identity=told)).there


def test_a_change_that_makes_no_step_is_refused() -> None:
    one = Named(replace(changes.known("heap-keep"), make=lambda step, value: None))  # type: ignore[arg-type, return-value]
    assert one.refused(step()) == "its make() returns no Step"
    assert "the last bits" in changes.known("compile").costs
    moving = step(knobs={"update": "in wgrad"})
    assert "the backward pass updates the weights" in str(changes.find("compile").refused(moving))
