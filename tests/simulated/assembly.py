"""Inline PTX of a .cu file as calls that ptx.h answers: the text of the instruction stays, constraints become roles."""

from __future__ import annotations

import re
from pathlib import Path

HEADER = Path(__file__).with_name("ptx.h")
BEGIN = re.compile(r"\basm volatile\(")
ROLES = ((r'"\+[rfl]"\(', "ptx_inout("), (r'"=[rfl]"\(', "ptx_out("), (r'"[rfl]"\(', "ptx_in("))


def called(source: str) -> str:
    """The file with every `asm volatile(...)` as a call, behind the header that defines it; as it is where there is
    none. Its lines stay where they are."""
    if not BEGIN.search(source):
        return source
    for constraint, role in ROLES:
        source = re.sub(constraint, role, source)
    made, at = [], 0
    while found := BEGIN.search(source, at):
        end = _end(source, found.end())
        made += [source[at : found.start()], "ptx_run(", _arguments(source[found.end() : end])]
        at = end
    return f'#include "{HEADER}"\n#line 1\n' + "".join(made) + source[at:]


def _end(source: str, at: int) -> int:
    """Where the parenthesis is closed that was opened before `at`."""
    depth = 1
    for place, character in _outside_strings(source, at):
        depth += {"(": 1, ")": -1}.get(character, 0)
        if not depth:
            return place
    raise ValueError(f"asm volatile( is not closed: {source[at : at + 40]!r}")


def _arguments(inside: str) -> str:
    """`text : outputs : inputs : clobbers` as a list of arguments without the clobbers."""
    colons = [place for place, character in _outside_strings(inside, 0) if character == ":"]
    starts, ends = [0, *(place + 1 for place in colons)], [*colons, len(inside)]
    parts = [inside[a:b] for a, b in zip(starts[:3], ends[:3], strict=True)]
    return ", ".join(part for part in parts if part.strip())


def _outside_strings(text: str, at: int) -> list[tuple[int, str]]:
    """Places and characters that are in no string."""
    found, quoted = [], False
    while at < len(text):
        if text[at] == "\\" and quoted:
            at += 1
        elif text[at] == '"':
            quoted = not quoted
        elif not quoted:
            found.append((at, text[at]))
        at += 1
    return found
