"""A checkpoint every 40 steps and a validation every 90."""

import tempfile

import torch
from torch import nn

torch.set_num_threads(1)
model = nn.Sequential(nn.Linear(512, 1024), nn.ReLU(), nn.Linear(1024, 512))
optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9)
kept = torch.rand(120, 64, 512)
place = tempfile.NamedTemporaryFile(suffix=".pt")
table = torch.rand(60_000, 64)
for number in range(10**9):
    optimizer.zero_grad()
    model(torch.rand(16, 512)).square().mean().backward()
    optimizer.step()
    if number % 40 == 39:
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "table": table}, place.name)
    if number % 90 == 89:
        with torch.no_grad():
            errors = [model(x).square().mean().item() for x in kept]
