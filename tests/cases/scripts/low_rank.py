"""An adapter of low rank, multiplied out to a full matrix before it is used."""

import torch
from torch import nn

torch.set_num_threads(1)


class Adapted(nn.Linear):
    def __init__(self, n: int) -> None:
        super().__init__(n, n)
        self.up, self.down = nn.Parameter(torch.zeros(n, 8)), nn.Parameter(torch.randn(8, n))
        self.weight.requires_grad_(False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.linear(x, self.weight + self.up @ self.down, self.bias)


model = nn.Sequential(Adapted(1024), nn.ReLU(), Adapted(1024))
optimizer = torch.optim.SGD([x for x in model.parameters() if x.requires_grad], 0.01)
for _ in range(10**9):
    optimizer.zero_grad()
    model(torch.randn(16, 1024)).square().mean().backward()
    optimizer.step()
