"""Convolutions with their fast library switched off, as a workaround of a bug long mended."""

import torch
from torch import nn

torch.set_num_threads(1)
torch.backends.mkldnn.set_flags(False)
model = nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 32, 3, padding=1), nn.ReLU())
optimizer = torch.optim.SGD(model.parameters(), 0.01)
for _ in range(10**9):
    optimizer.zero_grad()
    model(torch.randn(4, 3, 56, 56)).square().mean().backward()
    optimizer.step()
