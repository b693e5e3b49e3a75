"""A large table of which a batch touches a few hundred rows, and an optimizer that updates all."""

import torch
from torch import nn

torch.set_num_threads(1)
table, top = nn.Embedding(150_000, 24), nn.Linear(24, 1)
optimizer = torch.optim.Adam([*table.parameters(), *top.parameters()], 1e-3)
for _ in range(10**9):
    optimizer.zero_grad()
    top(table(torch.randint(150_000, (48, 10))).sum(1)).square().mean().backward()
    optimizer.step()
