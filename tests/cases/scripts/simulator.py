"""A simulation in plain Python between the steps of a small policy."""

import math

import torch
from torch import nn

torch.set_num_threads(1)
policy = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 1))
optimizer = torch.optim.SGD(policy.parameters(), 0.01)


def swing(force: float) -> list[list[float]]:
    angle, speed, path = 1.0, 0.0, []
    for _ in range(20_000):
        speed += 0.001 * (force - math.sin(angle))
        angle += 0.001 * speed
        path.append([angle, speed])
    return path[::100]


for _ in range(10**9):
    states = torch.tensor(swing(float(policy(torch.ones(2)))))
    optimizer.zero_grad()
    policy(states).square().mean().backward()
    optimizer.step()
