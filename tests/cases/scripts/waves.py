"""One axis of space and random inputs: neither dropout nor channels last applies."""

import torch
from torch import nn

torch.set_num_threads(1)
model = nn.Sequential(nn.Conv1d(1, 128, 256, 64), nn.ReLU(), nn.Conv1d(128, 1, 1))
optimizer = torch.optim.Adam(model.parameters(), 1e-3)
for _ in range(10**9):
    optimizer.zero_grad()
    model(torch.randn(4, 1, 12000)).abs().mean().backward()
    optimizer.step()
