"""Words of docs/glossary.md: each is printed or written somewhere, and none comes before its explanation."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
GLOSSARY = ROOT / "docs/glossary.md"
LINK = "glossary.md)"
PACKAGES = ("kernels", "micro", "macro", "reports")
OPENING = (ROOT / "README.md").read_text("utf-8").partition("\n## Why")[0]
PAGES = [path for path in sorted((ROOT / "docs").glob("*.md")) if path != GLOSSARY and ".head." not in path.name]
# Words of everyday speech, too: they are explained for what else they mean in a report.
EVERYDAY = {
    "step",
    "use",
    "path",
    "row",
    "work",
    "rate",
    "cause",
    "column",
    "entry",
    "turn",
    "look",
    "expected",
    "usual",
}


def terms() -> list[str]:
    """Every word that the two tables on measuring and on frameworks explain."""
    page = GLOSSARY.read_text("utf-8")
    tables = [page.partition(f"\n## {section}\n")[2].partition("\n## ")[0] for section in ("Measuring", "Frameworks")]
    cells = [cell for table in tables for cell in re.findall(r"^\| (.+?) \|", table, re.M) if cell != "word"]
    return [term for cell in cells for term in cell.split(", ")]


def first(term: str, text: str) -> re.Match[str] | None:
    """Where a word, or its plural, stands first; not within a path or an option."""
    return re.search(rf"(?<![\w./-]){term}s?(?![\w/])", text, re.I)


def printed(path: Path) -> Iterator[str]:
    """The texts of a module that are no docstrings."""
    nodes = list(ast.walk(ast.parse(path.read_text("utf-8"))))
    bare = {id(x.value) for x in nodes if isinstance(x, ast.Expr)}
    for x in nodes:
        if isinstance(x, ast.Constant) and isinstance(x.value, str) and id(x) not in bare:
            yield x.value


TERMS = terms()


@functools.cache
def said() -> str:
    """By the pages, and by what modules print."""
    modules = (path for name in PACKAGES for path in sorted((ROOT / name).rglob("*.py")))
    pages = (page.read_text("utf-8") for page in PAGES)
    return "\n".join([OPENING, *pages, *(text for path in modules for text in printed(path))])


def test_there_are_words() -> None:
    assert len(TERMS) > 40 and len(set(TERMS)) == len(TERMS) and set(TERMS) > EVERYDAY


@pytest.mark.parametrize("term", TERMS)
def test_a_word_that_nothing_says_has_left_the_glossary(term: str) -> None:
    assert first(term, said())


@pytest.mark.parametrize("term", [term for term in TERMS if term not in EVERYDAY])
def test_the_first_screen_explains_a_word_where_it_is_first_used(term: str) -> None:
    """In its prose each is in italics there, with what it means; in what is printed it comes after the link."""
    opening = re.sub(r"`[^`\n]+`", "", OPENING)  # commands say a word before it is explained
    prose, fence, _ = opening.rpartition("\n```\n")[0].rpartition("\n```\n")
    assert fence and "Ratios of time" not in prose
    if found := first(term, prose):
        assert prose[found.start() - 1] == "*", prose[found.start() - 40 : found.end() + 40]
    elif found := first(term, opening):
        assert found.start() > opening.index(LINK)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_links_the_glossary_before_its_first_word(page: Path) -> None:
    text = page.read_text("utf-8")
    place = text.index(LINK)
    body = text.index("\n")  # after the heading
    for term in TERMS:
        if term not in EVERYDAY and (found := first(term, text[body:])):
            sentence = text.rindex("\n", 0, place)  # the link's own line may name some
            assert body + found.start() > sentence, term
