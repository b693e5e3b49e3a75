"""A debugging aid of the first week that stayed in the code."""

import torch
from torch import nn

torch.set_num_threads(1)
torch.autograd.set_detect_anomaly(True)
model = nn.Sequential(*(nn.Sequential(nn.Linear(200, 200), nn.GELU()) for _ in range(8)), nn.Linear(200, 1))
optimizer = torch.optim.Adam(model.parameters(), 1e-3)
for _ in range(10**9):
    optimizer.zero_grad()
    model(torch.randn(192, 200)).square().mean().backward()
    optimizer.step()
