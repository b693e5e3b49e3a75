"""A prediction that records its graph, though nobody asks for gradients."""

import torch
from torch import nn

torch.set_num_threads(1)
model = nn.Sequential(*(nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.LayerNorm(64)) for _ in range(100))).eval()
seen = 0.0
for _ in range(10**9):
    seen += float(model(torch.randn(4, 64)).detach().mean())
