"""An optimizer that calls the model many times within a step."""

import torch
from torch import nn

torch.set_num_threads(1)
model = nn.Sequential(*(nn.Sequential(nn.Linear(96, 96), nn.Tanh()) for _ in range(10)), nn.Linear(96, 1))
optimizer = torch.optim.LBFGS(model.parameters(), 0.2, max_iter=6, tolerance_grad=0, tolerance_change=0)
x = torch.randn(128, 96)


def closure() -> torch.Tensor:
    optimizer.zero_grad()
    (loss := nn.functional.mse_loss(model(x), x.norm(dim=1, keepdim=True))).backward()
    return loss


for _ in range(10**9):
    optimizer.step(closure)
