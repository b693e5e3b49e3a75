"""A language model of two LSTM layers: an example for `python -m macro explain`."""

import argparse
import time

import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    def __init__(self, vocabulary, size, layers):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, size)
        self.lstm = nn.LSTM(size, size, layers, batch_first=True, dropout=0.2)
        self.out = nn.Linear(size, vocabulary)

    def forward(self, tokens):
        hidden, _ = self.lstm(self.embed(tokens))
        return self.out(hidden)


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--vocabulary", type=int, default=10_000)
    options.add_argument("--size", type=int, default=200)
    options.add_argument("--batch", type=int, default=10)
    given = options.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = Model(given.vocabulary, given.size, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    text = torch.randint(given.vocabulary, (given.batch, 35 * 100 + 1))
    last = time.perf_counter()
    for step in range(1_000_000):
        at = step % 100 * 35
        optimizer.zero_grad()
        logits = model(text[:, at : at + 35])
        loss = F.cross_entropy(logits.flatten(0, 1), text[:, at + 1 : at + 36].flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        optimizer.step()
        now = time.perf_counter()
        print(f"{step} {loss.item():.4f} step {now - last:.6f}")
        last = now


if __name__ == "__main__":
    main()
