"""A kernel of the user's own in C: by its source or by a library, what it is called with, what is said of faults."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from kernels import build, catalog, users_c
from kernels.errors import UsageError, WrongResult
from kernels.ops.gemm.problem import Gemm
from kernels.ops.stream.problem import Stream
from kernels.setting import Setting
from kernels.users import load
from micro.worker import check, guards
from tests.kernels.rows import CPU, checked

SQUARE = Gemm(6, 7, 8)
SOURCE = """
#include <stdint.h>

void product(const float *a, const float *b, float *c, int64_t m, int64_t n, int64_t k, int64_t pad)
{
    int unused;
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            float sum = 0;
            for (int64_t l = 0; l < k; l++)
                sum += a[i * (k + pad) + l] * b[l * (n + pad) + j];
            c[i * (n + pad) + j] = sum;
        }
}

void swapped(const float *b, const float *a, float *c, int64_t m, int64_t n, int64_t k, int64_t pad)
{
    product(a, b, c, m, n, k, pad);
}

static void hidden(void) {}

void other(void) { hidden(); }
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with `mine.c`, and `mine.so` of the same; nothing here answers late."""
    monkeypatch.setattr(check, "LATE", 0.0)
    (tmp_path / "mine.c").write_text(SOURCE)
    compiler, _ = build.compiler()
    subprocess.run([compiler, "-shared", "-fPIC", "-o", tmp_path / "mine.so", tmp_path / "mine.c"], check=True)
    return tmp_path


@pytest.mark.parametrize("file", ["mine.c", "mine.so"])
@pytest.mark.parametrize("problem", [SQUARE, Gemm(3, 4, 5, ld_pad=3)])
def test_it_gets_the_addresses_and_then_the_whole_numbers(place: Path, file: str, problem: Gemm) -> None:
    assert 0 < checked(problem, load(f"{place}/{file}:product")).error < 1e-5


def test_a_wrong_one_is_refused(place: Path) -> None:
    with pytest.raises(WrongResult):
        checked(Gemm(6, 6, 6), load(f"{place}/mine.c:swapped"))


def test_a_compiled_loop_can_time_it_and_the_record_says_which_source(place: Path) -> None:
    variant = load(f"{place}/mine.c:product")
    launch = variant.prepare(SQUARE, CPU, Setting())(guards.Bench(CPU, SQUARE).views)
    assert launch.entry is not None and len(launch.entry.slots) == 3
    assert not variant.python
    assert str(variant.kernel()[0]).startswith("mine.c sha256:")


def test_words_and_fractions_are_not_passed() -> None:
    assert users_c.numbers(Gemm(2, 3, 4, "nt", alpha=2.0, ld_pad=5)) == (2, 3, 4, 5)
    assert users_c.numbers(Stream("read", 4096)) == (4096,)


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("mine.c:hidden", r"mine\.c exports no function hidden: it must not be static"),
        ("mine.so:nothing", r"mine\.so exports no function nothing: "),
        ("none.c:product", r"no file .*none\.c$"),
        ("none.so:product", r"no file .*none\.so$"),
        ("broken.c:product", r"broken\.c does not compile: .*error"),
        ("text.so:product", r":product: cannot be loaded: .*text\.so"),
    ],
)
def test_what_is_none_is_said_in_one_line(place: Path, name: str, complaint: str) -> None:
    (place / "broken.c").write_text("void product(\n")
    (place / "text.so").write_text("no library\n")
    with pytest.raises(UsageError, match=complaint) as error:
        load(f"{place}/{name}")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("file", ["mine.c", "mine.so"])
def test_a_file_without_a_function_is_asked_for_one(file: str) -> None:
    with pytest.raises(UsageError, match=f"name a function of the file, e.g. {file}:product$"):
        catalog.find("gemm", file)
