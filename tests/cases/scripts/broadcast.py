"""One small matrix times many vectors, written as a product that is broadcast over the batch."""

import torch
from torch import nn

torch.set_num_threads(1)


class Turn(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.matrix = nn.Parameter(torch.eye(48).repeat(4, 1, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (self.matrix @ x.unsqueeze(-1)).squeeze(-1)


model = nn.Sequential(Turn(), nn.Flatten(), nn.Linear(192, 5))
optimizer = torch.optim.SGD(model.parameters(), 0.01)
for _ in range(10**9):
    optimizer.zero_grad()
    model(torch.randn(1024, 4, 48)).square().mean().backward()
    optimizer.step()
