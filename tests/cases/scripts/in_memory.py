"""A data set in memory, fetched and stacked sample by sample."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
loader = DataLoader(TensorDataset(torch.randn(60_000, 16), torch.randn(60_000, 1)), batch_size=600, shuffle=True)
model = nn.Linear(16, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.01)
for _ in range(10**6):
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
