"""Batches of very different lengths: no step is like the next, and none is wrong."""

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(0)
reader, head = nn.GRU(32, 64, batch_first=True), nn.Linear(64, 1)
optimizer = torch.optim.SGD([*reader.parameters(), *head.parameters()], 0.01)
for _ in range(10**9):
    optimizer.zero_grad()
    hidden, _ = reader(torch.randn(16, int(torch.randint(5, 120, ())), 32))
    head(hidden).square().mean().backward()
    optimizer.step()
