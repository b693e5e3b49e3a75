"""A small mobile network: depthwise convolutions between pointwise ones."""

import torch
from torch import nn

torch.set_num_threads(1)


def block(n: int) -> nn.Sequential:
    depth = nn.Conv2d(n, n, 3, padding=1, groups=n, bias=False)
    return nn.Sequential(depth, nn.BatchNorm2d(n), nn.ReLU(), nn.Conv2d(n, n, 1, bias=False), nn.BatchNorm2d(n))


model = nn.Sequential(nn.Conv2d(3, 48, 3, 2, 1), *(block(48) for _ in range(3)), nn.AdaptiveAvgPool2d(1))
optimizer = torch.optim.SGD(model.parameters(), 0.01)
for _ in range(10**9):
    images = torch.randn(8, 3, 96, 96)
    optimizer.zero_grad()
    model(images).square().mean().backward()
    optimizer.step()
