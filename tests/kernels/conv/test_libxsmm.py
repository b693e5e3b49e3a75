"""libxsmm's convolution, where its headers are: right in three passes, released, refused by name; else a reason."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kernels.catalog import find
from kernels.devices import open_device
from kernels.libs import libxsmm
from kernels.ops.conv import libxsmm_rows
from kernels.ops.conv.problem import Conv
from kernels.setting import Setting
from micro.worker import check

CPU = open_device("cpu")
ROW = find("conv", "libxsmm")
FORMS: tuple[dict[str, int], ...] = (
    {"pad": 1},
    {"c": 64, "k": 64, "pad": 1},
    {"r": 2, "s": 4},
    {"stride": 2, "pad": 1},
    {"c": 3, "k": 64, "h": 32, "w": 32, "r": 7, "s": 7, "stride": 2, "pad": 3},
    {"h": 1, "w": 1, "r": 1, "s": 1},
    {"c": 48, "k": 49, "pad_top": 2, "pad_bottom": 2, "pad_left": 1, "pad_right": 1},
)
here = pytest.mark.skipif(libxsmm.missing() is not None, reason=str(libxsmm.missing()))


def problem(direction: str = "forward", **fields: Any) -> Conv:
    return Conv(**{"n": 2, "c": 12, "h": 9, "w": 8, "k": 10, "r": 3, "s": 3, **fields}, direction=direction)


@here
@pytest.mark.parametrize("fields", FORMS, ids=str)
@pytest.mark.parametrize("direction", libxsmm_rows.PASSES)
def test_rows_are_right(direction: str, fields: dict[str, int]) -> None:
    one = problem(direction, **fields)
    check.check(CPU, one, ROW, ROW.prepare(one, CPU, Setting()), 5)


@here
def test_a_layer_is_released_with_its_last_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    released = []
    library = libxsmm_rows.build.load(libxsmm_rows.SOURCE, libxsmm.FLAGS)

    class Watched:
        def __getattr__(self, name: str) -> Any:
            return released.append if name == "libxsmm_release" else getattr(library, name)

    monkeypatch.setattr(libxsmm_rows.build, "load", lambda *given: Watched())
    monkeypatch.setattr(libxsmm_rows.build, "address", lambda *given: 1)
    one = problem(pad=1)
    bind = ROW.prepare(one, CPU, Setting())
    launch = bind([np.zeros(x.shape, "f4") for x in one.operands()])
    del bind
    gc.collect()
    assert not released and launch.workspace > sum(x.nbytes for x in one.operands())
    del launch
    gc.collect()
    assert len(released) == 1


@here
def test_it_names_the_processor_it_generates_code_for() -> None:
    name, isa = ROW.kernel()
    assert isa is None and name is not None and name.startswith("libxsmm for ") and "copies" in name


@pytest.mark.parametrize(
    ("fields", "option"),
    [
        ({"groups": 2}, "--groups 1"),
        ({"dilation": 2}, "--dilation 1"),
        ({"layout": "nhwc"}, "--layout nchw"),
        ({"pad_top": 1}, "--pad-bottom as --pad-top"),
        ({"pad_top": 1, "pad_bottom": 1}, "--pad 1"),
    ],
)
def test_what_is_refused_names_the_remedy(fields: dict[str, Any], option: str) -> None:
    assert option in str(ROW.accepts(problem(**fields)))
    assert ROW.roles == ()


def test_padding_of_rows_alone_is_wrong_forward_and_of_the_filter() -> None:
    rows_alone = {"pad_top": 2, "pad_bottom": 2}
    assert [ROW.accepts(problem(each, **rows_alone)) is None for each in libxsmm_rows.PASSES] == [False, True, False]


def test_without_its_header_the_package_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(libxsmm, "FOLDERS", (str(tmp_path),))
    monkeypatch.delenv("CPATH", raising=False)
    assert "apt-get install libxsmm-dev" in str(libxsmm.missing())
    (tmp_path / libxsmm.HEADER).touch()
    assert libxsmm.missing() is None
    monkeypatch.setattr(libxsmm, "FOLDERS", ())
    monkeypatch.setenv("CPATH", f"/nowhere:{tmp_path}")
    assert libxsmm.missing() is None
