"""Products in benchdnn's words."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kernels.ops.gemm.problem import Gemm
from micro.planning.benchdnn import read_products as read
from tests.conftest import Ran

LIST = '# benchdnn --matmul\n64x512:512x256n"net:fc1*2"\n1x8x4:1x4x6_n"one"\n64x512:512x256:64x256\n8x4:4x6\n'


def test_lines_are_products_each_once() -> None:
    listed = read(LIST + '12x96x64:12x64x96_n"scores*1"\n3x12x4x4:1x1x4x4\n')
    assert (listed.problems, listed.taken) == ([Gemm(64, 256, 512), Gemm(8, 6, 4)], 4)
    assert listed.left_out == {"a batch of 12": 1, "a batch of 36": 1}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("8x4:4x6\n8x4:5x6", "line 2: 8x4:5x6: the source has 4 columns, the weights 5 rows"),
        ("8x4:4x6\n--dt=bf16", "line 2: --dt=bf16: of benchdnn's options for products none is read; take the line out"),
        ("8x4:4x6\nfc1", "line 2: fc1: no product like 64x512:512x256"),
        ("0x4:4x6", "line 1: 0x4:4x6: --m 0"),
    ],
)
def test_a_line_that_is_no_product_is_refused(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        read(text)


def test_a_list_is_taken_by_products_alone(gemm: Callable[..., Ran], tmp_path: Path) -> None:
    path = tmp_path / "list.txt"
    path.write_text("--matmul\n" + LIST)
    ran = gemm("--shapes", str(path), "--list")
    assert ran.code == 0 and "list.txt: 4 of 4 products are taken, 2 different; left out: nothing." in ran.out
    assert "gemm/m:64/n:256/k:512 (differs: variant)" in ran.out
