"""Pages that come from the code (`make docs`)."""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from reports.record import Run

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
from reports.flat import plain  # noqa: E402

SELFTESTS = "reports/reference/selftest*.jsonl"  # complete runs: added to, never exchanged
PREDICTIONS = "reports/reference/macro/whatif/*.jsonl"  # made on one machine
HOPELESS = "not timed: by its prediction it saves less than 1 %"  # of advice, which tries no edit that does
KINDS = {"Environment": "environment", "Contest": "contest", "Note": "note", "Prediction": "prediction"}


def record() -> str:
    """Return docs/record.md: its own head, then every field of every record by the comments in reports/record.py."""
    source = (ROOT / "reports/record.py").read_text("utf-8")
    comments = {
        token.start[0]: token.string.lstrip("# ")
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT
    }
    pages = [(ROOT / "docs/record.md").read_text("utf-8").partition("\n## ")[0].rstrip()]
    for node in ast.parse(source).body:
        if isinstance(node, ast.ClassDef) and node.name != "Run":
            pages.append(_class(node, comments))
    return "\n\n".join(pages) + "\n"


def _class(node: ast.ClassDef, comments: dict[int, str]) -> str:
    kind = f' (`"kind": "{KINDS[node.name]}"`)' if node.name in KINDS else ""
    rows = [f"## {node.name}{kind}", "", ast.get_docstring(node) or "", "", "| field | type | |", "|---|---|---|"]
    for field in node.body:
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            comment = comments[field.end_lineno or 0].replace("|", "\\|")
            kind = ast.unparse(field.annotation).replace("|", "or").replace(", ...", "")
            rows.append(f"| {field.target.id} | {kind} | {comment} |")
    return "\n".join(rows)


def statistics() -> str:
    """Return docs/statistics.md with the measured error rates between its marks.

    Every self-test that is kept is there, the first one first."""
    from reports import store

    runs = sorted((store.read(path) for path in ROOT.glob(SELFTESTS)), key=lambda run: run.environment.started)
    said = "\n\n".join(_selftest(run) for run in runs)
    text = (ROOT / "docs/statistics.md").read_text("utf-8")
    return re.sub(
        r"<!-- figures -->.*<!-- end -->", lambda _: f"<!-- figures -->\n{said}\n<!-- end -->", text, flags=re.S
    )


def _selftest(run: Run) -> str:
    """Where it ran, its figures, and its paths where it measured them."""
    facts = run.environment.facts
    (data,) = [note.data for note in run.notes if note.topic == "selftest"]
    variables = ", ".join(f"`{name}={value}`" for name, value in (facts.get("variables") or {}).items()) or "none"
    where = f"{facts['device']['model']}, {facts['cores']} cores, commit {facts['commit']}"
    lines = [
        f"{run.environment.started[:10]}, {where}; variables that steer libraries: {variables}.",
        "",
        "| figure | found | promised | held |",
        "|---|---|---|---|",
    ]
    for one in data["figures"]:
        if one["promised"]:
            held = "yes" if one["held"] else f"not judged: {one['busy']}" if one["busy"] else "**no**"
            lines.append(f"| {one['name']} | {one['found']} | {one['promised']} | {held} |")
    return "\n".join([*lines, *_paths(data.get("paths", ()))])


def _paths(paths: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Return a row for each path, with its worst pair."""
    if not paths:
        return
    yield ""
    head = "path", "runs", "sd between runs", "hold the other runs' mean: worst pair", "all"
    yield f"| {' | '.join(head)} | predicted next run: worst pair | all |"
    yield "|---|---|---|---|---|---|---|"
    for row in paths:
        pairs = [pair for pair in row["pairs"] if not pair["twin"]]
        worst = min(pairs, key=lambda pair: pair["holding"] / pair["runs"])
        least = min(pairs, key=lambda pair: pair["inside"] / (pair["runs"] - 1))
        yield (
            f"| {row['path']} | {row['runs']} of {len(pairs)} pairs | {100 * row['sd']:.2g} % "
            f"| {worst['pair']}: {worst['holding']} of {worst['runs']} | {row['holding']} of {row['runs']} "
            f"| {least['pair']}: {least['inside']} of {least['runs'] - 1} | {row['inside']} of {row['steps']} |"
        )


def whatif() -> str:
    """Return docs/whatif.md with a row for each change that the reference runs predicted and made, and a summary."""
    said = "\n".join(_predictions(predicted()))
    text = (ROOT / "docs/whatif.md").read_text("utf-8")
    return re.sub(r"<!-- pairs -->.*<!-- end -->", lambda _: f"<!-- pairs -->\n{said}\n<!-- end -->", text, flags=re.S)


def predicted() -> dict[str, Run]:
    """Return the reference runs of whatif and advise by file name.

    Combinations are left out, as are rounds by which advise chooses: fewer than ten."""
    from reports import store

    return {path.stem: _long(store.read(path)) for path in sorted(ROOT.glob(PREDICTIONS))}


def _long(run: Run) -> Run:
    from macro.predicting.network_step import ROUNDS

    rounds = {(x.contest, plain(x.name).rpartition("/change:")[2]): len(x.rounds) for x in run.results}
    kept = [x for x in run.predictions if x.measured is None or rounds.get((str(x.contest), x.change), 0) >= ROUNDS]
    return replace(run, predictions=tuple(x for x in kept if "+" not in x.change))


def _predictions(runs: Mapping[str, Run]) -> Iterator[str]:
    from reports.prediction import word
    from tests.soak import predictions

    yield from predictions.sentences([x for run in runs.values() for x in run.predictions])
    yield ""
    yield "| file | step, batch | change | predicted, % of it | measured | resolution | verdict |"
    yield "|---|---|---|---|---|---|---|"
    for file, x in ((file, x) for file, run in runs.items() for x in run.predictions):
        verdict = (x.reason or HOPELESS).replace("|", "/") if word(x) == "–" else word(x)
        resolution = "–" if x.resolution is None else f"{100 * x.resolution / x.step:.1f}"
        ends = (predictions.share(x, of) for of in (x.predicted, x.measured))
        step = f"{x.network} {x.framework}, {x.batch}"
        yield f"| {file} | {step} | {x.change} | {' | '.join(ends)} | {resolution} | {verdict} |"
    yield ""
    yield "The files' commands, without where they write to:"
    yield ""
    for file, run in runs.items():
        command = re.sub(r"( -q)? -o \S+$", "", run.environment.command)
        yield f"- {file}: `{command}`"


PAGES = {"record.md": record, "statistics.md": statistics, "whatif.md": whatif}

if __name__ == "__main__":
    from reports import figures

    for name, page in PAGES.items():
        (ROOT / "docs" / name).write_text(page(), encoding="utf-8")
    if runs := list(predicted().values()):
        whole = tuple(x for run in runs for x in run.predictions)
        figures.draw(replace(runs[0], predictions=whole, contests=(), notes=()), ROOT / "docs/pictures")
