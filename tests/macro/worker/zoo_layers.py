"""More of the zoo: layers that PyTorch makes of several products, and other kinds of work; all of them as one model."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as f

from tests.macro.worker.zoo import BATCH, PARTS, Keeper, given

TIMES, HEADS = 5, 3


class Residual(nn.Module):
    """Sums of branches."""

    def __init__(self, keep: Keeper, path: str) -> None:
        super().__init__()
        self.start = keep.fresh()
        self.first = keep.linear(f"{path}.first", backward=1)
        size = keep.size
        self.up, self.middle = keep.linear(f"{path}.up"), keep.linear(f"{path}.middle")
        keep.note(f"{path}.down", (BATCH, keep.size, size))
        self.down = nn.Linear(keep.size, size)

    def forward(self) -> Tensor:
        x = self.first(given(self.start))
        return x + self.down(self.middle(self.up(x).relu()).relu())


class Cast(nn.Module):
    """In half the bits."""

    def __init__(self, keep: Keeper, path: str) -> None:
        super().__init__()
        self.start = keep.fresh()
        self.layers = nn.ModuleList(keep.linear(f"{path}.layers.{i}", backward=1 + (i > 0)) for i in range(3))
        self.own = keep.parameter(path)

    def forward(self) -> Tensor:
        x = given(self.start)
        with torch.autocast("cpu", torch.bfloat16):
            for layer in self.layers:
                x = layer(x).relu()
            x = f.linear(x, self.own)
        return x.float()


class Pictures(nn.Module):
    """Convolutions and what normalizes them."""

    def __init__(self, keep: Keeper, path: str) -> None:
        super().__init__()
        a, b, c = keep.fresh(), keep.fresh(), keep.fresh()
        self.first, self.second = nn.Conv2d(a, b, 3), nn.Conv2d(b, c, 3, bias=False)
        self.norm, self.last = nn.BatchNorm2d(b), nn.BatchNorm2d(c)
        for name, sizes in (("first", (b, a, 3, 3)), ("second", (c, b, 3, 3)), ("norm", (b,)), ("last", (c,))):
            keep.note(f"{path}.{name}", sizes, backward=1)

    def forward(self) -> Tensor:
        x = torch.randn(2, self.first.in_channels, 9, 9)
        return self.last(self.second(self.norm(self.first(x)).relu()))


class Steps(nn.Module):
    """Recurrent layers: of one operation, of one for each time, of one cell."""

    def __init__(self, keep: Keeper, path: str) -> None:
        super().__init__()
        self.start, wide = keep.fresh(), keep.fresh()
        self.whole = nn.LSTM(self.start, wide)
        keep.note(f"{path}.whole", (4 * wide, self.start), backward=1)
        self.each, self.cell = nn.GRU(self.start, wide), nn.LSTMCell(self.start, wide)
        keep.note(f"{path}.each", (TIMES * BATCH, self.start, 3 * wide), backward=1)
        keep.note(f"{path}.each", (BATCH, wide, 3 * wide), forward=TIMES, backward=2 * TIMES - 1)
        keep.note(f"{path}.cell", (BATCH, self.start, 4 * wide), forward=2, backward=2)
        keep.note(f"{path}.cell", (BATCH, wide, 4 * wide), forward=2, backward=3)

    def forward(self) -> Tensor:
        x = torch.randn(TIMES, BATCH, self.start)
        state = self.cell(x[0])
        return self.whole(x)[0].sum() + self.each(x)[0].sum() + self.cell(x[1], state)[0].sum()


class Attentive(nn.Module):
    """A layer whose own layer is never called: its weights are."""

    def __init__(self, keep: Keeper, path: str) -> None:
        super().__init__()
        head = keep.fresh()
        wide, rows = HEADS * head, TIMES * BATCH
        self.heads = nn.MultiheadAttention(wide, HEADS)
        keep.note(f"{path}.heads", (rows, wide, 3 * wide), backward=1)
        keep.note(f"{path}.heads", (rows, wide, wide))
        keep.note(f"{path}.heads", (HEADS * BATCH, TIMES, TIMES, head), forward=2, backward=4)

    def forward(self) -> Tensor:
        x = torch.randn(TIMES, BATCH, self.heads.embed_dim)
        return self.heads(x, x, x)[0]


LAYERS = {"residual": Residual, "cast": Cast, "pictures": Pictures, "steps": Steps, "attentive": Attentive}


class Zoo(nn.Module):
    """All of them, which a sum joins. `truth`: what is to be seen of each layer, where this is called `net`."""

    def __init__(self, *names: str) -> None:
        super().__init__()
        keep = Keeper()
        for name, make in {**PARTS, **LAYERS}.items():
            if name in names or not names:
                self.add_module(name, make(keep, f"net.{name}"))
        self.truth = keep.truth

    def forward(self) -> Tensor:
        return torch.stack([part().float().sum() for part in self.children()]).sum()
