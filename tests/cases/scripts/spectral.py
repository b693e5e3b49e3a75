"""Weights normalized by many power iterations at every use."""

import torch
from torch import nn
from torch.nn.utils.parametrizations import spectral_norm

torch.set_num_threads(1)
layers = [spectral_norm(nn.Linear(512, 512), n_power_iterations=20) for _ in range(3)]
model = nn.Sequential(layers[0], nn.ReLU(), layers[1], nn.ReLU(), layers[2])
optimizer = torch.optim.SGD(model.parameters(), 0.01)
for _ in range(10**9):
    optimizer.zero_grad()
    model(torch.randn(64, 512)).square().mean().backward()
    optimizer.step()
