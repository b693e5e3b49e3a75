"""A tiny language model before a large vocabulary."""

import torch
from torch import nn

torch.set_num_threads(1)


class Words(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.enter, self.body, self.head = nn.Embedding(16_000, 48), nn.Linear(48, 48), nn.Linear(48, 16_000)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(self.enter(x)).tanh())


model = Words()
optimizer = torch.optim.SGD(model.parameters(), 0.01)
for _ in range(10**9):
    words = torch.randint(16_000, (128,))
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(words), words.roll(1)).backward()
    optimizer.step()
