"""Pairwise distances in a loss."""

import torch
from torch import nn

torch.set_num_threads(1)
encoder = nn.Linear(64, 32)
optimizer = torch.optim.SGD(encoder.parameters(), 1e-3)
anchors = torch.randn(500, 32)
for _ in range(10**9):
    optimizer.zero_grad()
    points = encoder(torch.randn(500, 64))
    torch.cdist(points, anchors, compute_mode="donot_use_mm_for_euclid_dist").mean().backward()
    optimizer.step()
