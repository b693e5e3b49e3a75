"""Which contests share a picture, which field makes lines, and what cases are called."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from reports.figures import _groups, _sweep
from tests.reports.made import case, contest, convolution, run


@pytest.mark.parametrize(
    ("cases", "field", "titles"),
    [
        ([{"m": m, "k": 8} for m in (1, 2, 4)], "m", [""]),
        ([{"m": m, "k": k} for m in (1, 2, 4) for k in (8, 16)], "m", ["K = 8", "K = 16"]),
        ([{"m": m, "k": k} for m in (1, 2) for k in (8, 16, 32)], "k", ["M = 1", "M = 2"]),
        ([*({"m": m, "k": 8} for m in (1, 2, 4)), {"m": 1, "k": 9}], "m", ["K = 8", "K = 9"]),
        ([{"m": m} for m in (1, 2)], None, []),
        ([{"m": m} for m in (1, 2, 4, 4)], None, []),
        ([{"m": m, "k": m} for m in (1, 2, 4)], None, []),
        ([{"trans": t} for t in ("nn", "nt", "tt")], None, []),
        ([{"m": m, "variant": f"v{v}"} for v in range(12) for m in (1, 2, 4)], "m", [""]),
        ([{"m": m, "variant": f"v{v}"} for v in range(13) for m in (1, 2, 4)], None, []),
    ],
)
def test_the_field_that_makes_lines(cases: list[dict[str, Any]], field: str | None, titles: list[str]) -> None:
    made = _sweep.sweep(cases)
    assert (made.field if made else None) == field
    if titles:
        assert made is not None and [x.title for x in made.facets] == titles


@pytest.mark.parametrize(
    ("questions", "told"),
    [
        (["is it?"], "Is it?"),
        (["does openblas pay?", "does mkl pay?"], "Does each variant pay?"),
        (["which at gemm/m:1/k:8?", "which at gemm/m:2/k:8?"], "Which at each size?"),
        (["which at gemm/m:1/k:8?"], "Which at this size?"),
        (["at M = 1?", "at M = 2?"], "At M = …?"),
        (["a b c", "a b"], "A b …"),
    ],
)
def test_one_question_for_all(questions: list[str], told: str) -> None:
    made = [replace(contest(8, v), question=q) for q, v in zip(questions, ("openblas", "mkl"), strict=False)]
    (group,) = _groups.groups(run(*made))
    assert group.question == told


def test_pairs_in_words() -> None:
    first, second = _groups.facts(case(8)), _groups.facts(case(8, "nt"))
    cold = _groups.facts(case(8, cold=("a", "b")))
    avx2 = _groups.facts(case(8, isa="avx2"))
    assert _groups.pair_label(second, first, ["variant", "m"]) == "openblas, M = 8: nt / nn"
    assert _groups.pair_label(second, first, ["variant", "m"], short=True) == "openblas, M = 8"
    assert _groups.pair_label(second, first, [], short=True) == "nt / nn"
    assert _groups.contrast(cold, first) == ("cold a+b", "warm")
    assert _groups.contrast(avx2, first) == ("avx2", "default isa")
    assert _groups.said("threads", 1) == "1 thread" and _groups.said("ld_pad", 16) == "ld_pad 16"


@pytest.mark.parametrize(("axes", "told"), [({}, "size 4096"), ({"size": "bytes"}, "size 4 KiB")])
def test_a_number_is_one_of_bytes_where_the_record_says_so(axes: dict[str, str], told: str) -> None:
    known = _groups.facts(case(8, problem={"size": 4096}, axes=axes))
    assert _groups.said("size", known["size"]) == told


def test_a_word_stands_first_and_without_its_name() -> None:
    known = _groups.facts(case(8, problem={"count": 8, "mode": "train"}, axes={"mode": "word"}))
    assert _groups.case_label(known, ["variant", "mode", "count"]) == "openblas, train, count 8"
    assert list(known)[:3] == ["variant", "mode", "count"]


def test_convolutions_are_named_by_their_layer() -> None:
    every = [convolution(edge, "direct", 1.0, direction=each) for edge in (3, 5) for each in ("forward", "dgrad")]
    assert _groups.case_labels(every) == [f"{e}×{e}, 4→8, 9×9, {each}" for e in (3, 5) for each in ("forward", "dgrad")]
    assert _groups.case_labels([convolution(3, "direct", 1.0, pad=pad) for pad in (0, 1)]) == ["pad 0", "pad 1"]
