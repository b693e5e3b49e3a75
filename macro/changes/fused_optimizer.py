"""PyTorch's optimizer in one pass over each parameter: fused=True."""

from macro.changes import _optimizers

CHANGE = _optimizers.optimizer("fused", "the optimizer's step in one pass over each parameter (fused=True)")
