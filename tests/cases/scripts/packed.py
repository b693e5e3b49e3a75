"""Sequences of several lengths, packed, through a recurrent network."""

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

torch.set_num_threads(1)


class Tagger(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rnn, self.head = nn.LSTM(32, 64, batch_first=True), nn.Linear(64, 3)

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        packed = pack_padded_sequence(x, lengths, batch_first=True)
        hidden, _ = pad_packed_sequence(self.rnn(packed)[0], batch_first=True, total_length=x.shape[1])
        return self.head(hidden)


model = Tagger()
optimizer = torch.optim.SGD(model.parameters(), 0.01)
lengths = torch.arange(120, 120 - 32 * 2, -2)
for _ in range(10**9):
    optimizer.zero_grad()
    model(torch.randn(32, 120, 32), lengths).square().mean().backward()
    optimizer.step()
