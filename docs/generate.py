"""Writes the parts of docs/ that come from the code and from a run file. `python docs/generate.py`"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
SELFTEST = ROOT / "reports/reference/selftest-full-without-samples.jsonl"
KINDS = {"Environment": "environment", "Contest": "contest", "Note": "note"}


def record() -> str:
    """docs/record.md: every field of every record, from the comments in reports/record.py."""
    source = (ROOT / "reports/record.py").read_text("utf-8")
    comments = {
        token.start[0]: token.string.lstrip("# ")
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT
    }
    said = [(ROOT / "docs/record.head.md").read_text("utf-8").rstrip()]
    for node in ast.parse(source).body:
        if isinstance(node, ast.ClassDef) and node.name != "Run":
            said.append(_class(node, comments))
    return "\n\n".join(said) + "\n"


def _class(node: ast.ClassDef, comments: dict[int, str]) -> str:
    kind = f' (`"kind": "{KINDS[node.name]}"`)' if node.name in KINDS else ""
    rows = [f"## {node.name}{kind}", "", ast.get_docstring(node) or "", "", "| field | type | |", "|---|---|---|"]
    for field in node.body:
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            comment = comments[field.end_lineno or 0].replace("|", "\\|")
            kind = ast.unparse(field.annotation).replace("|", "or").replace(", ...", "")
            rows.append(f"| {field.target.id} | {kind} | {comment} |")
    return "\n".join(rows)


def method() -> str:
    """docs/method.md with the measured error rates between its marks."""
    from reports import store

    (figures,) = [note.data["figures"] for note in store.read(SELFTEST).notes if note.topic == "selftest"]
    rows = ["| figure | found | promised |", "|---|---|---|"]
    measured = [f for f in figures if f["promised"] and not f["name"].endswith("simulated")]  # that is a test now
    rows += [f"| {f['name']} | {f['found']} | {f['promised']} |" for f in measured]
    text = (ROOT / "docs/method.md").read_text("utf-8")
    table = "<!-- figures -->\n" + "\n".join(rows) + "\n<!-- end -->"
    return re.sub(r"<!-- figures -->.*<!-- end -->", lambda _: table, text, flags=re.S)


PAGES = {"record.md": record, "method.md": method}

if __name__ == "__main__":
    for name, page in PAGES.items():
        (ROOT / "docs" / name).write_text(page(), encoding="utf-8")
