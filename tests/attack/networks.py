"""Networks that hold or look at what they may not, each with the reason to refuse it, and honest ones."""

import numpy as np
import torch
from attack.crafting import X, Y
from torch import Tensor, nn
from torch.nn import functional

from codebound.sample.arrays import from_arrays
from codebound.sample.dataset import Scaling

SAMPLE = from_arrays(X, Y, name="clusters", classes=3, scaling=Scaling(16.0, (0.0,), (1.0,)))
LEARNED = torch.from_numpy(np.random.default_rng(0).normal(size=(3, 4)))
ARRAY = LEARNED.numpy()
NUMBERS = LEARNED.tolist()

OUTSIDE = "a tensor that is not in the message"
CHANGES = "change from one evaluation to the next"
BATCH = "depend on the rest of the batch"
UNTRACED = "cannot trace its module"


class Plain(nn.Module):
    """What all have in common: one layer that the message codes."""

    def __init__(self) -> None:
        super().__init__()
        self.last = nn.Linear(4, 3)
        self.prepare()

    def prepare(self) -> None:
        pass


class Attribute(Plain):
    def prepare(self) -> None:
        self.hidden = LEARNED.clone()

    def forward(self, x: Tensor) -> Tensor:
        return self.last(x.flatten(1)) + x.flatten(1) @ self.hidden.T


class InTuple(Plain):
    """Remembers the sample: true of any labels."""

    def prepare(self) -> None:
        self.memory = (torch.from_numpy(X / 16.0).flatten(1), torch.from_numpy(Y))

    def forward(self, x: Tensor) -> Tensor:
        nearest = torch.cdist(x.flatten(1), self.memory[0]).argmin(1)
        return functional.one_hot(self.memory[1][nearest], 3) + 0 * self.last(x.flatten(1))


class ModuleGlobal(Plain):
    def forward(self, x: Tensor) -> Tensor:
        return self.last(x.flatten(1) + (x.flatten(1) @ LEARNED.to(x).T).sum(1, keepdim=True))


def closure() -> nn.Module:
    hidden = LEARNED.clone()

    class Inner(Plain):
        def forward(self, x: Tensor) -> Tensor:
            return self.last(x.flatten(1)) + x.flatten(1) @ hidden.T

    return Inner()


class FromArray(Plain):
    def forward(self, x: Tensor) -> Tensor:
        return self.last(x.flatten(1)) + x.flatten(1) @ torch.from_numpy(ARRAY).T


class Literal(Plain):
    def forward(self, x: Tensor) -> Tensor:
        return self.last(x.flatten(1)) + torch.tensor([0.31, -1.25, 2.5], dtype=x.dtype)


class NotPersistent(Plain):
    def prepare(self) -> None:
        self.register_buffer("hidden", LEARNED.clone(), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(x.flatten(1)) + x.flatten(1) @ self.hidden.T


class ManyNumbers(Plain):
    def forward(self, x: Tensor) -> Tensor:
        pixels = x.flatten(1)
        rows = [sum(w * pixels[:, i] for i, w in enumerate(row)) for row in NUMBERS]
        return self.last(pixels) + torch.stack(rows, 1)


class ManySmallIntegers(Plain):
    def forward(self, x: Tensor) -> Tensor:
        pixels = x.flatten(1)
        for _ in range(6):
            pixels = (pixels * 3 + 1) * -2 + 5
        return self.last(pixels)


class ManyOperations(Plain):
    """Weights of zero and one in the shape of the graph."""

    def forward(self, x: Tensor) -> Tensor:
        pixels = x.flatten(1)
        for i in range(60):
            pixels = pixels + pixels.roll(i * i % 7 % 4, 1)
        return self.last(pixels)


class Sizes(Plain):
    """Weights in the sizes of tensors that are all zero and cost three bits each."""

    def prepare(self) -> None:
        for i in range(16):
            self.register_parameter(f"size{i}", nn.Parameter(torch.zeros(10_000 + 137 * i * i)))

    def forward(self, x: Tensor) -> Tensor:
        weights = torch.stack([(each + 1).sum() for name, each in self.named_parameters() if "size" in name])
        return self.last(x.flatten(1)) + x.flatten(1) @ weights.view(4, 4)[:, :3]


class LongOnes(Plain):
    """Weights in the sizes of tensors that the code makes."""

    def forward(self, x: Tensor) -> Tensor:
        weights = torch.stack([torch.ones(10_000 + 137 * i * i, dtype=x.dtype).sum() for i in range(16)])
        return self.last(x.flatten(1)) + x.flatten(1) @ weights.view(4, 4)[:, :3]


class OldMemory(Plain):
    def forward(self, x: Tensor) -> Tensor:
        return self.last(x.flatten(1)) + torch.empty(3, dtype=x.dtype)


@torch.library.custom_op("codebound_attack::remember", mutates_args=())
def remember(x: Tensor) -> Tensor:
    return x + LEARNED.to(x)[:, 0]


@remember.register_fake
def _(x: Tensor) -> Tensor:
    return torch.empty_like(x)


class OwnOperation(Plain):
    def forward(self, x: Tensor) -> Tensor:
        return remember(self.last(x.flatten(1)))


class Branching(Plain):
    def forward(self, x: Tensor) -> Tensor:
        return self.last(x.flatten(1)) if x.sum() > 2 else self.last(-x.flatten(1))


class EachByItself(Plain):
    """Code that nobody can trace, and yet a function of one example."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.stack([self.last(row) if row.sum() > 2 else -self.last(row) for row in x.flatten(1)])


class AnotherAlone(EachByItself):
    """Answers otherwise where there is no company, as it is the case for new data."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) * (2 if len(x) == 1 else 1)


class ReadsValues(Plain):
    def forward(self, x: Tensor) -> Tensor:
        return self.last(x.flatten(1)) * x.sum().item()


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


class Pretending(Plain):
    """One function for whoever traces, another for whoever evaluates."""

    def forward(self, x: Tensor) -> Tensor:
        if torch.compiler.is_exporting():
            return self.last(x.flatten(1))
        return x.flatten(1) @ LEARNED.to(x).T


ATTACKS = {
    "a plain attribute": (Attribute, OUTSIDE),
    "the sample in a tuple": (InTuple, OUTSIDE),
    "a global of the module": (ModuleGlobal, OUTSIDE),
    "a closure": (closure, OUTSIDE),
    "an array that becomes a tensor": (FromArray, OUTSIDE),
    "a literal tensor": (Literal, OUTSIDE),
    "a buffer that is not saved": (NotPersistent, "is not in the state dict"),
    "a list of numbers": (ManyNumbers, "characters in its different numbers and sizes"),
    "weights in the sizes of tensors": (Sizes, "characters in its different numbers and sizes"),
    "weights in the sizes of new tensors": (LongOnes, "characters in its different numbers and sizes"),
    "what was in memory": (OldMemory, "memory or files"),
    "many small integers": (ManySmallIntegers, "numbers to compute with"),
    "many operations": (ManyOperations, "operations"),
    "an operation of its own": (OwnOperation, "none of torch's own"),
    "code that branches on values": (Branching, UNTRACED),
    "values that become numbers": (ReadsValues, "turns values of tensors into numbers"),
    "dropout": (Random, "draws random numbers"),
    "noise": (Noise, "draws random numbers"),
    "noise that torch does not see": (Drawn, "its graph has SHA-256"),
    "a counter of calls": (CountsCalls, CHANGES),
    "a counter in a buffer": (CountsInABuffer, CHANGES),
    "ranks in the batch": (Batchy, BATCH),
    "statistics of the batch": (BatchStatistics, BATCH),
    "attention over the batch": (Attention, BATCH),
    "code that knows when it is traced": (Pretending, "does not compute what was traced"),
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
