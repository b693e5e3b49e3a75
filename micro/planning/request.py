"""Plans from the options of a benchmark: the contests, and how long they may take. Opens no device."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any, get_type_hints

from kernels.catalog import NoSuchVariant, find, rows, variants
from kernels.devices import kind_of, missing
from kernels.errors import UsageError, choice
from kernels.problem import DIRECTIONS, Problem
from kernels.setting import ALONG, DEFAULTS, KNOBS, Setting
from micro.planning import unused_options
from micro.planning.axes import along, by_variant, problems, values
from micro.planning.benchmark import Benchmark, NothingWritten, Question, Request, default_rows
from micro.planning.contest import Budget, Contest, one_case
from micro.planning.options import FLAGS, Options, Outputs, option_of

if TYPE_CHECKING:
    from micro.planning.problem_files import Written
    from reports.record import Run


SHARE = {"%": 0.01}
NEAREST = 8  # variants listed where a word is unknown and resembles none
MOST_REPLICATES = 1000
GATED = 5  # replicates with --gate: its verdict is to hold in other processes, too
THREADS = 32  # most per core, where oversubscription is measured
TIME = {"ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0}


@dataclass(frozen=True)
class Gate:
    """A gate of two variants: the least slowdown of the contender that fails."""

    share: float
    baseline: str
    contender: str


@dataclass(frozen=True)
class Plan:
    """A command's contests, budget, outputs and answer, ready to be measured."""

    name: str
    contests: tuple[Contest, ...]
    budget: Budget
    devices: tuple[str, ...]  # to be opened; the first names the run's machine
    swept: frozenset[tuple[str, str]]  # (operation, axis) written in lines that repeat a case
    until: str
    outputs: Outputs
    answer: Callable[[Run], list[str]] | None = lambda run: []  # its question's, like `refine` and `kept`
    refine: Callable[[Run], list[Contest]] = lambda run: []
    kept: float = 0.0
    why: str | None = None  # name of the contest that --why explains
    replicates: int = 1  # how often all is measured
    log: tuple[str, ...] = ()  # sentences on the file of --shapes: what is taken and left out
    gate: Gate | None = None


def planned(benchmark: Benchmark, name: str, options: Options) -> Plan:
    """Return the plan for a benchmark's options. Raises UsageError."""
    for option, asked_for in (("--resume", options.outputs.resume), ("--keep-wrong", options.outputs.keep_wrong)):
        if asked_for and options.outputs.output is None:
            raise UsageError(f"{option}: requires a run file, -o FILE")
    unused_options.refuse_untimed(options)
    asked = _asked(benchmark, options)
    question = _question(benchmark, options)
    if (options.why or options.profile is not None) and "variant" not in asked.given:
        asked = replace(asked, variants=asked.variants[:1])
    written = _written(benchmark, options, question)
    contests = tuple(_chosen(_contests(benchmark, options, asked, question, written), options))
    plan = Plan(
        name,
        contests,
        _budget(options, question),
        tuple(dict.fromkeys(x.device for x in asked.settings if x.device not in asked.absent)),
        benchmark.swept,
        options.until,
        options.outputs,
        replicates=replicates(options.replicate),
        log=tuple(written.sentences) if written else (),
    )
    if options.gate is not None:
        gate = _gate(options, asked, contests)
        plan = replace(plan, gate=gate, replicates=plan.replicates if plan.replicates > 1 else GATED)
    if options.why:
        explained = _explained(asked, contests)
        return replace(plan, contests=(explained,), why=explained.name)
    if question is None:
        return replace(plan, answer=lambda run: benchmark.of_file(run, written)) if written else plan

    def refine(run: Run) -> list[Contest]:
        return [contest for request in _by_device(asked) for contest in question.refine(request, run)]

    return replace(plan, answer=question.answer, refine=refine, kept=question.kept)


def _explained(asked: Request, contests: Sequence[Contest]) -> Contest:
    """Return the contest of the requested case against every variant that can do its problem. Raises UsageError."""
    case = one_case(contests, "--why", "explains", "be measured")
    rivals = [asked.case(case.problem, row.name, case.setting) for row in variants(case.problem.op)]
    others = [rival for rival in rivals if not rival.skip and rival.name != case.name]
    return Contest(f"why/{case.name}", "why does the case take this time?", "variant", (case, *others), sparing=True)


def _asked(benchmark: Benchmark, options: Options) -> Request:
    hints = get_type_hints(benchmark.problem)
    axes = dict(benchmark.sweep)
    for axis, text in options.axes.items():
        axes[axis] = values(text, hints[axis], option_of(axis))
    typed = options.settings["device"]
    devices = values(typed, str, "--device")
    operands = _operands(benchmark.problem, axes, options.shapes is not None)
    settings = _settings(options, devices, operands, THREADS if benchmark.oversubscribed else 1)
    if options.variant:
        named = values(options.variant, str, "--variant")
    else:
        named = tuple(dict.fromkeys(name for setting in settings for name in default_rows(benchmark, setting.device)))
    if not named and not options.flags & benchmark.questions.keys():  # a question may be of another operation
        raise NothingWritten(f"--device {typed}: this benchmark has no kernels for the device yet")
    for variant in named:
        _find(benchmark.problem.op, variant, devices)
    absent = {name: reason for name in devices if (reason := missing(name))} if len(devices) > 1 else {}
    if len(absent) == len(devices):
        raise UsageError(f"--device {typed}: {'; '.join(absent.values())}")
    op, all_cold = benchmark.problem.op, options.settings["cold"] == "all"
    return Request(op, axes, named, settings, options.flags, options.given, absent, options.net, all_cold)


def _operands(kind: type[Problem], axes: Mapping[str, tuple[Any, ...]], of_file: bool) -> list[str]:
    """Return names of the problems' operands, in each requested direction.

    For a file, which is read later, in every direction."""
    asked = {name: given[:1] for name, given in axes.items()}
    for field in fields(kind):
        choices = field.metadata["choices"]
        if set(DIRECTIONS) & set(choices):
            asked[field.name] = choices if of_file else axes.get(field.name, (field.default,))
    return list(dict.fromkeys(operand.name for problem in problems(kind, asked) for operand in problem.operands()))


def _find(op: str, name: str, devices: Sequence[str]) -> None:
    """Raise UsageError with the devices' variants if there is no variant of this name."""
    try:
        find(op, name)
    except NoSuchVariant:
        names = dict.fromkeys(row.name for device in devices for row in rows(op, kind_of(device).kernels))
        raise UsageError(f"--variant {name}: {choice(name, names, NEAREST)}") from None


def _settings(options: Options, devices: Sequence[str], operands: list[str], most: int) -> tuple[Setting, ...]:
    """Return the settings on each device. Raises UsageError for unsupported ones or too many threads."""
    texts, cold = options.settings, _cold(options.settings["cold"], operands)
    chosen = {name: values(texts[name], KNOBS[name].value, option_of(name)) for name in ALONG if name != "device"}
    processors = [device for device in devices if "threads" not in kind_of(device).refuses]
    settings: list[Setting] = []
    for device in devices:
        kind, asked = kind_of(device), {name for name, several in chosen.items() if several != (DEFAULTS[name],)}
        if cold and not (kind.flushes and len(cold) == len(operands)):
            asked.add("cold")
        if processors:  # a device beside them has no threads to choose
            asked.discard("threads")
        for name in KNOBS:
            if name in asked and name in kind.refuses:
                raise UsageError(f"{option_of(name)} {texts[name]}: {device}: {kind.refuses[name]}")
        if device in processors:
            _refuse_threads(chosen["threads"], most)
        here = chosen if device in processors else chosen | {"threads": (DEFAULTS["threads"],)}
        combinations = itertools.product(*here.values())
        settings += [Setting(cold=cold, device=device, **dict(zip(here, x, strict=True))) for x in combinations]
    return tuple(settings)


def _refuse_threads(threads: Sequence[int], most: int) -> None:
    """Raise UsageError for more than `most` threads for each core that this process may use."""
    from kernels.devices.cpu import cores

    for count in threads:
        if not 1 <= count <= most * cores():
            each = f", {most} threads on each" if most > 1 else ""
            raise UsageError(f"--threads {count}: this process may use 1 to {cores()} cores{each}")


def _by_device(asked: Request) -> list[Request]:
    """Split a request by device, since a question builds contests for a single device."""
    requests = []
    for device in dict.fromkeys(setting.device for setting in asked.settings):
        settings = tuple(setting for setting in asked.settings if setting.device == device)
        variants = tuple(v for v, setting in asked.pairs() if setting.device == device)
        requests.append(replace(asked, settings=settings, variants=tuple(dict.fromkeys(variants))))
    return requests


def _cold(text: str, operands: list[str]) -> tuple[str, ...]:
    if text == "all":
        return tuple(operands)
    names = values(text, str, "--cold") if text else ()
    for name in names:
        if name not in operands:
            raise UsageError(f"--cold {name}: choose from {', '.join(operands)}, or all")
    return names


def _question(benchmark: Benchmark, options: Options) -> Question | None:
    asked = {option_of(flag): question for flag, question in benchmark.questions.items() if flag in options.flags}
    if options.net:
        if benchmark.net is None:
            raise UsageError("--net: not supported by this benchmark")
        asked["--net"] = benchmark.net
    if len(asked) > 1:
        raise UsageError(f"{', '.join(asked)}: only one question at a time is allowed")
    return next(iter(asked.values()), None)


def _written(benchmark: Benchmark, options: Options, question: Question | None) -> Written | None:
    """Return the contents of a file of problems. Raises UsageError."""
    if question:
        for option, given in (("--shapes", options.shapes), ("--vary", options.vary)):
            if given is not None:
                raise UsageError(f"{option} {given}: not allowed with a question; leave one of the two out")
    if not options.shapes:
        return None
    for axis, text in options.axes.items():
        if axis != options.vary:
            raise UsageError(
                f"{option_of(axis)} {text}: --shapes {options.shapes} already sets this axis; leave one of the "
                f"two out, or add --vary {axis}"
            )
    from micro.planning import problem_files  # with the readers of logs, which other commands do not need

    return problem_files.read(benchmark, options.shapes)


def _contests(
    benchmark: Benchmark, options: Options, asked: Request, question: Question | None, written: Written | None
) -> list[Contest]:
    if question:
        return _of_question(benchmark, question, asked)
    for modifier in FLAGS & options.flags:
        raise UsageError(f"--{modifier}: applies only to questions; remove it or name a question")
    sizes = list(written.problems) if written else problems(benchmark.problem, asked.axes)
    if not options.vary:
        return by_variant(asked, sizes)
    names = [field.name for field in fields(benchmark.problem)] + list(ALONG)
    if options.vary not in names:
        raise UsageError(f"--vary {options.vary}: {choice(options.vary, names)}")
    if written:
        sizes = _spread(sizes, asked, options.vary)
    return along(asked, sizes, options.vary)


def _of_question(benchmark: Benchmark, question: Question, asked: Request) -> list[Contest]:
    """Return a question's contests, built separately for each device. Raises UsageError."""
    flag = next((option_of(name) for name, other in benchmark.questions.items() if other is question), "--net")
    build = partial(_built, question)
    contests = build(asked)
    for setting in asked.settings:
        if not contests and (reason := missing(setting.device)):
            raise UsageError(f"--device {setting.device}: {reason}")
    if not contests:
        unused_options.refuse_nothing(benchmark, asked, flag, build)
    if not contests or not ("variant" in asked.given or _written_for(contests)):
        names = ", ".join(dict.fromkeys(setting.device for setting in asked.settings))
        raise NothingWritten(f"--device {names}: this question has no kernels for the device yet")
    unused_options.refuse_in_question(
        unused_options.AskedQuestion(benchmark, asked, flag, contests, build, question.several)
    )
    for modifier, text in (("full", question.full), ("all", question.all)):
        if modifier in asked.flags and not text:
            raise UsageError(f"--{modifier}: no effect on {flag}; leave it out")
    return contests


def _written_for(contests: Sequence[Contest]) -> bool:
    """Return whether any case has a kernel for its device."""
    cases = (case for contest in contests for case in contest.cases)
    return any(find(x.problem.op, x.variant).device == kind_of(x.setting.device).kernels for x in cases)


def _built(question: Question, asked: Request) -> list[Contest]:
    """Build a question's contests on each device; a repeated name gets its device as a suffix."""
    contests: list[Contest] = []
    for request in _by_device(asked):
        taken = {contest.name for contest in contests}
        for contest in (contest for contest in question.build(request) if contest.cases):
            suffix = f"/device:{request.settings[0].device}" if contest.name in taken else ""
            contests.append(replace(contest, name=contest.name + suffix))
    return contests


def _spread(problems: list[Any], asked: Request, field: str) -> list[Any]:
    """Return the problems of a file, each at every requested value of the varied field. Raises UsageError."""
    if field in ALONG:
        return problems
    if field not in asked.given:
        raise UsageError(f"--vary {field}: name the values, e.g. {option_of(field)} X,Y")
    return list(
        dict.fromkeys(replace(problem, **{field: value}) for problem in problems for value in asked.axes[field])
    )


def _chosen(contests: list[Contest], options: Options) -> list[Contest]:
    try:
        if options.only:
            contests = [c for c in contests if re.search(options.only, c.name)]
        if options.without:
            contests = [c for c in contests if not re.search(options.without, c.name)]
    except re.error as error:
        raise UsageError(f"--only/--not: invalid regular expression: {error}") from None
    if not contests:
        raise UsageError("no contests selected: relax --only, --not or the axes (--list shows the plan)")
    return contests


def _gate(options: Options, asked: Request, contests: Sequence[Contest]) -> Gate:
    """Return the gate of the last named variant against the first. Raises UsageError."""
    text = f"--gate {options.gate}"
    share = number(options.gate or "", SHARE, "--gate", "5%")
    if "variant" not in asked.given or len(asked.variants) < 2:
        raise UsageError(f"{text}: compares two variants; name both: --variant mine.py:old,mine.py:new")
    gate = Gate(share, asked.variants[0], asked.variants[-1])
    if not any({gate.baseline, gate.contender} <= {case.variant for case in contest.cases} for contest in contests):
        remedy = "--vary" if options.vary else "the question"
        raise UsageError(f"{text}: no contest compares {gate.contender} with {gate.baseline}; leave {remedy} out")
    return gate


def replicates(text: str) -> int:
    """Parse the number of replicates. Raises UsageError."""
    if not text.isdecimal() or not 1 <= int(text) <= MOST_REPLICATES:
        most = f"at most {MOST_REPLICATES}, and 5 or more for reports compare"
        raise UsageError(f"--replicate {text}: must be a positive whole number; {most}")
    return int(text)


def _budget(options: Options, question: Question | None) -> Budget:
    seconds = question.seconds if question else 10.0 if options.why else 30.0
    if question and FLAGS & options.flags:
        seconds = 240.0
    if options.budget is not None:
        seconds = number(options.budget, TIME, "--budget", "20s or 3m")
    margin = number(options.margin, SHARE, "--margin", "1%") if options.margin else None
    return Budget(seconds, number(options.target, SHARE, "--target", "1%"), margin)


def number(text: str, units: dict[str, float], option: str, example: str) -> float:
    """Parse `20s`, `1%`: a positive number in base units; a share is below one. Raises UsageError."""
    match = re.fullmatch(r"([0-9.]+(?:e-?[0-9]+)?)([a-z%]*)", text)
    try:
        value = float(match[1]) * (units[match[2]] if match[2] else 1.0) if match else 0.0
    except (ValueError, KeyError):
        value = 0.0
    if not 0 < value < float("inf") or (units == SHARE and value >= 1):
        raise UsageError(f"{option} {text}: must be a positive number, e.g. {example}")
    return value
