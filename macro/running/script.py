"""Commands `macro explain SCRIPT` and `macro explain FILE.kg`: explain a step of a user's script."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING

from kernels.errors import SuiteError, UsageError, stop_code
from macro.running.script_request import ScriptRequest, request
from macro.watching.kg import SUFFIX as RECORDING

if TYPE_CHECKING:
    from macro.watching.recording import Recording
    from macro.watching.script import Script
    from micro.planning.options import Outputs
    from reports.gate import Gate
    from reports.record import Note, Run
    from reports.store import RunFile

FIRST = 2  # a preliminary answer is printed each time the rounds have grown by this factor


def main(argv: Sequence[str], say: Callable[[bool, str], None]) -> int:
    """Run the command; return the exit code. `say(quiet, text)`: a line of progress."""
    from macro.running import session

    asked = request(argv)
    outputs, progress = asked.outputs, partial(say, asked.outputs.quiet)
    if outputs.output is not None and outputs.output.suffix == RECORDING:
        outputs = replace(outputs, output=outputs.output.with_suffix(".jsonl"))
    paths = _paths(asked, outputs)
    with session.opened(outputs) as (file, streams), _emptied(outputs.output):
        recordings, took, code = _recordings(asked, outputs, paths, progress)
        outcome, stopped = _gate(asked, recordings, code, progress)
        code = code or stopped
        notes, stopped = _notes(asked, recordings, took, progress, outcome)
        code = code or stopped
        if not _wrote(file, notes):
            code, outputs = code or 1, replace(outputs, output=None)
        code = say_all(replace(file.run, notes=tuple(notes)), outputs, streams, full=asked.full) or code
        return code or (outcome.code if outcome else 0)


def _paths(asked: ScriptRequest, outputs: Outputs) -> list[Path | None]:
    """Return the paths for new recordings, none without -o. Raises UsageError if a path exists."""
    from macro.watching import kg

    count, output = len(asked.scripts), outputs.output
    if output is None or (output.exists() and not output.is_file()):  # /dev/null has nothing beside it
        return []
    paths = [kg.beside(output, i, count) for i in range(count)]
    for path in paths:
        if path.exists():
            raise UsageError(f"-o {path}: file exists; name another file")
    return list(paths)


@contextmanager
def _emptied(path: Path | None) -> Iterator[None]:
    """Remove the run file if nothing was added to it: it would block the next run with the same -o."""
    begun = path.stat().st_size if path is not None else 0
    try:
        yield
    finally:
        if path is not None and path.is_file() and path.stat().st_size == begun:
            path.unlink()


def _wrote(file: RunFile, notes: Sequence[Note]) -> bool:
    """Append the notes to the run file; on failure, print a message and return False."""
    from reports.store import Unwritable

    try:
        for note in notes:
            file.append(note)
    except Unwritable as error:
        print(f"macro explain: {str(error).partition(';')[0]}", file=sys.stderr)
        return False
    return True


def _recordings(
    asked: ScriptRequest, outputs: Outputs, paths: list[Path | None], say: Callable[[str], None]
) -> tuple[list[Recording], float, int]:
    """Read recordings, or record and write them to `paths`; return them, seconds taken and exit code."""
    from macro.watching import ends, kg, load, plain

    began = time.monotonic()
    if asked.recordings:
        return [kg.read(path) for path in asked.recordings], 0.0, 0
    recorded: list[Recording] = []
    code = 0
    about = ends.explaining(len(asked.scripts), asked.runs, asked.scripts[0].seconds, load.busy())
    further = f", then {plain.forecast(asked.gate.pairs, asked.gate.seconds)}" if asked.gate else ""
    say(f"{about}{further}; the output of {asked.scripts[0].name} follows")
    for run in range(asked.runs):
        if asked.runs > 1:
            say(f"process {run + 1} of {asked.runs} of each")
        try:
            recordings, code = _watched(asked.scripts, outputs, say, partial(_keep, recorded, paths))
        except (KeyboardInterrupt, SystemExit) as stop:
            if not recorded:
                raise
            code = stop_code(stop)
            break
        recorded = _joined(recorded, recordings)
        if code:
            break
    _keep([], paths, recorded)
    for path in filter(None, paths):
        say(f"recording: {path}")
    return recorded, time.monotonic() - began, code or int(None in paths)


def _gate(
    asked: ScriptRequest, recordings: Sequence[Recording], code: int, say: Callable[[str], None]
) -> tuple[Gate | None, int]:
    """Run the pairs of processes of --gate; return its outcome, None without --gate, and the exit code.

    `code`: of the recordings; if it is not 0, no further process is started."""
    from macro.explaining import gate, pair
    from macro.watching import plain

    if asked.gate is None:
        return None, 0
    scripts = [replace(script, knock_out=()) for script in asked.scripts]
    pairs, stopped = [], "interrupted" * bool(code)
    for number in range(asked.gate.pairs) if not code else ():
        say(f"gate: pair {number + 1} of {asked.gate.pairs}")
        try:
            pairs.append(plain.run(scripts, asked.gate.seconds, number))
        except (KeyboardInterrupt, SystemExit) as stop:
            code, stopped = stop_code(stop), "interrupted"
            break
        except SuiteError as error:
            stopped = str(error)
            break
    return gate.judged(pairs, pair.side_names(*recordings), asked.gate.share, stopped), code


def _joined(earlier: Sequence[Recording], more: Sequence[Recording]) -> list[Recording]:
    """Add the new processes to the earlier recordings of the same programs."""
    if not earlier:
        return list(more)
    pairs = zip(earlier, more, strict=True)
    return [replace(old, processes=[*old.processes, *new.processes], ended=new.ended) for old, new in pairs]


def _keep(earlier: Sequence[Recording], paths: list[Path | None], recordings: Sequence[Recording]) -> None:
    """Write all recordings so far to `paths`; report a path that cannot be written and set it to None."""
    from macro.watching import kg

    for i, (path, recording) in enumerate(zip(paths, _joined(earlier, recordings), strict=False)):
        try:
            if path is not None:
                kg.write(recording, path)
        except UsageError as error:
            print(f"macro explain: {error}", file=sys.stderr)
            paths[i] = None


def _watched(
    scripts: Sequence[Script], outputs: Outputs, say: Callable[[str], None], keep: Callable[[Sequence[Recording]], None]
) -> tuple[list[Recording], int]:
    """Watch the scripts; return recordings and exit code, after an interrupt the last kept recordings."""
    from macro.explaining import breakdown, tries, witnesses
    from macro.watching import scripts as watching

    kept: list[Sequence[Recording]] = []
    due = [0]
    errors = sys.stderr.buffer
    output = errors if "-" in outputs.documents.values() else sys.stdout.buffer
    sys.stdout.flush()

    def seen(recordings: Sequence[Recording]) -> None:
        kept.append(recordings)
        keep(recordings)
        if (rounds := len(recordings[0].processes[-1].levels["P0"])) >= due[0]:
            say(_so_far(recordings))
            due[0] = FIRST * rounds

    def advised(recording: Recording) -> Sequence[str]:
        return tries.trials(breakdown.taken_apart(recording, 0.0, breakdown.Ceilings(None, None)))

    after = watching.After(advised, witnesses.largest)

    with tempfile.TemporaryDirectory(prefix="kernelgap-script-") as folder:
        try:
            return watching.watch(scripts, Path(folder), (output, errors), say, seen, after), 0
        except (KeyboardInterrupt, SystemExit) as stop:
            if not kept:
                raise
            say("interrupted: the steps watched so far are explained")
            return list(kept[-1]), stop_code(stop)


def _so_far(recordings: Sequence[Recording]) -> str:
    """Format a preliminary answer in one line."""
    from macro.explaining import advice, breakdown

    breakdowns = [breakdown.taken_apart(recording, 0.0, breakdown.Ceilings(None, None)) for recording in recordings]
    return "so far: " + "; ".join(advice.first_answer(x) for x in breakdowns)


def _notes(
    asked: ScriptRequest,
    recordings: Sequence[Recording],
    took: float,
    say: Callable[[str], None],
    outcome: Gate | None = None,
) -> tuple[list[Note], int]:
    """Return the notes of the explanation, and the exit code: a signal's, which leaves out what was being measured."""
    from macro.explaining import breakdown, ceilings, pair, repeat
    from reports import attribution, step

    measured: dict[int, breakdown.Ceilings] = {}
    code = 0
    try:
        say("measuring this machine's ceilings")
        for count in dict.fromkeys(x.threads for x in recordings):
            measured[count] = ceilings.measured(count)
    except (KeyboardInterrupt, SystemExit) as stop:
        say("interrupted: explained without this machine's ceilings")
        code = stop_code(stop)
    unknown = breakdown.Ceilings(None, None)
    breakdowns = [breakdown.with_sentences(x, took, measured.get(x.threads, unknown)) for x in recordings]
    if asked.kernels and not code:
        say("measuring the largest operations by themselves")
        breakdowns = [
            replace(x, fastest=tuple(repeat.fastest(x, recording)))
            for x, recording in zip(breakdowns, recordings, strict=True)
        ]
    if len(recordings) > 1:
        explained = pair.explain(recordings[0], recordings[1], took, outcome)
        return [attribution.note(explained), *map(step.note, breakdowns)], code
    if asked.depth is not None:
        breakdowns = [replace(x, modules=tuple(y for y in x.modules if y.depth < asked.depth)) for x in breakdowns]
    return [step.note(x) for x in breakdowns], code


def say_all(run: Run, outputs: Outputs, streams: Mapping[str, IO[str]], full: bool = False) -> int:
    """Write text, documents and pictures; return 1 if an output cannot be written, else 0.

    `full`: the text has the report of each of two scripts, too."""
    from micro.command.outputs import for_people, written
    from reports import formats
    from reports.documents import finish

    people = for_people(outputs)

    def text() -> None:
        formats.write("text", run, people, verbose=full)
        people.flush()

    def document(kind: str, stream: IO[str]) -> None:
        formats.write_attribution(kind, run, stream)
        finish(stream)

    documents = [(f"--{kind}", partial(document, kind, stream), stream) for kind, stream in streams.items()]
    return written([("stdout", text, people), *documents], run, outputs)
