"""Four times as many threads as cores."""

import os

import torch
from torch import nn

torch.set_num_threads(4 * len(os.sched_getaffinity(0)))
model = nn.Sequential(nn.Linear(300, 600), nn.ReLU(), nn.Linear(600, 300))
optimizer = torch.optim.SGD(model.parameters(), 0.01)
for _ in range(10**9):
    x = torch.randn(200, 300)
    optimizer.zero_grad()
    nn.functional.mse_loss(model(x), x).backward()
    optimizer.step()
