"""Axis values, names that parse back, contests of equal work: the plan, before anything is opened."""

from __future__ import annotations

import json
import random
from dataclasses import MISSING, dataclass, fields, replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from kernels.catalog import problem_type
from kernels.devices.base import Limits
from kernels.errors import UsageError
from kernels.ops.fma import Fma
from kernels.ops.gemm.problem import Gemm
from kernels.ops.stream import Stream
from kernels.problem import Operand, Problem, axis
from kernels.setting import Setting
from micro.measuring.checks import refuse_size
from micro.planning.axes import along, by_variant, problems, values
from micro.planning.benchmark import Request
from micro.planning.contest import Case, Contest, parse

SMALL = Gemm(8, 8, 8)
SETTINGS = (Setting(), Setting(2))


def test_values() -> None:
    for text, kind, found in (
        ("5", int, (5,)),
        ("64:1024:*2", int, (64, 128, 256, 512, 1024)),
        ("64:1000:*2", int, (64, 128, 256, 512)),
        ("1:9:+4", int, (1, 5, 9)),
        ("1:9:4", int, (1, 5, 9)),
        ("7:7:*2", int, (7,)),
        ("1,8:32:*2,5", int, (1, 8, 16, 32, 5)),
        ("0.5,1e-3,-2", float, (0.5, 1e-3, -2.0)),
        ("0:1:+.25", float, (0, 0.25, 0.5, 0.75, 1)),
        ("nn,nt", str, ("nn", "nt")),
    ):
        assert values(text, kind, "--m") == found
    with pytest.raises(UsageError):
        values("64:32:*2", int, "--m")


BAD = "five 1.5 1, 0x10 1:2 1:2:3:4 1:8: 1:8:* 1:8:*1 1:8:+0 1:8:-1 0:8:*2 1:8:*x"


@pytest.mark.parametrize(
    ("text", "kind"), [("", int), ("1 2", int), *((x, int) for x in BAD.split()), ("x", float), ("1:2:+0", float)]
)
def test_bad_values_are_refused_with_option_and_remedy(text: str, kind: type) -> None:
    with pytest.raises(UsageError, match=r"--m .*is neither a (whole )?number nor a range like"):
        values(text, kind, "--m")


def some_case(rng: random.Random) -> Case:
    beta, ld_pad = rng.choice((0.0, 1.0, -1.0, 0.75)), rng.choice((0, 0, 16))
    alpha, sizes = rng.choice((1.0, 2.0, -0.5, 0.1, 1e-7, 2.5e8)), [rng.randint(1, 30000) for _ in "mnk"]
    problem: Problem = rng.choice(
        (
            Gemm(*sizes, rng.choice(("nn", "nt", "tn", "tt")), alpha=alpha, beta=beta, ld_pad=ld_pad),
            Stream(rng.choice(("read", "copy", "triad")), 64 * rng.randint(1, 1 << 20)),
            Fma(rng.choice(("sse", "avx2")), rng.randint(1, 1 << 20), rng.choice((1, 10))),
        )
    )
    cold = tuple(operand.name for operand in problem.operands() if rng.random() < 0.3)
    variants = ("openblas", "kept-transpose:8", "transpose-then-nn:somatcopy", "my.module:ROW", "c")
    isa = "default" if isinstance(problem, Fma) else rng.choice(("default", "avx2", "SkylakeX"))
    words = isa, rng.choice(("normal", "zeros", "integers"))
    device, heap = rng.choice(("cpu", "fake:cuda")), rng.choice(("default", "keep"))
    setting = Setting(rng.randint(1, 64), cold, device, *words, heap=heap, workspace=rng.choice((None, 512, 8 << 20)))
    return Case(problem, rng.choice(variants), setting)


CASES = [some_case(random.Random(seed)) for seed in range(500)]


def test_names_are_unique_and_parse_back() -> None:
    for case in CASES:
        assert parse(case.name) == case
    assert len({case.name for case in CASES}) == len(set(CASES)) > 400


@pytest.mark.parametrize("field", [field.name for field in fields(Gemm)])
def test_every_field_is_in_the_name(field: str) -> None:
    other = {"trans": "nt", "alpha": 2.0, "beta": 2.0}.get(field, 9)
    if field != "dtype":  # there is only one yet
        assert replace(SMALL, **{field: other}).name != SMALL.name


def test_defaults_are_not_in_the_name() -> None:
    assert Case(SMALL, "openblas").name == "gemm/m:8/n:8/k:8/variant:openblas/threads:1"
    cold = Case(replace(SMALL, trans="nt", beta=1.0), "numpy", Setting(2, ("a", "b")))
    assert cold.name == "gemm/m:8/n:8/k:8/trans:nt/beta:1/variant:numpy/threads:2/cold:a+b"
    other = Case(SMALL, "x", Setting(isa="avx2", data="zeros", heap="keep", workspace=8 << 20))
    assert other.name == "gemm/m:8/n:8/k:8/variant:x/threads:1/isa:avx2/data:zeros/heap:keep/workspace:8388608"


@pytest.mark.parametrize("value", [1 / 3, 1.0000001, 1234567.0, 0.1 + 0.2])
@pytest.mark.parametrize("variant", ["my/kernels.py:ROW", "/a/b.py:ROW", "a%b/c.py:ROW", "50%2F.py:ROW"])
def test_names_hold_floats_to_the_last_digit_and_paths(value: float, variant: str) -> None:
    case = Case(replace(SMALL, alpha=value), variant)
    assert parse(case.name) == case


def test_unequal_work_and_equal_names_are_refused() -> None:
    cases = (Case(SMALL, "openblas"), Case(Gemm(8, 8, 9), "openblas"))
    with pytest.raises(UsageError, match="unequal work"):
        Contest("c", "?", "k", cases)
    assert Contest("c", "?", "work: differs (k)", cases).comparisons == ((0, 1),)
    same = (Case(Gemm(8, 16, 32), "openblas"), Case(Gemm(32, 16, 8, "tt"), "openblas"))
    assert Contest("c", "?", "shape", same).cases == same
    with pytest.raises(ValueError, match="two cases have the same name"):
        Contest("c", "?", "variant", (Case(SMALL, "openblas"), Case(SMALL, "openblas")))


def test_pairs_are_each_against_the_first_unless_named() -> None:
    cases = tuple(Case(replace(SMALL, trans=trans), "openblas") for trans in ("nn", "nt", "tn"))
    assert Contest("c", "?", "trans", cases).comparisons == ((0, 1), (0, 2))
    assert Contest("c", "?", "trans", cases, ((2, 1),)).comparisons == ((2, 1),)


def asked(variants: tuple[str, ...], settings: tuple[Setting, ...] = (Setting(),), **axes: Any) -> Request:
    return Request("gemm", {"m": (8,), "n": (8,), "k": (8,), **axes}, variants, settings, frozenset())


def test_problems_are_the_product_of_the_axes() -> None:
    found = problems(Gemm, {"m": (1, 2), "n": (3,), "k": (4,), "trans": ("nn", "nt")})
    assert found == [Gemm(m, 3, 4, trans) for m in (1, 2) for trans in ("nn", "nt")]
    with pytest.raises(UsageError, match="--ld-pad -1: must be 0 or more"):
        problems(Gemm, {"m": (1,), "n": (1,), "k": (1,), "ld_pad": (-1,)})


def test_by_variant_makes_a_contest_of_each_problem() -> None:
    wanted = asked(("openblas", "naive"), m=(8, 9))
    first, second = by_variant(wanted, problems(Gemm, wanted.axes))
    assert [case.variant for case in first.cases] == ["openblas", "naive"]
    assert {case.problem for case in second.cases} == {Gemm(9, 8, 8)}
    assert (first.differs, first.name) == ("variant", "gemm/m:8/n:8/k:8")
    (contest,) = by_variant(asked(("openblas", "naive"), SETTINGS), [SMALL])
    assert contest.differs == "variant and threads"
    found = [(case.setting.threads, case.variant) for case in contest.cases]
    assert found == [(1, "openblas"), (1, "naive"), (2, "openblas"), (2, "naive")]


def test_along_joins_what_agrees_in_everything_else() -> None:
    wanted = asked(("openblas", "naive"), m=(8, 9), trans=("nn", "nt", "tn"))
    contests = along(wanted, problems(Gemm, wanted.axes), "trans")
    assert len(contests) == 4  # two sizes, two variants
    for contest in contests:
        assert contest.differs == "trans"
        assert [case.problem.trans for case in contest.cases] == ["nn", "nt", "tn"]  # type: ignore[attr-defined]
        assert len({case.variant for case in contest.cases}) == 1
    assert len({contest.name for contest in contests}) == 4
    (sizes,) = along(asked(("openblas",), m=(8, 16)), [Gemm(m, 8, 8) for m in (8, 16)], "m")
    assert sizes.differs == "work: differs (m)"
    first, second = along(asked(("openblas", "naive"), SETTINGS), [SMALL], "threads")
    assert first.differs == second.differs == "threads"
    assert [case.setting.threads for case in first.cases] == [1, 2]
    assert {case.variant for case in second.cases} == {"naive"}


def test_a_case_that_cannot_run_is_planned_with_its_reason() -> None:
    case = asked(("naive",)).case(Gemm(4096, 4096, 4096), "naive")
    assert case.skip is not None and "slow" in case.skip
    assert asked(("naive",)).case(SMALL, "naive").skip is None


# What sets the size of a problem

# By operation: fields of a problem with few elements where its first choices and defaults are not enough, and the axes
# that set its size.
AXES = json.loads((Path(__file__).parent / "size_axes.json").read_bytes())


def small(op: str) -> Problem:
    """An operation's problem with few elements, its first choices and its defaults."""
    kind, given = problem_type(op), dict(AXES[op].get("fields", {}))
    for field in fields(kind):
        if field.default is MISSING and field.name not in given:
            first = field.metadata["choices"]
            given[field.name] = first[0] if first else 0.5 if field.type == "float" else 1024
    return kind(**given)


@dataclass(frozen=True)
class Thinned(Problem):
    """Every `step`-th of `count` elements."""

    op: ClassVar[str] = "thinned"

    count: int = axis("elements", low=1)
    step: int = axis("of how many one is taken", 4, low=1)
    factor: float = axis("what it is multiplied by", 2.0)

    def operands(self) -> tuple[Operand, ...]:
        return (Operand("y", (1, self.count // self.step), "out"),)


@pytest.mark.parametrize("op", AXES)
def test_the_axes_that_set_the_size_are_told_by_the_problem_itself(op: str) -> None:
    assert small(op).size_axes == tuple(AXES[op]["axes"].split())


@pytest.mark.parametrize(
    ("problem", "found"),
    [
        (Gemm(1, 1, 1), "m n k"),
        (Thinned(64), "count"),  # the larger the step, the smaller the operand
        (Gemm(8, 8, 8, ld_pad=3), "m n k ld_pad"),
        (problem_type("update")(8, 8, 8, part="clear"), "m n"),
        (problem_type("gather")(64, 3, 64), "rows width batch"),  # no batch is larger than its table
        (problem_type("biasact")(8, 8, 4), "rows cols terms"),
        (problem_type("pages")("clear", "fresh", 3 * 4096, behind=4096), "size behind"),
    ],
)
def test_only_what_counts_at_this_problem_is_told(problem: Problem, found: str) -> None:
    assert problem.size_axes == tuple(found.split())


def test_what_cannot_fit_is_refused_with_its_own_axes() -> None:
    for problem, advice in (
        (Gemm(1 << 20, 1 << 20, 8), ": take smaller --m, --n, --k"),
        (Stream("triad", 1 << 40), ": take a smaller --size"),
        (problem_type("gather")(1 << 30, 256, 64), ": take smaller --rows, --width, --batch"),
        (problem_type("launch")("empty", 1), ""),
    ):
        contest = Contest("x", "", "variant", (Case(problem, "openblas"),))
        with pytest.raises(UsageError) as told:
            refuse_size([contest], {"cpu": Limits(100, 1, (1,))})
        assert str(told.value).startswith(f"{problem.name} needs ")
        assert str(told.value).endswith(f" of memory, only 100 B are free{advice}")


def test_a_title_is_the_question_and_what_all_cases_share() -> None:
    """But for what the question says itself."""
    blas, copy = Case(SMALL, "openblas"), Case(SMALL, "c", Setting(2))
    for question, other, title in (
        (
            "does openblas pay?",
            replace(blas, problem=replace(SMALL, trans="nt")),
            "does openblas pay? gemm m:8 n:8 k:8",
        ),
        ("which at gemm/m:8/n:8/k:8?", Case(SMALL, "c"), "which at gemm/m:8/n:8/k:8?"),
        ("which?", Case(Stream("read", 4096), "y", Setting(2)), "which?"),
    ):
        assert Contest("x", question, "work: differs", (blas, other)).title == title
    cases = copy, replace(copy, problem=replace(SMALL, m=16))
    assert (
        Contest("x", "what does it cost?", "work: differs", cases).title
        == "what does it cost? gemm n:8 k:8 c threads:2"
    )
