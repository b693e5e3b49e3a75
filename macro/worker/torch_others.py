"""Coexistence with a script's own profilers, and with its spans that stay open over many steps.

Standard library and torch alone, in the style of Python 3.6. A profiler that starts while another is on takes its place
and its events. A span that begins under one profiler and ends under the next writes where its predecessor's memory was,
and the process crashes; so all spans that are open when ours stops are ended there.
"""

import threading

import torch_watch  # beside this file


class Spans(torch_watch.Spans):
    """Spans that survive the script's profilers; `foreign()` is called before one starts."""

    def __init__(self, torch, foreign):
        torch_watch.Spans.__init__(self, torch)
        self.starting, self.thread, self.open, self.cut = False, None, {}, {}
        self.kind = torch.autograd.profiler.record_function
        self.ways = self.kind.__enter__, self.kind.__exit__
        self._tell(torch.autograd.profiler.profile, foreign)

    def _tell(self, kind, foreign):
        """Call `foreign` at every start of a profiler, except ours."""
        begin = getattr(kind, "_start_trace", None)  # PyTorch 1.8
        if begin is None:
            return

        def start_trace(profile):
            if not self.starting:
                foreign()
            return begin(profile)

        kind._start_trace = start_trace

    def start(self, shapes):
        self.starting = True
        try:
            torch_watch.Spans.start(self, shapes)
        finally:
            self.starting = False
        self.thread = threading.get_ident()
        self.kind.__enter__ = lambda span: self._enter(span)
        self.kind.__exit__ = lambda span, *error: self._leave(span, *error)

    def stop(self):
        if self.profiler is None:
            return
        self.kind.__enter__ = self.ways[0]
        while self.open:
            key, span = self.open.popitem()  # the last one first
            self.ways[1](span, None, None, None)
            self.cut[key] = span
        torch_watch.Spans.stop(self)
        self._restore()

    def _enter(self, span):
        if threading.get_ident() == self.thread:  # others have no profiler
            self.open[id(span)] = span
        return self.ways[0](span)

    def _leave(self, span, *error):
        if self.cut.pop(id(span), None) is None:
            self.open.pop(id(span), None)
            return self.ways[1](span, *error)
        self._restore()
        return None

    def _restore(self):
        if self.profiler is None and not self.cut:
            self.kind.__exit__ = self.ways[1]
