"""Mixed precision for layers so thin that the casts cost more than the products."""

import torch
from torch import nn

torch.set_num_threads(1)
model = nn.Sequential(nn.Linear(1, 256), nn.ReLU(), nn.Linear(256, 1))
optimizer = torch.optim.SGD(model.parameters(), 1e-4)
x = torch.rand(20_000, 1)
y = torch.cos(x)
for _ in range(10**9):
    optimizer.zero_grad()
    with torch.autocast("cpu", torch.bfloat16):
        z = model(x)
    nn.functional.mse_loss(z.float(), y).backward()
    optimizer.step()
