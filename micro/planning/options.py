"""Options of a benchmark's command line, parsed by a parser generated from its problem's fields."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, NoReturn

from kernels import suite
from kernels.errors import UsageError
from kernels.setting import DEFAULTS, KNOBS
from micro.planning.benchmark import Benchmark
from reports import formats
from reports.parser import OneLineParser

LADDER = ("plan", "build", "run", "check", "time")
EXPORTS = tuple(formats.documents())  # text is always printed
FLAGS = frozenset(("all", "full"))  # modifiers of a question
GATE = (
    "of --variant A,B: exit 1 if B is significantly slower than A and its interval reaches SHARE, 2 without a verdict; "
    "with --replicate 5"
)
SWEEPING = ("variant", "vary", "shapes", "net", "why", "profile")  # these replace the default question


@dataclass(frozen=True, eq=False)
class Outputs:
    """Files that a command writes (`documents`: by format, `-` is stdout), and how much it prints."""

    output: Path | None = None
    resume: bool = False
    keep_wrong: bool = False
    documents: Mapping[str, str] = field(default_factory=dict)
    figures: Path | None = None
    quiet: bool = False
    verbose: bool = False


@dataclass(frozen=True, eq=False)
class Options:
    """A benchmark's parsed command line; values of axes and settings are still text."""

    axes: Mapping[str, str]
    flags: frozenset[str]  # questions, and `full`, `all`
    given: frozenset[str]  # axes and settings that were named, and `variant`
    variant: str | None
    shapes: Path | None
    net: str
    vary: str | None
    settings: Mapping[str, str]
    budget: str | None
    target: str
    margin: str | None
    replicate: str
    gate: str | None
    only: str | None
    without: str | None
    why: bool
    profile: str | None  # perf's control and answer FIFOs; empty: print the line that makes them
    listing: bool
    until: str
    outputs: Outputs


class Parser(OneLineParser):
    """A parser whose usage errors are one line, or UsageError if the caller is Python."""

    raising = False
    words: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    instead: Mapping[str, str] = MappingProxyType({})  # replacements of removed options, beside those of `removed`

    def called(self, option: str) -> list[str]:
        """Return the options of the axes for which this option is an alternative name."""
        word = option[2:].replace("-", "_").lower()
        return [option_of(axis) for axis in self.words.get(word) or self.words.get(word.removesuffix("s"), ())]

    def suggested(self, message: str) -> str:
        """Return the replacement of a removed option, else the message with the nearest existing option."""
        for word in message.split()[2:] if message.startswith("unrecognized arguments: ") else ():
            option = word.partition("=")[0]
            if instead := self.instead.get(option) or removed().get(f"{self.prog} {option}"):
                return f"{option} was removed: {instead}"
        return super().suggested(message)

    def error(self, message: str) -> NoReturn:
        if self.raising:
            raise UsageError(f"{self.suggested(message)}; for the options see {self.prog} --help")
        super().error(message)


def removed() -> dict[str, str]:
    """Return the replacement of each option of the previous release, by `COMMAND OPTION`."""
    explain = suite.subcommand("explain", "FILE.py")
    searched = "fft-pyfftw,fft-pyfftw-estimate,fft-pyfftw-patient"
    return {
        "python -m micro --part": "type python -m micro all --device cuda:0 --budget 8m (most important first)",
        "python -m micro.conv --bias-before-norm": "type python -m micro.conv --variant torch,torch-bias",
        "python -m micro.conv --first": "type python -m micro.conv --c 3 --h 224 --w 224 --k 96 "
        "--r 11 --s 11 --stride 4 --pad 2 --vary direction",
        "python -m micro.conv --grouped": "type python -m micro.conv --c 64 --k 64 --groups 1,2,4,32,64 --vary groups",
        "python -m micro.conv --heap-cost": "type python -m micro.conv --variant torch,torch-im2col "
        "--heap default,keep --vary heap",
        "python -m micro.conv --norm-and-pool": f"type python -m micro.elementwise --norm, or --pooling, or {explain}",
        "python -m micro.conv --pad-op": "type python -m micro.conv --pad 2 --r 5 --s 5 --variant torch,torch-pad",
        "python -m micro.conv --pareto": "type python -m micro.conv --variant im2col-blocks "
        "--workspace 64KiB,256KiB,1MiB --vary workspace",
        "python -m micro.conv --plans": f"type python -m micro.conv --variant {searched}",
        "python -m micro.conv --relayout": "type python -m micro.conv --variant torch,torch-relayout, "
        "or --variant torch --layout nchw,nhwc --vary layout",
        "python -m micro.conv --stages": f"type {explain}, for what runs inside a call",
        "python -m micro.conv --widths": "type python -m micro.conv --c 48,49,56,60,63,64 --vary c",
        "python -m micro.selftest --soak": "type python -m tests.soak, in a checkout",
        "python -m micro.transfer --duplex": "type python -m micro.transfer --variant shared "
        "--back after,along --vary back",
        "python -m micro.transfer --first-touch": "type python -m micro.memory --what copy --page 4096,2097152 "
        "--vary memory",
    }


def option_of(name: str) -> str:
    """Return the option of a name: `ld_pad` is typed `--ld-pad`."""
    return "--" + name.replace("_", "-")


def request(
    benchmark: Benchmark, name: str, argv: Sequence[str] | None = None, raising: bool = False
) -> tuple[Benchmark, Options]:
    """Parse a command line; return the selected benchmark, possibly one of `others`, and the options.

    An axis or a question that only one of `others` has selects that benchmark. A command line that names
    neither gets the default question. The command line, Python and `micro.ab` all use this function. Raises
    UsageError if `raising`; else usage errors end the process."""
    argv = sys.argv[1:] if argv is None else argv
    every = (benchmark, *benchmark.others)
    options = [word[2:].partition("=")[0].replace("-", "_") for word in argv if word.startswith("--")]
    named = [word for word in options if any(word in candidate.words for candidate in every)]
    meant = next((candidate for candidate in every if candidate.words.issuperset(named)), None)
    if meant is None:
        first = next(candidate for candidate in every if named[0] in candidate.words)
        other = next(word for word in named if word not in first.words)
        pair = f"{option_of(named[0])} and {option_of(other)}"
        parser(first, name, raising).error(f"{pair}: belong to different operations; leave one of the two out")
    meant = replace(meant, others=tuple(candidate for candidate in every if candidate is not meant))
    return meant, unpacked(meant, vars(parser(meant, name, raising).parse_args(argv)))


def unpacked(benchmark: Benchmark, values: Mapping[str, Any]) -> Options:
    """Return the options from the parser's values."""
    axes = {axis.name: values[axis.name] for axis in fields(benchmark.problem) if values[axis.name] is not None}
    flags = {flag for flag in (*benchmark.questions, *modifiers(benchmark)) if values[flag]}
    asks = flags & benchmark.questions.keys() or set(axes) & set(benchmark.sweeping)
    if benchmark.default and not asks and all(values[option] in (None, False) for option in SWEEPING):
        flags.add(benchmark.default)
    rest = {option.name: values[option.name] for option in fields(Options) if option.name in values}
    rest |= {"net": values["net"] or "", "listing": values["list"], "outputs": outputs_of(values)}
    usual = {name: knob.typed(DEFAULTS[name]) for name, knob in KNOBS.items()} | {"data": benchmark.data}
    settings = {name: text if values[name] is None else values[name] for name, text in usual.items()}
    given = frozenset((*axes, *(name for name in ("variant", *KNOBS) if values[name] is not None)))
    return Options(axes=axes, flags=frozenset(flags), given=given, settings=settings, **rest)


def outputs_of(values: Mapping[str, Any]) -> Outputs:
    """Return the outputs from a parser's values; an option that a command lacks has its default."""
    named = {option.name: values[option.name] for option in fields(Outputs) if values.get(option.name) is not None}
    return Outputs(**named, documents={kind: values[kind] for kind in EXPORTS if values.get(kind) is not None})


def modifiers(benchmark: Benchmark) -> dict[str, dict[str, str]]:
    """Return the effects of `--full` and `--all` on each question, without those that change nothing."""
    by_flag = {
        "full": {name: question.full for name, question in benchmark.questions.items() if question.full},
        "all": {name: question.all for name, question in benchmark.questions.items() if question.all},
    }
    return {flag: texts for flag, texts in by_flag.items() if texts}


def parser(benchmark: Benchmark, name: str, raising: bool = False) -> argparse.ArgumentParser:
    """Return the argument parser, with options for axes, questions, settings and outputs."""
    options = Parser(
        f"python -m micro.{name}",
        description=benchmark.about,
        allow_abbrev=False,
        epilog="An axis takes a value, a comma list or a range: --m 64,128,256, --m 64:1024:*2.",
    )
    options.raising, options.words = raising, benchmark.problem.called
    _add_axes(options, benchmark)
    questions = options.add_argument_group("questions")
    for flag, question in benchmark.questions.items():
        questions.add_argument(option_of(flag), action="store_true", help=question.help.replace("%", "%%"))
    for flag, texts in modifiers(benchmark).items():
        meaning = "; ".join(f"{option_of(name)}: {text}" for name, text in texts.items())
        questions.add_argument(f"--{flag}", action="store_true", help=meaning.replace("%", "%%"))
    _add_settings(options.add_argument_group("how"))
    out = options.add_argument_group("output")
    add_outputs(out)
    out.add_argument("--keep-wrong", action="store_true", help="save a wrong kernel's operands next to the run file")
    return options


def _add_axes(options: argparse.ArgumentParser, benchmark: Benchmark) -> None:
    axes = options.add_argument_group("axes")
    for axis in fields(benchmark.problem):
        text = axis.metadata["help"]
        if axis.metadata["choices"]:
            text += f" ({', '.join(axis.metadata['choices'])})"
        axes.add_argument(option_of(axis.name), metavar="X", help=text)
    axes.add_argument("--variant", metavar="NAMES", help="kernels, comma-separated (see --list)")
    about = "problems: JSON like micro/shapes/fc.json, a log of MKL, oneDNN or cuBLAS, or a benchdnn list"
    axes.add_argument("--shapes", metavar="FILE", type=Path, help=about)
    net = "every layer of a network in micro/shapes, or of a file" if benchmark.net else argparse.SUPPRESS
    axes.add_argument("--net", metavar="NAME", help=net)
    axes.add_argument("--vary", metavar="FIELD", help="compare values of this field instead of variants")


def _add_settings(how: argparse._ArgumentGroup) -> None:
    for name, knob in KNOBS.items():
        how.add_argument(option_of(name), metavar=knob.metavar, help=knob.about)
    for option, default, metavar, about in (
        ("--budget", None, "TIME", "measuring time of the complete command, e.g. 20s"),
        ("--target", "1%", "SHARE", "stop when a ratio's interval is within ± this (default 1%%)"),
        ("--margin", None, "SHARE", "ratios within 1 ± this are the same (default: the target; 4%% if memory-bound)"),
        ("--replicate", "1", "N", "repeat all N times in fresh processes; intervals include their spread (default 1)"),
        ("--gate", None, "SHARE", GATE),
        ("--only", None, "REGEX", "only contests whose name matches"),
    ):
        how.add_argument(option, default=default, metavar=metavar, help=about)
    how.add_argument("--not", dest="without", metavar="REGEX", help="skip contests whose name matches")
    how.add_argument("--why", action="store_true", help="explain one case: ceiling, work, kernel, best variant")
    about = "profile one warm launch of one case; prints the profiler's command"
    how.add_argument("--profile", nargs="?", const="", metavar="FIFOS", help=about)
    how.add_argument("--list", action="store_true", help="print the plan and stop")
    how.add_argument("--until", choices=LADDER, default="time", help="stop after this step")


def add_outputs(out: argparse._ActionsContainer) -> None:
    """Add the options on outputs: run file, documents, pictures, and how much is printed."""
    out.add_argument("-o", dest="output", metavar="FILE", type=Path, help="write the run file (JSON lines)")
    out.add_argument("--resume", action="store_true", help="continue the run in -o FILE, if it exists")
    add_documents(out)
    out.add_argument("--figures", metavar="DIR", type=Path, help="draw pictures into this folder")
    volume = out.add_mutually_exclusive_group()
    volume.add_argument("-q", dest="quiet", action="store_true", help="no progress, only the answer")
    volume.add_argument("-v", dest="verbose", action="store_true", help="print every case with its command")


def add_documents(out: argparse._ActionsContainer, content: formats.Content = "contests") -> None:
    """Add an option for each format that can write this content."""
    for kind in formats.documents(content):
        out.add_argument(f"--{kind}", metavar="FILE", help=f"write {kind} (- for stdout)")
