"""A parser whose usage errors are one line."""

from __future__ import annotations

import argparse
import os
import re
import sys
from contextlib import suppress
from typing import Any, NoReturn

COLUMNS = 80  # width without a terminal


class Formatter(argparse.HelpFormatter):
    """A help formatter as wide as the terminal.

    argparse's formatter gets the width from `shutil`, whose import loads modules for archives."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=_columns() - 2)


def _columns() -> int:
    """Return the columns of the terminal, or those set in the environment."""
    with suppress(KeyError, ValueError):
        if (columns := int(os.environ["COLUMNS"])) > 0:
            return columns
    if (stdout := sys.__stdout__) is not None:
        with suppress(ValueError, OSError):  # stdout is closed, or no terminal
            return os.get_terminal_size(stdout.fileno()).columns or COLUMNS
    return COLUMNS


class OneLineParser(argparse.ArgumentParser):
    """A parser that reports a usage error in one line."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **{"formatter_class": Formatter} | options)
        # `-5s` is a (wrong) value as `-5` is: no option begins with a digit.
        self._negative_number_matcher = re.compile(r"-\.?\d")

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {self.suggested(message)}; --help shows the options\n")

    def called(self, option: str) -> list[str]:
        """Return the options for which this unknown option is another name; subclasses override this."""
        return []

    def suggested(self, message: str) -> str:
        """Return the message, with suggestions of similar options if an option is unknown."""
        import difflib

        unknown = re.findall(r"--[\w-]+", message) if message.startswith("unrecognized") else []
        options = sorted(set(re.findall(r"--[\w-]+", self.format_usage())))
        near = [match for x in unknown for match in self.called(x) or difflib.get_close_matches(x, options, 1)]
        return message + (f" (did you mean {', '.join(near)}?)" if near else "")
