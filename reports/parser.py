"""A parser whose usage errors are one line."""

from __future__ import annotations

import argparse
import re
from typing import NoReturn


class OneLineParser(argparse.ArgumentParser):
    """Says what is wrong in one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {self.suggested(message)}; --help shows the options\n")

    def suggested(self, message: str) -> str:
        """With the option that an unknown one may have been meant to be."""
        import difflib

        unknown = re.findall(r"--[\w-]+", message) if message.startswith("unrecognized") else []
        options = set(re.findall(r"--[\w-]+", self.format_usage()))
        near = [match for word in unknown for match in difflib.get_close_matches(word, sorted(options), 1)]
        return message + (f" (did you mean {', '.join(near)}?)" if near else "")
