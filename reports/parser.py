"""A parser whose usage errors are one line."""

from __future__ import annotations

import argparse
import os
import re
import sys
from contextlib import suppress
from typing import Any, NoReturn

COLUMNS = 80  # of what is no terminal


class Formatter(argparse.HelpFormatter):
    """As wide as the terminal. argparse itself asks `shutil` for that, at every option, and a command would wait for
    its modules of archives."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=_columns() - 2)


def _columns() -> int:
    """Of the terminal, or as the environment says."""
    with suppress(KeyError, ValueError):
        if (columns := int(os.environ["COLUMNS"])) > 0:
            return columns
    if (stdout := sys.__stdout__) is not None:
        with suppress(ValueError, OSError):  # a closed one, one that is no terminal
            return os.get_terminal_size(stdout.fileno()).columns or COLUMNS
    return COLUMNS


class OneLineParser(argparse.ArgumentParser):
    """Says what is wrong in one line."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **{"formatter_class": Formatter} | options)

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {self.suggested(message)}; --help shows the options\n")

    def suggested(self, message: str) -> str:
        """With the option that an unknown one may have been meant to be."""
        import difflib

        unknown = re.findall(r"--[\w-]+", message) if message.startswith("unrecognized") else []
        options = set(re.findall(r"--[\w-]+", self.format_usage()))
        near = [match for word in unknown for match in difflib.get_close_matches(word, sorted(options), 1)]
        return message + (f" (did you mean {', '.join(near)}?)" if near else "")
