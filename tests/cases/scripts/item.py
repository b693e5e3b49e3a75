"""A loss that is read at every step, which costs nothing on a processor: the products do."""

import torch
from torch import nn

torch.set_num_threads(1)
model = nn.Sequential(nn.Linear(512, 1024), nn.ReLU(), nn.Linear(1024, 512))
optimizer = torch.optim.SGD(model.parameters(), 0.01)
total = 0.0
for _ in range(10**9):
    x = torch.randn(256, 512)
    optimizer.zero_grad()
    (loss := nn.functional.mse_loss(model(x), x)).backward()
    optimizer.step()
    total += loss.item()
