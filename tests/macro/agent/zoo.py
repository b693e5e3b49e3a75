"""A zoo of PyTorch layers, each with sizes that no other has: a product's shape tells which layer made it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as f
from torch.utils.checkpoint import checkpoint

BATCH, TIMES, HEADS = 7, 5, 3
Truth = dict[tuple[int, ...], tuple[str, Counter[str]]]  # by the sizes of a product: its layer's path, its phases


class Keeper:
    """Hands out sizes, and notes what is to be seen of each layer."""

    def __init__(self) -> None:
        self.size, self.truth = 11, Truth()

    def note(self, path: str, sizes: tuple[int, ...], forward: int = 1, backward: int = 2, **more: int) -> None:
        """So many products of these sizes, by phase."""
        phases = Counter({"forward": forward, "backward": backward})
        phases.update({name.replace("_", " "): count for name, count in more.items()})
        self.truth[tuple(sorted(sizes))] = path, +phases

    def linear(self, path: str, **phases: int) -> nn.Linear:
        """From this size to the next; it has a gradient for its input too unless it is said."""
        self.size += 1
        self.note(path, (BATCH, self.size - 1, self.size), **phases)
        return nn.Linear(self.size - 1, self.size)

    def parameter(self, path: str, **phases: int) -> nn.Parameter:
        """Such a layer's weight."""
        return nn.Parameter(self.linear(path, **phases).weight.detach())

    def fresh(self) -> int:
        """A size for what begins anew."""
        self.size += 2
        return self.size


def given(size: int, gradient: bool = False) -> Tensor:
    return torch.randn(BATCH, size, requires_grad=gradient)


class Functional(nn.Module):
    """Parameters of its own, in every way to write a product."""

    def __init__(self, keep: Keeper, path: str) -> None:
        super().__init__()
        self.start = keep.fresh()
        self.weights = nn.ParameterList(keep.parameter(path, backward=1 + (i > 0)) for i in range(4))
        keep.note(path, (BATCH, keep.size, keep.size + 1, 3))
        self.last = nn.Parameter(torch.randn(3, keep.size, keep.size + 1))
        keep.fresh()

    def forward(self) -> Tensor:
        a, b, c, d = self.weights
        x = f.linear(given(self.start), a, torch.ones(len(a)))
        x = f.linear(x.relu(), b) @ c.t()
        x = torch.einsum("bi,oi->bo", x, d)
        return torch.bmm(x.expand(3, *x.shape), self.last)


class Shared(nn.Module):
    """One layer, called three times."""

    def __init__(self, keep: Keeper, path: str) -> None:
        super().__init__()
        size = keep.fresh()
        keep.note(f"{path}.layer", (BATCH, size, size), forward=3, backward=5)
        self.layer = nn.Linear(size, size)

    def forward(self) -> Tensor:
        x = given(self.layer.in_features)
        for _ in range(3):
            x = self.layer(x).tanh()
        return x


class Product(torch.autograd.Function):
    """A product with products in its own gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, w: Tensor) -> Tensor:
        ctx.save_for_backward(x, w)
        return x.mm(w.t())

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
        x, w = ctx.saved_tensors
        return gradient.mm(w), gradient.t().mm(x)


class Custom(nn.Module):
    """A function of its own between two layers."""

    def __init__(self, keep: Keeper, path: str) -> None:
        super().__init__()
        self.start = keep.fresh()
        self.before, self.own = keep.linear(f"{path}.before", backward=1), keep.parameter(path)
        self.after = keep.linear(f"{path}.after")

    def forward(self) -> Tensor:
        return self.after(Product.apply(self.before(given(self.start)), self.own))


class Penalized(nn.Module):
    """A gradient of a gradient: the first is for the input alone."""

    def __init__(self, keep: Keeper, path: str) -> None:
        super().__init__()
        self.start = keep.fresh()
        self.layers = nn.ModuleList(keep.linear(f"{path}.layers.{i}", backward=3, double_backward=2) for i in range(4))

    def forward(self) -> Tensor:
        first = x = given(self.start, gradient=True)
        for layer in self.layers:
            x = layer(x).tanh()
        (gradient,) = torch.autograd.grad(x.sum(), first, create_graph=True)
        return x.sum() + gradient.square().sum()


class Recomputed(nn.Module):
    """Layers and a function, made once more in backward; the last product of one that stops early is not."""

    def __init__(self, keep: Keeper, path: str, reentrant: bool) -> None:
        super().__init__()
        self.start, self.reentrant = keep.fresh(), reentrant
        self.first = keep.linear(f"{path}.first", recompute=1)
        self.bare = keep.parameter(path, recompute=1)
        self.row = nn.Sequential(keep.linear(f"{path}.row.0", recompute=1), nn.Tanh())
        self.last = keep.linear(f"{path}.last", recompute=int(reentrant))

    def inner(self, x: Tensor) -> Tensor:
        x = self.first(x).relu()
        return self.last(self.row(f.linear(x, self.bare)))

    def forward(self) -> Tensor:
        return checkpoint(self.inner, given(self.start, gradient=True), use_reentrant=self.reentrant)


class Frozen(nn.Module):
    """What is not trained: by its weights, or by the mode."""

    def __init__(self, keep: Keeper, path: str) -> None:
        super().__init__()
        self.start = keep.fresh()
        self.teacher = keep.linear(f"{path}.teacher", backward=0)
        self.student = keep.linear(f"{path}.student", backward=1)
        self.still = keep.linear(f"{path}.still", backward=1).requires_grad_(False)
        self.rest = keep.linear(f"{path}.rest")

    def forward(self) -> Tensor:
        with torch.no_grad():
            x = self.teacher(given(self.start))
        return self.rest(self.still(self.student(x)))


class Raising(nn.Module):
    """Fails after a product, in a layer within."""

    def __init__(self, keep: Keeper, path: str) -> None:
        super().__init__()
        self.before = keep.linear(f"{path}.before", backward=0)

    def forward(self, x: Tensor) -> Tensor:
        raise ValueError(self.before(x).shape)


class Careful(nn.Module):
    """Catches what a layer two below raises, and goes on."""

    def __init__(self, keep: Keeper, path: str) -> None:
        super().__init__()
        self.start = keep.fresh()
        self.bad = nn.Sequential(Raising(keep, f"{path}.bad.0"))
        self.again = keep.fresh()
        self.good, self.own = keep.linear(f"{path}.good", backward=1), keep.parameter(path)

    def forward(self) -> Tensor:
        try:
            return self.bad(given(self.start))
        except ValueError:
            return f.linear(self.good(given(self.again)), self.own)


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


PARTS: dict[str, Callable[[Keeper, str], nn.Module]] = {
    "functional": Functional,
    "shared": Shared,
    "custom": Custom,
    "penalized": Penalized,
    "recomputed": lambda keep, path: Recomputed(keep, path, reentrant=False),
    "reentrant": lambda keep, path: Recomputed(keep, path, reentrant=True),
    "frozen": Frozen,
    "careful": Careful,
    "residual": Residual,
    "cast": Cast,
    "pictures": Pictures,
    "steps": Steps,
    "attentive": Attentive,
}


class Zoo(nn.Module):
    """All of them, which a sum joins. `truth`: what is to be seen of each layer, where this is called `net`."""

    def __init__(self, *names: str) -> None:
        super().__init__()
        keep = Keeper()
        for name, make in PARTS.items():
            if name in names or not names:
                self.add_module(name, make(keep, f"net.{name}"))
        self.truth = keep.truth

    def forward(self) -> Tensor:
        return torch.stack([part().float().sum() for part in self.children()]).sum()
