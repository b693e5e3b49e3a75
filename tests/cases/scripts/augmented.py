"""Pictures that are read from bytes and changed in Python, one by one, while the model waits."""

import zlib

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)
stored = [zlib.compress(np.random.default_rng(i).integers(0, 40, 3 * 64 * 64, np.uint8).tobytes()) for i in range(64)]


class Pictures(Dataset):
    def __len__(self) -> int:
        return 64_000

    def __getitem__(self, i: int) -> np.ndarray:
        picture = np.frombuffer(zlib.decompress(stored[i % 64]), np.uint8).reshape(3, 64, 64)
        return np.roll(picture[:, :, :: 1 - 2 * (i % 2)], i % 9, 1).astype(np.float32) / 255


model = nn.Sequential(nn.Conv2d(3, 8, 5, 4), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 225, 4))
optimizer = torch.optim.SGD(model.parameters(), 0.01)
for x in DataLoader(Pictures(), batch_size=32, shuffle=True):
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()
