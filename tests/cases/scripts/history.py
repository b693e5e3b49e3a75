"""A metric over all predictions so far, joined anew at every step."""

import torch
from torch import nn

torch.set_num_threads(1)
model = nn.Linear(32, 64)
optimizer = torch.optim.SGD(model.parameters(), 0.01)
predictions: list[torch.Tensor] = []
for _ in range(10**9):
    optimizer.zero_grad()
    output = model(torch.randn(16, 32))
    output.square().mean().backward()
    optimizer.step()
    predictions.append(output.detach())
    spread = torch.cat(predictions).std()
