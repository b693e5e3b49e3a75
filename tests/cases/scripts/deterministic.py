"""Reproducibility for a run in which nobody needs it any more."""

import torch
from torch import nn

torch.set_num_threads(1)
torch.use_deterministic_algorithms(True)
position = torch.randint(300, (40_000,))
model = nn.Linear(24, 32)
optimizer = torch.optim.SGD(model.parameters(), 0.01)
for _ in range(10**9):
    optimizer.zero_grad()
    rows = model(torch.randn(300, 24))
    rows[position].square().mean().backward()
    optimizer.step()
