"""A launcher's setting that leaves all cores but one idle."""

import os

os.environ["OMP_NUM_THREADS"] = "1"

import torch
from torch import nn

model = nn.Sequential(nn.Linear(512, 1024), nn.ReLU(), nn.Linear(1024, 512))
optimizer = torch.optim.SGD(model.parameters(), 0.01)
for _ in range(10**9):
    x = torch.randn(256, 512)
    optimizer.zero_grad()
    nn.functional.mse_loss(model(x), x).backward()
    optimizer.step()
