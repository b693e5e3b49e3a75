"""Weights normalized by many power iterations at every use."""

import torch
from torch import nn
from torch.nn.utils.parametrizations import spectral_norm

torch.set_num_threads(1)
layer = spectral_norm(nn.Linear(1024, 1024), n_power_iterations=20)
model = nn.Sequential(nn.Linear(64, 1024), nn.ReLU(), layer, nn.ReLU(), nn.Linear(1024, 1))
optimizer = torch.optim.SGD(model.parameters(), 0.01)
for _ in range(10**9):
    optimizer.zero_grad()
    model(torch.randn(16, 64)).square().mean().backward()
    optimizer.step()
