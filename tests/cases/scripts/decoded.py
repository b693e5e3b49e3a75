"""Pictures that are decoded and made smaller in Python before each step, for as long as the step then takes."""

import zlib

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)
stored = [zlib.compress(np.random.default_rng(i).integers(0, 40, 3 * 256 * 256, np.uint8).tobytes()) for i in range(64)]


class Pictures(Dataset):
    def __len__(self) -> int:
        return 64_000

    def __getitem__(self, i: int) -> np.ndarray:
        picture = np.frombuffer(zlib.decompress(stored[i % 64]), np.uint8).reshape(3, 256, 256)
        return picture[:, i % 3 :: 4, i % 4 :: 4].astype(np.float32) / 255


model = nn.Sequential(nn.Conv2d(3, 32, 5, 2), nn.Conv2d(32, 32, 5, 2), nn.ReLU(), nn.Flatten(), nn.Linear(5408, 9))
optimizer = torch.optim.SGD(model.parameters(), 0.01)
for x in DataLoader(Pictures(), batch_size=16, shuffle=True):
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()
