# ruff: noqa: E501
"""Scripts as users write them: several statements a line, in the ways that have been traps."""

from __future__ import annotations

from typing import Any

HEAD = """
import torch
from torch import nn
torch.manual_seed(0); torch.set_num_threads(1)
class Net(nn.Module):
    def __init__(self):
        super().__init__(); self.fc1 = nn.Linear(256, 512); self.fc2 = nn.Linear(512, 512); self.out = nn.Linear(512, 10)
    def forward(self, x): return self.out(torch.relu(self.fc2(torch.relu(self.fc1(x)))))
net = Net(); optimizer = torch.optim.SGD(net.parameters(), lr=0.01); x = torch.randn(64, 256); y = torch.randint(10, (64,))
def once(net=net, optimizer=optimizer):
    optimizer.zero_grad(); loss = nn.functional.cross_entropy(net(x), y); loss.backward(); optimizer.step(); return loss
"""
FOREVER = "\nwhile True: once()\n"

# Short epochs, of a data loader whose workers' threads end with each.
EPOCHS = """
from torch.utils.data import DataLoader, TensorDataset
data = TensorDataset(torch.randn(2048, 256), torch.randint(10, (2048,)))
while True:
    for x, y in DataLoader(data, batch_size=64, num_workers=2): once()
"""

MARKED = """
import time
from kernelgap import step
import numpy as np
a = np.ones((300, 300))
while True:
    with step():
        b = a @ a
"""

# A script that fails while it is watched.
FAILS = (
    HEAD
    + """
import time
for n in range(10**9):
    once()
    if n > 5000: 1 / 0
"""
)
# By name: the script, words of the command if any, rows that it must have.
TRAPS: dict[str, tuple[Any, ...]] = {
    "plain": (HEAD + FOREVER, {"net.fc1 forward", "net.fc2 backward", "optimizer update"}),
    "bare except": (HEAD + "\nwhile True:\n    try: once()\n    except: pass\n", {"net.fc1 forward"}),
    "step of the script": (
        HEAD + "\ndef train(): return once()\nwhile True: train()\n",
        ("--step", "train:train"),
        {"net.fc1 forward"},
    ),
    "with step": (
        HEAD + "\nfrom kernelgap import step\nwhile True:\n    with step(): once()\n",
        {"net.fc1 forward", "optimizer update"},
    ),
    "inference": (
        HEAD + "\nwith torch.no_grad():\n    while True: net(x)\n",
        ("--step", "forward"),
        {"net.fc2 forward"},
    ),
    "no optimizer": (
        HEAD + "\nwhile True:\n    nn.functional.cross_entropy(net(x), y).backward()\n"
        "    with torch.no_grad():\n        for p in net.parameters(): p -= 0.01 * p.grad; p.grad = None\n",
        {"net.fc2 forward", "net.fc2 backward"},
    ),
    "two optimizers": (
        HEAD
        + "\nother = Net(); slow = torch.optim.SGD(other.parameters(), lr=0.1)\nn = 0\nwhile True:\n    once(); n += 1\n"
        "    if n % 5 == 0: once(other, slow)\n",
        {"net.fc1 forward", "other.fc1 forward", "optimizer update", "slow update"},
    ),
    "LBFGS": (
        HEAD + "\nlb = torch.optim.LBFGS(net.parameters(), max_iter=2)\ndef closure():\n    lb.zero_grad()\n"
        "    loss = nn.functional.cross_entropy(net(x), y); loss.backward(); return loss\nwhile True: lb.step(closure)\n",
        {"net.fc1 forward", "net.fc2 backward", "lb update"},
    ),
    "accumulation": (
        HEAD + "\nwhile True:\n    for _ in range(3): nn.functional.cross_entropy(net(x), y).backward()\n"
        "    optimizer.step(); optimizer.zero_grad()\n",
        {"net.fc1 forward"},
    ),
    "workers": (
        HEAD.replace("net = Net()", "if __name__ != '__main__': raise SystemExit\nnet = Net()")
        + "\ndata = torch.utils.data.TensorDataset(torch.randn(640, 256), torch.randint(10, (640,)))\nwhile True:\n"
        "    for x, y in torch.utils.data.DataLoader(data, batch_size=64, num_workers=2, persistent_workers=False): once()\n",
        {"net.fc1 forward", "(data loader) data"},
    ),
    "a profiler of its own that has ended": (
        HEAD + "\nwith torch.profiler.profile() as seen:\n    for _ in range(5): once()\nwhile True: once()\n",
        {"net.fc1 forward"},
    ),
    "spans that stay open over steps": (  # the process died of what they wrote when they ended
        HEAD + "\nfrom kernelgap import step\nn, span = 0, torch.profiler.record_function('epoch')\nspan.__enter__()\n"
        "while True:\n    with step(): once()\n    n += 1\n    if n % 13 == 0:\n        span.__exit__(None, None, None)\n"
        "        span = torch.profiler.record_function('epoch'); span.__enter__()\n",
        {"net.fc1 forward", "optimizer update"},
    ),
    "an optimizer that fails": (
        HEAD + "\nclass Bad(torch.optim.SGD):\n    n = 0\n    def step(self, closure=None):\n        Bad.n += 1\n"
        "        if Bad.n % 3 == 0: raise ValueError('caught')\n        return super().step(closure)\n"
        "bad = Bad(net.parameters(), lr=0.1)\nwhile True:\n    try: once(net, bad)\n    except ValueError: pass\n",
        {"net.fc1 forward", "net.fc2 backward"},
    ),
    "a new optimizer each epoch": (
        HEAD + "\nwhile True:\n    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)\n"
        "    for _ in range(40): once(net, optimizer)\n",
        {"net.fc1 forward", "optimizer update"},
    ),
    "a compiled update": (
        HEAD + "\nupdate = torch.compile(optimizer.step, backend='eager')\nwhile True:\n    optimizer.zero_grad()\n"
        "    nn.functional.cross_entropy(net(x), y).backward(); update()\n",
        {"net.fc1 forward", "net.fc2 backward"},
    ),
    "another thread trains": (
        HEAD + "\nimport threading\ndef train():\n    while True: once()\nthread = threading.Thread(target=train)\n"
        "thread.start(); thread.join()\n",
        {"net.fc1 forward"},
    ),
    "two threads": (HEAD.replace("set_num_threads(1)", "set_num_threads(2)") + FOREVER, {"net.fc1 forward"}),
    "compiled": (HEAD + "\nfast = torch.compile(net, backend='eager')\nwhile True: once(fast)\n", {"optimizer update"}),
    "children that end as the script does, and some that step": (
        HEAD + "\nimport os\nfor _ in range(3):\n    if not os.fork(): raise SystemExit\n    os.wait()\nwhile True:\n"
        "    once()\n    if not os.fork():\n        once(); os._exit(0)\n    os.wait()\n",
        {"net.fc1 forward"},
    ),
    "data parallel": (
        HEAD
        + "\nimport os, torch.distributed as dist\nos.environ.update(MASTER_ADDR='127.0.0.1', MASTER_PORT='29611')\n"
        "dist.init_process_group('gloo', rank=0, world_size=1)\nddp = nn.parallel.DistributedDataParallel(net)\n"
        "while True: once(ddp)\n",
        {"ddp.module.fc1 forward", "ddp.module.fc2 backward"},
    ),
    "stop at once": (HEAD + FOREVER, ("--stop", "exit"), {"net.fc1 forward"}),
    "ends by itself": (
        HEAD + "\nimport time\nfor _ in range(2500): once()\n",
        ("--budget", "100s"),
        {"net.fc1 forward"},
    ),
}
