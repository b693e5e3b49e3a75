"""Settings of a kernel's run: knobs, which define options, case names, worker variables and records."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from types import MappingProxyType
from typing import Any

from kernels.dtypes import DATA
from kernels.errors import UsageError, choice
from kernels.heap import variables as heap_variables
from kernels.isa import variables as isa_variables
from kernels.workspace import UNLIMITED, limit, typed


@dataclass(frozen=True, eq=False)
class Knob:
    """A field of Setting: its help text, parsing, formatting and environment variables."""

    about: str  # for --help
    metavar: str
    effect: str = ""  # in the question "what does EFFECT change?"; empty if no contest varies the knob
    fixed: bool = False  # for the life of a process
    value: Callable[[str], Any] = str  # parses a word of the command line; raises UsageError or ValueError
    typed: Callable[[Any], str] = str  # formats a value as a user types it
    named: Callable[[Any], str] = str  # formats a value for the name of a case
    parse: Callable[[str], Any] = str  # the inverse of `named`
    start: Callable[[Any], Mapping[str, str]] | None = None  # environment variables of a worker with a value
    place: int = 1  # sort key of the knob in a name


def knob(default: Any, about: str, metavar: str, **more: Any) -> Any:
    """Return a dataclass field of Setting; `more`: other fields of its Knob."""
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


def _preload(word: str) -> str:
    if word != "none":
        from kernels.libs import preload  # compiles shims: a command without --preload starts without it

        preload.words(word)
    return word


def _preloaded(word: str) -> Mapping[str, str]:
    if word == "none":
        return {}
    from kernels.libs import preload

    return preload.variables(word)


@dataclass(frozen=True, slots=True)
class Setting:
    """One value of each knob; settings that differ in a `fixed` knob run in different workers."""

    threads: int = knob(
        1,
        "threads per library (default 1; questions about threads set their own)",
        "N",
        effect="the number of threads",
        fixed=True,
        value=int,
        parse=int,
    )
    cold: tuple[str, ...] = knob(
        (),
        "operands to evict from cache, e.g. a,b or all (the others are not warmed up)",
        "OPERANDS",
        typed=",".join,
        named="+".join,
        parse=lambda text: tuple(text.split("+")),
        place=2,
    )
    device: str = knob(
        "cpu", "cpu, cuda:0, or both as cpu,cuda:0 (default cpu)", "NAMES", effect="the device", fixed=True, place=0
    )
    isa: str = knob(
        "default",
        "instruction sets that libraries may use, e.g. default,avx2; or an OpenBLAS family",
        "SETS",
        effect="the instruction set",
        fixed=True,
        value=_isa,
        start=isa_variables,
    )
    data: str = knob(
        "normal",
        "values of the operands: normal, uniform, integers, zeros",
        "KINDS",
        effect="the operands' values",
        value=_data,
    )
    heap: str = knob(
        "default",
        "policies of glibc's allocator, e.g. default,keep",
        "POLICIES",
        effect="the allocator's policy",
        fixed=True,
        value=_heap,
        start=heap_variables,
    )
    preload: str = knob(
        "none",
        "libraries to preload, e.g. none,mkl-intel; join several by +",
        "NAMES",
        effect="the preloaded libraries",
        fixed=True,
        value=_preload,
        start=_preloaded,
    )
    workspace: int | None = knob(
        None,
        f"workspace limits of a kernel, e.g. 0,8MiB (default {UNLIMITED})",
        "BYTES",
        effect="the workspace limit",
        value=limit,
        typed=typed,
        parse=int,
    )

    @property
    def name(self) -> str:
        """Name `threads:N/knob:value/…`: threads always, other knobs if they differ from their default."""
        words = []
        for name, of in KNOBS.items():
            value = getattr(self, name)
            if name == "threads" or value != DEFAULTS[name]:
                words.append(f"{name}:{of.named(value)}")
        return "/".join(words)

    @property
    def values(self) -> dict[str, Any]:
        """The value of each knob, in the order in which a name lists them."""
        return {name: getattr(self, name) for name in KNOBS}

    @property
    def changed(self) -> tuple[str, ...]:
        """Knobs that differ from their default."""
        return tuple(name for name, default in DEFAULTS.items() if getattr(self, name) != default)

    @property
    def process(self) -> Setting:
        """The setting with all knobs that are not `fixed` reset to their default."""
        return Setting(**{name: value for name, value in self.values.items() if KNOBS[name].fixed})

    def variables(self) -> dict[str, str]:
        """Return the environment variables of a worker with this setting. Raises UsageError, Unavailable."""
        variables: dict[str, str] = {}
        for name, value in self.values.items():
            if start := KNOBS[name].start:
                variables |= start(value)
        return variables


_FIELDS = {x.name: x.metadata["knob"] for x in fields(Setting)}
KNOBS: Mapping[str, Knob] = MappingProxyType(dict(sorted(_FIELDS.items(), key=lambda item: item[1].place)))
_DEFAULTS = asdict(Setting())
DEFAULTS: Mapping[str, Any] = MappingProxyType({name: _DEFAULTS[name] for name in KNOBS})
REFUSABLE = tuple(name for name in _FIELDS if name != "device")  # a device may refuse each of them
ALONG = MappingProxyType({name: x.effect for name, x in KNOBS.items() if x.effect})  # knobs that contests can vary
