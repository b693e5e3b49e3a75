"""Before time: a framework whose equal work is not proven is proven now, and one that fails is not timed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from kernels.errors import LaunchError, SuiteError
from macro.equality.proof import prove, proven
from macro.processes import job as job_files
from macro.processes.process import Process
from macro.timing.turns import Entry, Plan


def refuse(plan: Plan, entry: Entry, folder: Path, say: Callable[[str], None]) -> None:
    """Of a framework that said what it is: prove equal work now unless it was. Raises LaunchError."""
    if proven(plan.network, plan.batch, entry.framework, entry.setting, entry.identity):
        return
    (verdict,) = prove(plan.network, plan.batch, [(entry.framework, entry.setting)], folder, say)
    if not verdict.compared:
        raise LaunchError(f"{entry.framework.name}: {verdict.why}")
    if not verdict.equal:
        raise LaunchError(f"{entry.framework.name} does other work than the reference: {verdict.why}")


def refuse_unequal(plan: Plan, entries: Sequence[Entry], folder: Path, say: Callable[[str], None]) -> None:
    """Mark the entries that cannot run or do other work; outside the budget."""
    wanted = []
    files = job_files.write_arrays(plan.network, plan.batch, folder)
    for entry in entries:
        say(f"asking {entry.framework.name} what it is")
        job = job_files.write(entry.framework, plan.network, plan.batch, entry.setting, files, folder)
        try:
            with Process(entry.framework, job, entry.setting, folder / "hello.log") as process:
                entry.identity = process.expect("hello")
                process.expect("built")
        except SuiteError as error:
            entry.fail(error)
            continue
        if not proven(plan.network, plan.batch, entry.framework, entry.setting, entry.identity):
            wanted.append(entry)
    if not wanted:
        return
    verdicts = prove(plan.network, plan.batch, [(x.framework, x.setting) for x in wanted], folder, say)
    for entry, verdict in zip(wanted, verdicts, strict=True):
        if not verdict.compared:
            entry.status, entry.reason = "failed", verdict.why
        elif not verdict.equal:
            entry.status, entry.reason = "wrong", f"other work than the reference: {verdict.why}"
