"""A penalty on gradients: a backward pass through the backward pass."""

import torch
from torch import nn

torch.set_num_threads(1)
critic = nn.Sequential(nn.Linear(256, 512), nn.SiLU(), nn.Linear(512, 512), nn.SiLU(), nn.Linear(512, 1))
optimizer = torch.optim.SGD(critic.parameters(), 1e-4)
for _ in range(10**9):
    x = torch.randn(128, 256, requires_grad=True)
    optimizer.zero_grad()
    score = critic(x).mean()
    (slope,) = torch.autograd.grad(score, x, create_graph=True)
    (score + (slope.norm(dim=1) - 1).square().mean()).backward()
    optimizer.step()
