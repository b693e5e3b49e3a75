"""An average of the weights, kept by copies of whole state dictionaries."""

import copy

import torch
from torch import nn

torch.set_num_threads(1)
model = nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 1))
average = copy.deepcopy(model)
optimizer = torch.optim.SGD(model.parameters(), 0.01)
for _ in range(10**9):
    optimizer.zero_grad()
    model(torch.randn(8, 256)).square().mean().backward()
    optimizer.step()
    new, old = copy.deepcopy(model.state_dict()), average.state_dict()
    average.load_state_dict({name: 0.99 * old[name] + 0.01 * new[name] for name in old})
