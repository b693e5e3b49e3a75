"""A histogram of every gradient, at every step."""

import numpy as np
import torch
from torch import nn

torch.set_num_threads(1)
model = nn.Sequential(nn.Linear(128, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 8))
optimizer = torch.optim.SGD(model.parameters(), 0.01)
log: dict[str, np.ndarray] = {}
for _ in range(10**9):
    optimizer.zero_grad()
    model(torch.randn(64, 128)).square().mean().backward()
    for name, parameter in model.named_parameters():
        log[name], _ = np.histogram(parameter.grad.numpy(), 64)
    optimizer.step()
