"""How a kernel is asked to run, not what: a field with its knob, from which option, name, worker and record follow."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from types import MappingProxyType
from typing import Any

from kernels import suite
from kernels.dtypes import DATA
from kernels.errors import UsageError, choice
from kernels.heap import variables as heap_variables
from kernels.isa import variables as isa_variables
from kernels.workspace import UNLIMITED, limit, typed


@dataclass(frozen=True)
class Knob:
    """What follows from one field of a Setting. `value` reads one word of the command line, and raises UsageError or
    ValueError; `start`: variables of the environment that a process is started with so that it obeys."""

    about: str  # for --help
    metavar: str
    effect: str = ""  # "what does EFFECT change?"; empty where no contest is made along it
    fixed: bool = False  # for the life of a process
    value: Callable[[str], Any] = str
    typed: Callable[[Any], str] = str  # as a person types a value
    named: Callable[[Any], str] = str  # in the name of a case
    parse: Callable[[str], Any] = str  # the reverse of `named`
    start: Callable[[Any], Mapping[str, str]] | None = None
    place: int = 1  # among the words of a name


def knob(default: Any, about: str, metavar: str, **more: Any) -> Any:
    """Return a field of Setting."""
    return field(default=default, metadata={"knob": Knob(about, metavar, **more)})


def _isa(word: str) -> str:
    isa_variables(word)
    return word


def _heap(word: str) -> str:
    heap_variables(word)
    return word


def _data(word: str) -> str:
    if word not in DATA:
        raise UsageError(f"--data {word}: {choice(word, DATA)}")
    return word


def _library() -> Any:
    """Return the module that knows what is preloaded. It compiles shims: a command without --preload starts without."""
    return importlib.import_module(f"{suite.PREFIX}kernels.libs.preload")


def _preload(word: str) -> str:
    if word != "none":
        _library().words(word)
    return word


def _preloaded(word: str) -> Mapping[str, str]:
    variables: Mapping[str, str] = {} if word == "none" else _library().variables(word)
    return variables


@dataclass(frozen=True, slots=True)
class Setting:
    """One value of each knob. What is fixed per process is obeyed by a worker of its own."""

    threads: int = knob(
        1,
        "threads of the libraries (default 1; a question about them has its own)",
        "N",
        effect="the number of threads",
        fixed=True,
        value=int,
        parse=int,
    )
    cold: tuple[str, ...] = knob(
        (),
        "operands out of cache, such as a,b; or all (the others are not warmed up)",
        "OPERANDS",
        typed=",".join,
        named="+".join,
        parse=lambda text: tuple(text.split("+")),
        place=2,
    )
    device: str = knob(
        "cpu", "cpu, cuda:0, or both: cpu,cuda:0 (default cpu)", "NAMES", effect="the device", fixed=True, place=0
    )
    isa: str = knob(
        "default",
        "instruction sets that libraries may take, such as default,avx2; or an OpenBLAS family",
        "SETS",
        effect="the instruction set",
        fixed=True,
        value=_isa,
        start=isa_variables,
    )
    data: str = knob(
        "normal",
        "what is multiplied: normal, uniform, integers, zeros",
        "KINDS",
        effect="what the operands hold",
        value=_data,
    )
    heap: str = knob(
        "default",
        "of glibc's allocator, such as default,keep",
        "POLICIES",
        effect="the allocator's policy",
        fixed=True,
        value=_heap,
        start=heap_variables,
    )
    preload: str = knob(
        "none",
        "libraries before a kernel's own, such as none,mkl-intel; joined by +",
        "NAMES",
        effect="what is loaded before its libraries",
        fixed=True,
        value=_preload,
        start=_preloaded,
    )
    workspace: int | None = knob(
        None,
        f"a kernel may hold beside its operands, such as 0,8MiB ({UNLIMITED})",
        "BYTES",
        effect="the bytes allowed beside the operands",
        value=limit,
        typed=typed,
        parse=int,
    )

    @property
    def name(self) -> str:
        """Threads, and the others where they differ from their default."""
        words = [f"{x}:{KNOBS[x].named(value)}" for x, value in self.values.items() if x in ("threads", *self.changed)]
        return "/".join(words)

    @property
    def values(self) -> dict[str, Any]:
        """The value of each knob, in the order of a name."""
        return {name: getattr(self, name) for name in KNOBS}

    @property
    def changed(self) -> tuple[str, ...]:
        """The knobs that are not at their default."""
        return tuple(name for name, value in self.values.items() if value != DEFAULTS[name])

    @property
    def process(self) -> Setting:
        """What is fixed per process, all else at its default."""
        return Setting(**{name: value for name, value in self.values.items() if KNOBS[name].fixed})

    def variables(self) -> dict[str, str]:
        """Return what a process is started with. Raises UsageError, and Unavailable where something is not here."""
        variables: dict[str, str] = {}
        for name, value in self.values.items():
            if start := KNOBS[name].start:
                variables |= start(value)
        return variables


_FIELDS = {x.name: x.metadata["knob"] for x in fields(Setting)}
KNOBS: Mapping[str, Knob] = MappingProxyType(dict(sorted(_FIELDS.items(), key=lambda item: item[1].place)))
DEFAULTS: Mapping[str, Any] = MappingProxyType(asdict(Setting()))
ALONG = MappingProxyType({name: x.effect for name, x in KNOBS.items() if x.effect})  # contests are made along these
