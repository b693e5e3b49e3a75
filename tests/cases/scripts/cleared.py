"""Gradients that are cleared in place before each step, as was the default for years."""

import torch
from torch import nn

torch.set_num_threads(1)
model = nn.Sequential(nn.Linear(512, 2048), nn.ReLU(), nn.Linear(2048, 512))
optimizer = torch.optim.SGD(model.parameters(), 0.01)
for _ in range(10**9):
    optimizer.zero_grad(set_to_none=False)
    model(torch.randn(4, 512)).square().mean().backward()
    optimizer.step()
