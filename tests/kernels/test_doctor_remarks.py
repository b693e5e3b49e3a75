"""What the doctor says that may cost time, and that its commands are ones."""

from __future__ import annotations

import importlib
import shlex
from dataclasses import replace
from typing import Any

import pytest

from kernels.doctor import survey
from kernels.doctor.libraries import Library
from kernels.doctor.packages import Part
from kernels.doctor.remarks import remarks
from micro.planning.options import request


@pytest.fixture(scope="module")
def plain() -> survey.Inventory:
    """Of which nothing is to be said: MKL on its vendor's processor, the widest kernels, freed memory kept."""
    found = survey.survey()
    devices = {**found.devices, "cpu": {**found.devices["cpu"], "vendor": "GenuineIntel", "isa": ["sse", "avx512"]}}
    blas = replace(found.libraries["OpenBLAS of numpy"], here=True, kernels="SkylakeX", isa="avx512", asked=None)
    assert found.system is not None
    malloc: dict[str, Any] = {"malloc": "glibc", "malloc_variables": {"MALLOC_MMAP_MAX_": "0"}}
    system = replace(found.system, variables={}, huge_pages="madvise", **malloc)
    packages = {**found.packages, "torch": Part(True, "2.13.0")}
    libraries: dict[str, Library] = {"OpenBLAS of numpy": blas}
    return replace(found, devices=devices, libraries=libraries, system=system, packages=packages)


def cpu(found: survey.Inventory, **of: Any) -> survey.Inventory:
    return replace(found, devices={**found.devices, "cpu": {**found.devices["cpu"], **of}})


def blas(found: survey.Inventory, **of: Any) -> survey.Inventory:
    return replace(found, libraries={"OpenBLAS of numpy": replace(found.libraries["OpenBLAS of numpy"], **of)})


def system(found: survey.Inventory, **of: Any) -> survey.Inventory:
    assert found.system is not None
    return replace(found, system=replace(found.system, **of))


def test_where_nothing_is_wrong_nothing_is_said(plain: survey.Inventory) -> None:
    assert remarks(plain) == remarks(replace(plain, system=None)) == []
    assert remarks(system(plain, malloc="jemalloc", malloc_variables={})) == []


def test_each_has_a_line_and_a_command(plain: survey.Inventory) -> None:
    cases = {
        "this processor is AuthenticAMD's": cpu(plain, vendor="AuthenticAMD"),
        "it takes Zen kernels (avx2), and there is avx512": blas(plain, kernels="Zen", isa="avx2"),
        "OPENBLAS_CORETYPE=Haswell chooses its kernels": blas(plain, kernels="Haswell", asked="Haswell"),
        "ONEDNN_MAX_CPU_ISA=AVX2 limits": system(plain, variables={"ONEDNN_MAX_CPU_ISA": "AVX2"}),
        "large freed blocks back": system(plain, malloc_variables={}),
        "transparent ones are off": system(plain, huge_pages="never"),
    }
    for said, found in cases.items():
        ((_, text),) = remarks(found)
        assert said in text, text
        words = shlex.split(text[text.index("python -m ") :].partition(", once")[0])[2:]
        definition = importlib.import_module(words[0]).BENCHMARK
        request(definition, words[0].partition(".")[2], words[1:], raising=True)  # which raises where it is none


def test_of_another_architecture_and_without_mkl_nothing_is_said_of_it(plain: survey.Inventory) -> None:
    assert remarks(cpu(plain, vendor="ARM", isa=["neon"])) == []
    absent = {**plain.packages, "torch": Part(False)}
    assert remarks(replace(cpu(plain, vendor="AuthenticAMD"), packages=absent)) == []
