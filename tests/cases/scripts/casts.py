"""Wide inputs kept as float64, and cast anew at every step."""

import numpy as np
import torch
from torch import nn

torch.set_num_threads(1)
features = np.random.default_rng(2).random((4, 600, 300, 40))
model = nn.Sequential(nn.Linear(300, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), 0.01)
for number in range(10**9):
    x = torch.from_numpy(features[number % 4]).float()
    optimizer.zero_grad()
    model(x.mean(2)).square().mean().backward()
    optimizer.step()
