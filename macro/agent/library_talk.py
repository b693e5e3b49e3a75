"""Verbose output of MKL and oneDNN, separated from a PyTorch script's standard output.

While it is on, standard output goes to a file; the script's lines are written to their destination afterwards.
"""

from __future__ import annotations

import ctypes
import os
import re
import sys
import tempfile
from typing import Any

OUTPUT = 1  # standard output
SWITCHES = "mkl_set_verbose", "mkldnn_set_verbose"
LINES = re.compile(rb"(?:MKL_VERBOSE|(?:onednn|dnnl)_verbose)[^\n]*\n")  # even after an open line
ASKED = "MKL_VERBOSE", "ONEDNN_VERBOSE", "DNNL_VERBOSE"  # variables by which a script requests verbose output itself


class Talk:
    """Verbose mode of the libraries that can switch it at run time.

    Nothing is captured without such a library, or if the script requests verbose output itself."""

    def __init__(self, torch: Any) -> None:
        switches = getattr(torch._C, "_verbose", None)
        self.switches = [getattr(switches, name) for name in SWITCHES if hasattr(switches, name)]
        self.libc = ctypes.CDLL(None)
        self.output: Any = None  # a duplicate of the script's descriptor
        self.file: Any = None

    def start(self) -> None:
        if not self.switches or any(os.environ.get(name) for name in ASKED):
            return
        self._flush()
        try:
            self.output = os.dup(OUTPUT)  # first: a new file could get the number of a closed output
            self.file = tempfile.TemporaryFile()
        except OSError:  # the script has closed its output, or the disk is full
            if self.output is not None:
                os.close(self.output)
            return
        # Line buffering, so that lines of a library and of the script do not mix.
        self.libc.setlinebuf(ctypes.c_void_p.in_dll(self.libc, "stdout"))
        os.dup2(self.file.fileno(), OUTPUT)
        self._switch(1)

    def stop(self) -> Any:
        """End the capture, print the script's lines and return the libraries' lines."""
        if self.file is None:
            return ""
        self._switch(0)
        self._flush()
        self._back()
        self.file.seek(0)
        text = self.file.read()
        self.file.close()
        self.file = None
        rest = LINES.sub(b"", text)
        while rest:
            rest = rest[os.write(OUTPUT, rest) :]
        return b"".join(LINES.findall(text)).decode("utf-8", "replace")

    def forked(self) -> None:
        """Restore the output in a forked child of the script."""
        if self.file is not None:
            self._switch(0)
            self._back()
            self.file = None

    def _back(self) -> None:
        os.dup2(self.output, OUTPUT)
        os.close(self.output)

    def _switch(self, level: int) -> None:
        for switch in self.switches:
            switch(level)

    def _flush(self) -> None:
        try:
            sys.stdout.flush()
        except (AttributeError, ValueError, OSError):
            pass
        self.libc.fflush(None)
