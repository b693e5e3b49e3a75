"""PyTorch's optimizer over all parameters at once: foreach=True."""

from macro.changes import _optimizers

CHANGE = _optimizers.optimizer("foreach", "the optimizer's step over all parameters at once (foreach=True)")
