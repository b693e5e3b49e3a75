"""Groups of contests for one picture, labels of their cases, and the fields that vary."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, TypeAlias

from reports import flat, units
from reports.record import Comparison, Contest, Result, Run

Facts: TypeAlias = Mapping[str, Any]
SIDES = ("pad", "pad_top", "pad_left", "pad_bottom", "pad_right")
# Fields that a convolution's variant, layer and pass stand for.
LAYER = ("variant", "c", "h", "w", "k", "r", "s", "stride", "dilation", "groups", "direction", *SIDES)
FORMS = ("stride", "dilation", "groups")  # of a convolution, named only if not 1
UNCHANGED = "unchanged"


class Word(str):
    """A value that is shown without its field's name."""


class Bytes(int):
    """A value that is shown with a binary prefix."""


@dataclass(frozen=True)
class Group:
    """Contests that ask one question of several sizes or variants; `slug` goes into the file's name."""

    slug: str
    contests: tuple[Contest, ...]

    @property
    def measured(self) -> list[Result]:
        return [x for contest in self.contests for x in contest.measured]

    @property
    def question(self) -> str:
        """The contests' common question, with `each variant`, `each size` or dots for differing words."""
        asked = [contest.question.split() for contest in self.contests]
        names = {result.variant for result in self.measured}
        common = list(takewhile(lambda words: len(set(words)) == 1, zip(*asked, strict=False)))
        if len({len(words) for words in asked}) > 1:
            text = " ".join([words[0] for words in common] + ["…"])
        else:
            text = " ".join(_merged(set(words), names) for words in zip(*asked, strict=True))
        return text[:1].upper() + text[1:]


def _merged(words: set[str], names: set[str]) -> str:
    """Return a text in place of all words: `this size`, `each size`, `each variant`, the word, or dots."""
    bare = {word.rstrip("?,.") for word in words}
    end = "?" if all(word.endswith("?") for word in words) else ""
    if all("/" in word and ":" in word for word in bare):
        return ("this size" if len(bare) == 1 else "each size") + end
    if len(words) == 1:
        return words.pop()
    return ("each variant" if bare <= names else "…") + end


def groups(run: Run) -> list[Group]:
    """Group contests by operation and the first words of their names, else by the field that differs."""
    by_kind: dict[tuple[str, str], list[Contest]] = {}
    for contest in run.contests:
        op = next((x.op for x in contest.measured), "")
        by_kind.setdefault((_kind(contest, op), op), []).append(contest)
    kinds = [kind for kind, _ in by_kind]
    by_slug: dict[str, Group] = {}
    for (kind, op), contests in by_kind.items():
        slug = slugged(kind if kinds.count(kind) == 1 else f"{kind}-{op}")
        while slug in by_slug:
            slug += "-"
        by_slug[slug] = Group(slug, tuple(contests))
    return list(by_slug.values())


def _kind(contest: Contest, op: str) -> str:
    words = takewhile(lambda word: ":" not in word, contest.contest.split("/"))
    varied = re.search(r"/vary:([^/]+)", contest.contest)
    chosen = [word for word in words if word != op and not word.isdigit()]
    return "/".join(chosen) or (varied[1] if varied else contest.differs)


def slugged(text: str, most: int = 40) -> str:
    """Return a text as a part of a file's name: lower case, with hyphens."""
    return re.sub(r"[^\w+]+", "-", text).strip("-").lower()[:most]


def facts(result: Result) -> dict[str, Any]:
    """Return the fields of a case: variant and layout first, then the problem, then the setting.

    A changed step has `change` in place of the setting."""
    forms = result.axes
    problem = {axis: _value(value, forms.get(axis)) for axis, value in result.problem.items()}
    words = {axis: value for axis, value in problem.items() if isinstance(value, Word)}
    if "/changes:" in result.contest:
        variant = Word(result.variant.partition("~")[0])
        return {"variant": variant} | words | problem | {"change": Word(_change(result.name))}
    setting = {
        "threads": result.threads,
        "isa": result.isa and Word(result.isa),
        "heap": result.heap,
        "workspace": None if result.workspace_limit is None else Bytes(result.workspace_limit),
        "interpreter": result.interpreter and Word(result.interpreter),
        "cold": "+".join(result.cold) or "warm",
        "data": result.data,
        "device": result.device,
    }
    return {"variant": Word(result.variant)} | words | problem | {k: v for k, v in setting.items() if k not in problem}


def _change(name: str) -> str:
    """Return the change of a step from its result's name, or that the step is unchanged."""
    match = re.search(r"/change:([^/]+)", name)
    if match is None:
        return UNCHANGED
    return f"{UNCHANGED}, control run" if match[1] == UNCHANGED else flat.plain(match[1])


def place(problem: Mapping[str, Any]) -> str:
    """Return `5×5, 96→256, 27×27, stride 4`: a convolution without its batch and direction."""
    text = "{r}×{s}, {c}→{k}, {h}×{w}".format_map(problem)
    return text + "".join(f", {name} {problem[name]}" for name in FORMS if problem[name] > 1)


def layer(result: Result) -> str:
    """Return `3×3, 256→384, 13×13, stride 2, batch 16`: a convolution without its direction."""
    x: Any = result.problem
    words = [place(x), f"batch {x['n']}"]
    return ", ".join(words if x["layout"] == "nchw" else [*words, x["layout"]])


def briefly(results: Sequence[Result]) -> list[Facts]:
    """Return the facts of each result; if all are convolutions, with the layer as one word.

    If the brief facts do not distinguish the convolutions, all facts are kept."""
    every: list[Facts] = [facts(x) for x in results]
    if any(x.op != "conv" for x in results):
        return every
    brief: list[Facts] = [
        {"variant": case["variant"], "layer": Word(place(x.problem)), "pass": Word(x.problem["direction"])}
        | {key: value for key, value in case.items() if key not in LAYER}
        for x, case in zip(results, every, strict=True)
    ]
    return brief if len({repr(case) for case in brief}) == len({repr(case) for case in every}) else every


def _value(value: Any, form: str | None) -> Any:
    """Return a value as a Word or Bytes if its axis has that form."""
    if form == "word":
        return Word(value)
    return Bytes(value) if form == "bytes" and isinstance(value, int) else value


def pair_facts(contender: Result, baseline: Result) -> dict[str, Any]:
    """Return the contender's facts, and under `/field` the baseline's differing ones."""
    first, second = facts(contender), facts(baseline)
    return first | {f"/{key}": second.get(key) for key in first if first[key] != second.get(key)}


def varying(everything: Iterable[Facts]) -> list[str]:
    """Return the fields whose values differ among the cases."""
    cases = list(everything)
    keys = dict.fromkeys(key for case in cases for key in case)
    return [key for key in keys if len({repr(case.get(key)) for case in cases}) > 1]


def plain(value: Any) -> str:
    """Return a field's value without its name."""
    if isinstance(value, Bytes):
        return units.binary(value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def words(key: str, value: Any) -> str:
    """Return a field of a case in words: `M = 64`, `nt`, `2 threads`."""
    text = plain(value)
    if isinstance(value, Word):
        return text
    if key == "cold":
        return text if text == "warm" else f"cold {text}"
    if key == "threads":
        return "1 thread" if value == 1 else f"{text} threads"
    return f"{key.upper()} = {text}" if len(key) == 1 else f"{key} {text}"


def case_label(case: Facts, keys: Sequence[str]) -> str:
    return ", ".join(words(key, case[key]) for key in keys if case.get(key) is not None)


def case_labels(results: Sequence[Result]) -> list[str]:
    """Return labels from the fields that differ; cases of several operations are labeled by `_within`."""
    if len({x.op for x in results}) > 1:
        return [_within(x, results) for x in results]
    cases = briefly(results)
    keys = varying(cases) or ["variant"]
    return [case_label(case, keys) for case in cases]


def _within(result: Result, every: Sequence[Result]) -> str:
    """Return `layer conv2: norm c, mode frozen`: contest, operation, variant, differing fields of a case."""
    same = [facts(x) for x in every if (x.contest, x.op) == (result.contest, result.op)]
    keys = [key for key in varying(same) if key != "variant"]
    words = [
        word.replace(":", " ", 1) for word in result.contest.split("/") if re.match(r"(?!variant|device)\w+:", word)
    ]
    name = ", ".join(filter(None, (f"{result.op} {result.variant}", case_label(facts(result), keys))))
    return f"{' '.join(words)}: {name}" if words else name


def contrast(contender: Facts, baseline: Facts) -> tuple[str, str]:
    """Return the contender's and the baseline's differing fields, each in words."""
    keys = [key for key in contender if contender[key] != baseline.get(key)]
    first, second = (
        ", ".join(f"default {key}" if case.get(key) is None else words(key, case[key]) for key in keys)
        for case in (contender, baseline)
    )
    return first or "the second", second or "the first"


def pair_label(contender: Facts, baseline: Facts, keys: Sequence[str], short: bool = False) -> str:
    """Return `openblas, M = 8: nt / nn`: shared fields, then, unless `short`, the differing ones."""
    shared = case_label(contender, [key for key in keys if contender.get(key) == baseline.get(key)])
    both = " / ".join(contrast(contender, baseline))
    return shared if short and shared else ": ".join(filter(None, (shared, both)))


def size(group: Group) -> str:
    """Return `gemm, N = 2048, K = 3344`: the operation and the fields of the names that all cases share."""
    cases = [facts(result) for result in group.measured]
    if not cases:
        return ""
    fields = {word.partition(":")[0] for x in group.measured for word in x.name.split("/")[1:]} - {"threads"}
    differ = varying(cases)
    shared = case_label(cases[0], [key for key in cases[0] if key in fields and key not in differ])
    return ", ".join(filter(None, (group.measured[0].op, shared)))


def pairs(group: Group) -> list[tuple[Comparison, Result, Result]]:
    """Return each comparison with its contender and its baseline."""
    return [x for contest in group.contests for x in contest.ranked]
