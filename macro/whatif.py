"""How much would a change save? Predict it from kernels by themselves, then apply and measure it, and compare."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from kernels.errors import UsageError
from macro import command
from micro.planning.options import Outputs, add_outputs, outputs_of
from micro.planning.request import TIME, number

if TYPE_CHECKING:
    from macro.changes import Named
    from macro.changes.base import Step
    from reports.store import RunFile

WATCHED = 0.25  # share of the budget for watching the unchanged step
ALONE = 0.25  # share of the budget for isolated kernels, of all changes together
SHARES = "measuring time: 1/4 observes the step, 1/4 times kernels by themselves, 1/2 times steps"  # of --budget
PROCESSES, RUNS = 3, "processes of each step; one if memory or time is short"  # of a script
EPILOG = "Words after -- are passed to the script. Where a step ends: see python -m macro explain train.py --help."


def parser() -> argparse.ArgumentParser:
    """Return the command's parser for a network's step."""
    return _with_changes(step_options("whatif", __doc__, "2m", SHARES))


def _with_changes(options: argparse.ArgumentParser) -> argparse.ArgumentParser:
    options.add_argument("changes", nargs="*", metavar="CHANGE", help="e.g. heap-keep threads=2; without: list them")
    options.add_argument("--apart", action="store_true", help="time each change alone, not also their combination")
    return options


def script_options(
    name: str, about: str | None, budget: str, shares: str, runs: int, runs_help: str
) -> argparse.ArgumentParser:
    """Return the parser of a command that changes a user's script.

    `shares`: words on its budget's use; `runs`, `runs_help`: default and help text of --runs."""
    from macro.running.script_request import add_script
    from reports.parser import OneLineParser

    options = OneLineParser(f"python -m macro {name}", description=about, epilog=EPILOG, allow_abbrev=False)
    options.add_argument(
        "script", nargs="?", metavar="SCRIPT.py", type=Path, help="PyTorch script, run unmodified in several processes"
    )
    add_script(options, budget, shares, runs, runs_help)
    add_outputs(options)
    return options


def script_step(words: argparse.Namespace, arguments: Sequence[str]) -> tuple[Step, float]:
    """Return a program's unchanged step, on its initial heap, and the budget's seconds. Raises UsageError."""
    from macro.changes.base import Step
    from macro.frameworks import find
    from macro.networks.base import chain
    from macro.predicting import network_step
    from macro.processes.job import Setting
    from macro.running.script_request import script_of
    from macro.timing.entry import FEWEST, Plan

    module = _module(words)
    if not module and words.script.suffix != ".py":
        raise UsageError(f"{words.script}: a change cannot be applied to a recording; name the script")
    if words.resume:
        raise UsageError("--resume: not for scripts, whose processes have ended; name another file")
    seconds = number(words.budget, TIME, "--budget", "2m")
    script = script_of(words, words.script, module, arguments)
    named = chain(script.name, "a program of a user's own", 1, (1, 1), 1.0)
    asked = script.key if module else str(words.script)
    fewest = network_step.ROUNDS if words.runs == 1 else FEWEST
    plan = Plan(named, 0, "step", seconds / 2, words.runs, asked=asked, fewest=fewest)
    return Step(plan, find("pytorch"), Setting(words.threads or 0), script), seconds


def _module(words: argparse.Namespace) -> str | None:
    """Return the module of -m, after which all other words are changes; None without -m. Raises UsageError."""
    if not words.module:
        return None
    if len(words.module) > 1:
        raise UsageError(f"-m {words.module[1]}: give one module")
    if words.script is not None and "changes" not in words:
        raise UsageError(f"{words.script}: give a script or -m {words.module[0]}, not both")
    if words.script is not None:
        words.changes.insert(0, str(words.script))
        words.script = None
    module: str = words.module[0]
    return module


def step_options(name: str, about: str | None, budget: str, shares: str) -> argparse.ArgumentParser:
    """Return the parser of a command that changes a network's step; `shares`: words on its budget's use."""
    from macro.networks.layer import PHASES
    from reports.parser import OneLineParser

    options = OneLineParser(f"python -m macro {name}", description=about, allow_abbrev=False)
    options.add_argument("network", help="fcn-s, alexnet-r, …, or a file: net.json, net.py:NAME")
    options.add_argument("framework", help="the framework whose step is changed: pytorch, jax, …")
    options.add_argument("--phase", choices=PHASES, default="step", help="phase to time (step)")
    options.add_argument("--batch", type=int, metavar="N", help="samples per step (the network's)")
    options.add_argument("--threads", default="1", metavar="N", help="threads of the unchanged step (1)")
    options.add_argument("--heap", default="default", metavar="WORD", help="heap of the unchanged step: default, keep")
    command.add_variables(options)
    options.add_argument("--runs", type=int, default=1, metavar="N", help="processes per step, timed in turns (1)")
    options.add_argument("--budget", default=budget, metavar="TIME", help=f"{shares} ({budget})")
    add_outputs(options)
    return options


def step_of(words: argparse.Namespace) -> tuple[Step, float]:
    """Return a network's unchanged step, and the budget in seconds. Raises UsageError."""
    from macro.changes.base import Step
    from macro.predicting import network_step
    from macro.timing.entry import FEWEST, Plan

    net = command.network(words.network)
    command.check(words)
    seconds = number(words.budget, TIME, "--budget", "2m")
    rows, threads, heaps = (
        command.frameworks(words.framework),
        command.threads(words.threads),
        command.heaps(words.heap),
    )
    if len(rows) > 1 or len(threads) > 1 or len(heaps) > 1:
        raise UsageError("give a single framework, --threads and --heap; name changes after them")
    setting = command.setting(threads[0], heaps[0], command.variables(words.set))
    batch = command.batch(words.batch, net)
    fewest = network_step.ROUNDS if words.runs == 1 else FEWEST
    plan = Plan(net, batch, words.phase, seconds / 2, words.runs, asked=words.network, fewest=fewest)
    return Step(plan, rows[0], setting), seconds


def parsed(
    argv: Sequence[str], of_network: argparse.ArgumentParser, of_script: argparse.ArgumentParser
) -> tuple[argparse.Namespace, Step, float]:
    """Return the options, the unchanged step, and the budget in seconds. Raises UsageError."""
    from macro.running.script_request import is_script, split

    if is_script(argv, of_network):
        options, arguments = split(argv)
        words = of_script.parse_intermixed_args(options)
        return words, *script_step(words, arguments)
    words = of_network.parse_intermixed_args(argv)
    return words, *step_of(words)


def seeded(step: Step, file: RunFile) -> Step:
    """Return the step with the seed of the run file."""
    return replace(step, plan=replace(step.plan, seed=int(file.run.environment.state["seed"])))


@dataclass(frozen=True)
class WhatIfRequest:
    """Parsed options: a step, and the changes to predict and time."""

    step: Step
    changes: Sequence[Named]  # empty: list the changes that apply
    seconds: float  # the budget
    apart: bool  # only each change alone, without their combination
    outputs: Outputs


def request(argv: Sequence[str]) -> WhatIfRequest:
    """Parse the words of the command. Raises UsageError."""
    from macro import frameworks

    of_script = _with_changes(script_options("whatif", __doc__, "2m", SHARES, PROCESSES, RUNS))
    words, step, seconds = parsed(argv, parser(), of_script)
    if step.script and words.changes and words.changes[0] in frameworks.names():
        remedy = f"for a network in that file, give {words.script}:NAME" if words.script else "name changes only"
        raise UsageError(f"{step.plan.asked} {words.changes[0]}: a script takes no framework; {remedy}")
    if words.apart and len(words.changes) < 2:
        raise UsageError("--apart: requires two or more changes")
    return WhatIfRequest(step, _changes(words.changes, step), seconds, words.apart, outputs_of(vars(words)))


def _changes(asked: Sequence[str], step: Step) -> list[Named]:
    """Parse changes. Raises UsageError for a change that is unknown, repeated, or does not apply."""
    from macro import changes

    chosen = [changes.find(text) for text in asked]
    for named in chosen:
        if [(other.change, other.value) for other in chosen].count((named.change, named.value)) > 1:
            raise UsageError(f"{named.words}: named twice")
        if why := named.refused(step):
            raise UsageError(f"{named.words}: does not apply: {why}")
    return chosen


def main(argv: Sequence[str]) -> int:
    """Run the command; return 1 if a change was not timed or does other work, or the code of a signal."""
    from macro.running import session

    asked, not_timed = request(argv), list[str]()
    if not asked.changes:
        return _list(asked.step)
    words = " ".join(x.words for x in asked.changes)
    code = session.kept(
        "whatif", asked.outputs, [f"whatif {asked.step.key} {words}"], partial(_measure, asked, not_timed)
    )
    return code or int(bool(not_timed))


def _list(step: Step) -> int:
    """Print the changes that apply to this step, a command to type, and why the others do not apply."""
    from macro import changes

    every = [changes.known(name) for name in changes.names()]
    named = [changes.Named(change, change.takes or "") for change in every]
    fit = {x.words: x.change for x in named if x.refused(step) is None}
    print(f"Changes that apply to a {step.plan.phase} of {step.plan.network.name} in {step.framework.name}:")
    for words, change in fit.items():
        print(f"  {words:<{max(map(len, fit))}}  {change.about}")
    if fit:
        name = step.script.key if step.script and step.script.module else step.plan.named
        what = name if step.script else f"{name} {step.framework.name}"
        plain = next((words for words, change in fit.items() if not change.takes), next(iter(fit)))
        print(f"To time a change: python -m macro whatif {what} {plain}; all of them: python -m macro advise {what}")
    print("Not applicable:")
    for x in named:
        if why := x.refused(step):
            print(f"  {x.words}: {why}")
    return 0


def _measure(asked: WhatIfRequest, not_timed: list[str], file: RunFile) -> None:
    """Predict each change and their combination, time them in turns; add changes not timed to `not_timed`."""
    from macro.predicting import durations
    from macro.predicting.forecast import Predictor
    from macro.predicting.judged import conflict, failed
    from macro.watching import load

    say = partial(command.say, asked.outputs.quiet)
    step = seeded(asked.step, file)
    if step.script:
        together = len(asked.changes) > 1 and not asked.apart
        say(durations.changing(len(asked.changes), together, asked.seconds, step.plan.generations, load.busy()))
    with tempfile.TemporaryDirectory(prefix="kernelgap-whatif-") as folder:
        trials = [x.trial for x in asked.changes if x.trial]
        foreseer = Predictor(step, asked.seconds * WATCHED, asked.seconds * ALONE, file, say, Path(folder), trials)
        foreseer.look(asked.changes)
        predicted = foreseer.each(asked.changes)
        not_timed += [x.words for x in predicted if not x.there]
        predicted = [x for x in predicted if x.there]
        together = len(predicted) > 1 and not asked.apart
        if together and (why := conflict(step, [x.changes[0] for x in predicted])):
            say(f"changes are timed one by one, not all at once: {why}")
        elif together:
            predicted.append(foreseer.both(predicted))
        if predicted:
            not_timed += [x.words for x in foreseer.turns(foreseer.step, predicted) if failed(x)]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
