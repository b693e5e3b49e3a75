"""A batch made of a list of arrays, number by number."""

import numpy as np
import torch
from torch import nn

torch.set_num_threads(1)
frames = [np.random.default_rng(i).random((3, 40, 40), np.float32) for i in range(200)]
model = nn.Sequential(nn.Conv2d(3, 8, 5, 3), nn.ReLU(), nn.Flatten(), nn.LazyLinear(4))
model(torch.zeros(1, 3, 40, 40))
optimizer = torch.optim.SGD(model.parameters(), 0.01)
for number in range(10**9):
    x = torch.tensor([frames[(number + i) % 200] for i in range(24)])
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()
