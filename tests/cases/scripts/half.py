"""A model in float16 on a processor that has no such arithmetic."""

import torch
from torch import nn

torch.set_num_threads(1)
model = nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 512)).half().eval()
with torch.inference_mode():
    for _ in range(10**9):
        model(torch.randn(256, 512).half())
