"""Hundreds of small parameters, clipped and updated one after another."""

import torch
from torch import nn

torch.set_num_threads(1)
model = nn.Sequential(*(nn.Sequential(nn.Linear(16, 16), nn.LayerNorm(16)) for _ in range(100)))
optimizer = torch.optim.AdamW(model.parameters(), 1e-4)
for _ in range(10**9):
    x = torch.randn(16, 16)
    optimizer.zero_grad()
    nn.functional.mse_loss(model(x), x).backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
