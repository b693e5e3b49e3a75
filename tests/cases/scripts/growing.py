"""A state that is carried on with its history, so that each backward pass is longer than the last."""

import torch
from torch import nn

torch.set_num_threads(1)
memory, reader = nn.GRUCell(24, 48), nn.Linear(48, 2)
optimizer = torch.optim.SGD(reader.parameters(), 1e-3)
state = torch.zeros(24, 48)
for _ in range(10**9):
    state = memory(torch.randn(24, 24), state)
    optimizer.zero_grad()
    reader(state).square().mean().backward(retain_graph=True)
    optimizer.step()
