"""A checkpoint of model and optimizer every 25 steps."""

import tempfile

import torch
from torch import nn

torch.set_num_threads(1)
model = nn.Sequential(nn.Embedding(150_000, 32), nn.Flatten(), nn.Linear(320, 64), nn.ReLU(), nn.Linear(64, 1))
model[0].requires_grad_(False)
optimizer = torch.optim.SGD(model[2:].parameters(), 0.01, momentum=0.9)
place = tempfile.NamedTemporaryFile(suffix=".pt")
for number in range(10**9):
    optimizer.zero_grad()
    model(torch.randint(150_000, (1024, 10))).square().mean().backward()
    optimizer.step()
    if number % 25 == 24:
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, place.name)
