"""Changes of a step: each module defines CHANGE, or related CHANGES; a user's file.py defines CHANGE."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from kernels.errors import UsageError, choice
from kernels.users import module_of, raised
from macro.changes.base import Change, Step

FORMS = ("fused", "foreach")  # trials that exclude each other


@dataclass(frozen=True)
class Named:
    """A change as named on the command line: `name`, `name=value` or `file.py`."""

    change: Change
    value: str = ""
    file: str = ""  # path of a user's change; empty for the suite's changes

    @property
    def words(self) -> str:
        name = self.file or self.change.name
        return f"{name}={self.value}" if self.value else name

    def refused(self, step: Step) -> str | None:
        """Return the reason why the change does not apply to `step`, or None."""
        if self._is_edit(step):
            forms = [x for x in step.trials if self.change.trial in FORMS and x in FORMS]
            return f"the optimizer is already {forms[0]}" if forms else None
        if step.script is not None and self.change.code:
            return f"requires an edit of the script: {self.change.code}"
        try:
            why = self.change.applies(step, self.value)
            if why is None and not isinstance(self.apply(step), Step):
                return "its make() returns no Step"
            return why
        except Exception as error:
            return f"raises {raised(error)}"

    def edit(self, step: Step) -> str:
        """Return the code that a user writes into a program; empty if environment variables suffice."""
        changed = self.apply(step)
        knobs = ({**x.setting.knobs, "variables": None} for x in (step, changed))
        alike = next(knobs) == next(knobs) and step.framework == changed.framework
        return "" if alike else self.change.code

    def apply(self, step: Step) -> Step:
        """Return the changed step."""
        if self._is_edit(step):
            return step.with_knob("trials", (*step.trials, self.trial))
        return self.change.make(step, self.value)

    @property
    def trial(self) -> str:
        """Name of the trial that makes the change in a user's running program; empty: none does."""
        return self.change.trial.replace("{}", self.value)

    def _is_edit(self, step: Step) -> bool:
        """Return whether the agent makes the change in a user's program, which would else need an edit."""
        return step.script is not None and bool(self.change.trial and self.change.code)


@functools.cache
def _suite() -> Mapping[str, Change]:
    """Return the suite's changes by name, from all modules of this package."""
    files = sorted(path.stem for path in Path(__file__).parent.glob("[a-z]*.py") if path.stem != "base")
    modules = [importlib.import_module(f"{__name__}.{name}") for name in files]
    changes = [change for x in modules for change in getattr(x, "CHANGES", None) or (x.CHANGE,)]
    return {change.name: change for change in sorted(changes, key=lambda change: change.name)}


def names() -> list[str]:
    """Return the names of all changes."""
    return list(_suite())


def find(text: str) -> Named:
    """Parse `name`, `name=value` or `file.py`. Raises UsageError."""
    name, equals, value = text.partition("=")
    file = name if name.endswith(".py") else ""
    change = _load(Path(file).resolve()) if file else known(name)
    if bool(equals and value) != (change.takes is not None):
        form = f"{change.name}={change.takes}" if change.takes else f"{change.name}, without a value"
        raise UsageError(f"{text}: give {form}")
    return Named(change, value, file)


def known(name: str) -> Change:
    """Return the suite's change `name`. Raises UsageError."""
    if name not in _suite():
        raise UsageError(f"{name}: no such change: {choice(name, names())} (or name a file.py that defines a change)")
    return _suite()[name]


@functools.cache
def _load(path: Path) -> Change:
    if not path.is_file():
        raise UsageError(f"{path}: no such file")
    try:
        module = module_of(str(path))
    except (Exception, SystemExit) as error:
        raise UsageError(f"{path}: raises {raised(error)}") from None
    if not isinstance(change := getattr(module, "CHANGE", None), Change):
        raise UsageError(f"{path}: defines no CHANGE of type macro.changes.base.Change")
    return change
