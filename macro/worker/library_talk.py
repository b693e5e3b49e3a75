"""What MKL and oneDNN print of their calls, taken out of a PyTorch program's standard output.

Standard library and torch alone, in the style of Python 3.6. While they are asked, what is printed goes into a file;
the program's own lines go where they would have gone when that is over.
"""

import ctypes
import os
import sys
import tempfile

OUTPUT = 1  # the descriptor
SWITCHES = "mkl_set_verbose", "mkldnn_set_verbose"
MARKS = b"MKL_VERBOSE", b"onednn_verbose", b"dnnl_verbose"  # how their lines begin


class Talk(object):
    """Of the libraries that can be asked while a program runs; without one, or an output, of none."""

    def __init__(self, torch):
        switches = getattr(torch._C, "_verbose", None)
        self.switches = [getattr(switches, name) for name in SWITCHES if hasattr(switches, name)]
        self.libc, self.output, self.file = ctypes.CDLL(None), None, None

    def start(self):
        if not self.switches:
            return
        self._flush()
        try:
            self.output = os.dup(OUTPUT)
        except OSError:  # the program has closed it
            return
        self.file = tempfile.TemporaryFile()
        # Else a line of a library's is cut where C's buffer ends, and one of the program's may come between.
        self.libc.setlinebuf(ctypes.c_void_p.in_dll(self.libc, "stdout"))
        os.dup2(self.file.fileno(), OUTPUT)
        self._switch(1)

    def stop(self):
        """Their lines."""
        if self.file is None:
            return ""
        self._switch(0)
        self._flush()
        os.dup2(self.output, OUTPUT)
        os.close(self.output)
        self.file.seek(0)
        lines = self.file.read().splitlines(True)
        self.file.close()
        self.file = None
        own = b"".join(line for line in lines if not line.startswith(MARKS))
        while own:
            own = own[os.write(OUTPUT, own) :]
        return b"".join(line for line in lines if line.startswith(MARKS)).decode("utf-8", "replace")

    def _switch(self, level):
        for switch in self.switches:
            switch(level)

    def _flush(self):
        try:
            sys.stdout.flush()
        except (AttributeError, ValueError, OSError):
            pass
        self.libc.fflush(None)
