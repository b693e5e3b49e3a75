"""A transformer encoder with AdamW and a scheduler: an example for `python -m macro explain`."""

import time

import torch
from torch import nn

torch.manual_seed(0)
torch.set_num_threads(1)
layer = nn.TransformerEncoderLayer(256, 4, 1024, dropout=0.1, batch_first=True)
encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
model = nn.Sequential(nn.Embedding(1000, 256), encoder, nn.Linear(256, 1000))
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
scheduler = torch.optim.lr_scheduler.LinearLR(optimizer)
criterion = nn.CrossEntropyLoss()
tokens, targets = torch.randint(1000, (4, 128)), torch.randint(1000, (4, 128))
last = time.perf_counter()
for step in range(1_000_000):
    optimizer.zero_grad(set_to_none=True)
    loss = criterion(model(tokens).flatten(0, 1), targets.flatten())
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    scheduler.step()
    now = time.perf_counter()
    print(f"{step} {loss.item():.4f} step {now - last:.6f}")
    last = now
