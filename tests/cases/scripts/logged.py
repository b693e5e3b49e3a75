"""A line of metrics at every step, sent to a server that answers when it likes."""

import socket
import threading
import time

import torch
from torch import nn

torch.set_num_threads(1)
near, far = socket.socketpair()


def serve() -> None:
    while far.recv(100):
        time.sleep(0.008)
        far.send(b"ok")


threading.Thread(target=serve, daemon=True).start()
model = nn.Sequential(nn.Linear(300, 300), nn.ReLU(), nn.Linear(300, 1))
optimizer = torch.optim.SGD(model.parameters(), 0.01)
for number in range(10**9):
    optimizer.zero_grad()
    (loss := model(torch.randn(256, 300)).square().mean()).backward()
    optimizer.step()
    near.send(f"{number} {loss.item()}".encode())
    near.recv(100)
