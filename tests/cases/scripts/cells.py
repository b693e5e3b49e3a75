"""A recurrent network as a loop over time in Python."""

import torch
from torch import nn

torch.set_num_threads(1)


class Loop(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rnn, self.head = nn.LSTMCell(16, 32), nn.Linear(32, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        state = None
        for row in x:
            state = self.rnn(row, state)
        return self.head(state[0])


model = Loop()
optimizer = torch.optim.SGD(model.parameters(), 0.01)
for _ in range(10**9):
    optimizer.zero_grad()
    model(torch.randn(80, 16, 16)).square().mean().backward()
    optimizer.step()
