"""A model that takes the samples of its batch one after another."""

import torch
from torch import nn

torch.set_num_threads(1)


class Each(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(12, 24), nn.Tanh(), nn.Linear(24, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.stack([self.net(sample) for sample in x])


model = Each()
optimizer = torch.optim.SGD(model.parameters(), 0.01)
for _ in range(10**9):
    optimizer.zero_grad()
    model(torch.randn(96, 12)).square().mean().backward()
    optimizer.step()
