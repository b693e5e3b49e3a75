"""Messages of a graph, added by an index that is repeated for every feature."""

import torch
from torch import nn

torch.set_num_threads(1)
source, target = torch.randint(4000, (2, 50_000))


class Gather(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Linear(48, 48)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        messages = self.weight(x).index_select(0, source)
        return torch.zeros_like(x).scatter_add_(0, target.unsqueeze(1).repeat(1, 48), messages)


model = nn.Sequential(Gather(), nn.Tanh(), Gather())
optimizer = torch.optim.SGD(model.parameters(), 0.01)
nodes = torch.randn(4000, 48)
for _ in range(10**9):
    optimizer.zero_grad()
    model(nodes).square().mean().backward()
    optimizer.step()
