"""A network of your own: a checkpoint that saw half of the labels is certified, the final one through it.

Run: python examples/own_network.py
"""

import tempfile
from pathlib import Path

import torch
from torch import nn

import codebound as cb
from codebound.sample.order import Design, arrange
from codebound_networks import bound_through


def trained(model: nn.Module, data: cb.Sample, *, steps: int, rate: float) -> nn.Module:
    """The model after some steps on all of the data at once."""
    x, y = data.scaling.apply(torch.from_numpy(data.x)), torch.from_numpy(data.y)
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    for _ in range(steps):
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return model.eval()


def helper(first: cb.Sample) -> nn.Module:
    """The checkpoint: it is given the first part of the sample, and nothing else."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    return trained(model, first, steps=150, rate=0.01)


def main() -> None:
    """Certifies the checkpoint g, then bounds f, which saw all labels, through it."""
    parts = cb.split(cb.load_sample("digits"), {"train": 0.6, "test": 0.4})
    sample = parts["train"]
    unlabelled = parts["test"].select(range(parts["test"].n), role="unlabelled")  # a second draw, no labels
    found = cb.certify(
        sample,
        method="prune",
        delta=0.025,
        known=cb.Known(share=0.5, helper=helper),
        run=cb.Run(effort="quick"),
    )
    print(found)
    assert found.base is not None
    with tempfile.TemporaryDirectory() as folder:
        path = found.save(Path(folder) / "g.cbound")
        print(cb.verify(path, sample, base=found.base).verdict)
        known, _ = arrange(sample, Design()).split(sample.n // 2)
        first = sample.select(known, role="prior")
        f = trained(helper(first), sample, steps=60, rate=0.002)  # goes on from the checkpoint
        through = bound_through(path, f, sample=sample, unlabelled=unlabelled, base=found.base, delta=0.025)
    print(through.sentence)


if __name__ == "__main__":
    main()
