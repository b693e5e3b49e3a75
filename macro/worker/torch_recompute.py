"""Spans of what torch.utils.checkpoint recomputes in backward.

Standard library alone, in the style of Python 3.6. Functions that are no modules have no span, and the paths of what
they call do not show the caller. Reentrant checkpoints are recognized by the name of their node.
"""

import sys

STOPPED = "kg/stopped"  # where a recomputation stops early: its last operation only saved its inputs
NOWHERE = "(checkpoint)"  # path of a checkpoint outside of modules


class Checkpoints(object):
    """Hooks that make each recomputation a span of the module that requested it."""

    def __init__(self, modules):
        self.modules, self.kind, self.init = modules, None, None

    def on(self):
        kind = getattr(sys.modules.get("torch.utils.checkpoint"), "_CheckpointFrame", None)
        if kind is None or self.kind:
            return
        init, again = kind.__init__, self._again
        self.kind, self.init = kind, init

        def noted(frame, recompute, *args, **kwargs):
            init(frame, again(recompute), *args, **kwargs)

        kind.__init__ = noted

    def off(self):
        if self.kind:
            self.kind.__init__ = self.init
        self.kind = None

    def _again(self, recompute):
        modules = self.modules
        if modules.compiling():
            return recompute
        asked = modules.around()
        path = modules.known[id(asked)][0] if id(asked) in modules.known else NOWHERE

        def run(*args, **kwargs):
            if not self.kind or modules.compiling():
                return recompute(*args, **kwargs)
            modules.enter(asked, path)
            try:
                return recompute(*args, **kwargs)
            except Exception as error:
                if type(error).__name__ == "_StopRecomputationError":
                    modules.mark(STOPPED)
                raise
            finally:
                modules.leave(asked)

        return run
