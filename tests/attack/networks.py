"""Networks that are no functions of one example, each with the reason to refuse it, and honest ones."""

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from worlds.samples import written_clusters

SAMPLE = written_clusters(200)


class Plain(nn.Module):
    """What all have in common: one layer that the message codes."""

    def __init__(self) -> None:
        super().__init__()
        self.last = nn.Linear(4, 3)
        self.prepare()

    def prepare(self) -> None:
        pass


class EachByItself(Plain):
    """Code that nobody can trace, and yet a function of one example."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.stack([self.last(row) if row.sum() > 2 else -self.last(row) for row in x.flatten(1)])


class AnotherAlone(EachByItself):
    """Answers otherwise where there is no company, as it is the case for new data."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) * (2 if len(x) == 1 else 1)


class Random(Plain):
    def forward(self, x: Tensor) -> Tensor:
        return self.last(functional.dropout(x.flatten(1), training=True))


class Noise(Plain):
    def forward(self, x: Tensor) -> Tensor:
        return self.last(x.flatten(1) + torch.randn(4, dtype=x.dtype))


class Drawn(Plain):
    """Draws without torch, so that no operation shows it."""

    def forward(self, x: Tensor) -> Tensor:
        return self.last(x.flatten(1)) * np.random.default_rng().random()


class CountsCalls(Plain):
    calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return self.last(x.flatten(1)) * self.calls


class CountsInABuffer(Plain):
    def prepare(self) -> None:
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        self.calls.add_(1)
        return self.last(x.flatten(1)) * self.calls


class Batchy(Plain):
    """Sorts the batch by brightness and hands out classes by rank."""

    def forward(self, x: Tensor) -> Tensor:
        rank = x.flatten(1).sum(1).argsort().argsort()
        return functional.one_hot(rank * 3 // len(x), 3) + 0 * self.last(x.flatten(1))


class BatchStatistics(Plain):
    def forward(self, x: Tensor) -> Tensor:
        return self.last(functional.batch_norm(x, None, None, training=True).flatten(1))


class Attention(Plain):
    def forward(self, x: Tensor) -> Tensor:
        pixels = x.flatten(1)
        return self.last((pixels @ pixels.T).softmax(1) @ pixels)


ATTACKS = {
    "dropout": Random,
    "noise": Noise,
    "noise that torch does not see": Drawn,
    "a counter of calls": CountsCalls,
    "a counter in a buffer": CountsInABuffer,
    "ranks in the batch": Batchy,
    "statistics of the batch": BatchStatistics,
    "attention over the batch": Attention,
    "another answer alone": AnotherAlone,
}


class Residual(nn.Module):
    """An honest network: shapes, dtypes, asserts, batch norm with running statistics, dropout in training."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 2, 3, padding=1)
        self.norm = nn.BatchNorm2d(2)
        self.drop = nn.Dropout(0.3)
        self.last = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        assert x.dim() == 4
        assert x.size(1) == 1
        y = functional.relu(self.norm(self.conv(x))) + x * torch.arange(1, 3, dtype=x.dtype)
        return self.last(self.drop(y.view(len(x), -1)))
