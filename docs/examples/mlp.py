"""A perceptron whose gradients of four batches are summed: an example for `python -m macro explain`."""

import time

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(784, 1024)
        self.fc2 = nn.Linear(1024, 1024)
        self.fc3 = nn.Linear(1024, 10)

    def forward(self, x):
        return self.fc3(torch.relu(self.fc2(torch.relu(self.fc1(x)))))


torch.manual_seed(0)
torch.set_num_threads(1)
data = torch.utils.data.TensorDataset(torch.randn(4096, 784), torch.randint(10, (4096,)))
loader = torch.utils.data.DataLoader(data, batch_size=64, shuffle=True)
net = Net()
optimizer = torch.optim.Adam(net.parameters())
criterion = nn.CrossEntropyLoss()
BATCHES = 4  # of a step
count, last = 0, time.perf_counter()
while True:
    for x, labels in loader:
        loss = criterion(net(x), labels) / BATCHES
        loss.backward()
        count += 1
        if count % BATCHES == 0:
            optimizer.step()
            optimizer.zero_grad()
            now = time.perf_counter()
            print(f"{count // BATCHES} {loss.item():.4f} step {now - last:.6f}")
            last = now
