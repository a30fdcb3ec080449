"""A network of your own: the final one is certified through a checkpoint that saw half of the labels.

Run: python examples/own_network.py
"""

import torch
from torch import nn

import codebound as cb
from codebound.sample.order import Design, arrange


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
    """Certifies f, which saw all labels, by the checkpoint and by fresh inputs on which both are asked."""
    parts = cb.split(cb.load_sample("digits"), {"train": 0.6, "test": 0.4})
    sample = parts["train"]
    unlabelled = parts["test"].select(range(parts["test"].n), role="unlabelled")  # a second draw, no labels
    known, _ = arrange(sample, Design()).split(sample.n // 2)
    f = trained(helper(sample.select(known, role="prior")), sample, steps=60, rate=0.002)  # goes on from it
    found = cb.certify(
        sample,
        network=f,
        known=cb.Known(share=0.5, helper=helper),
        claim=cb.Claim.of_network(unlabelled=unlabelled),
        run=cb.Run(effort="quick"),
    )
    print(found)
    arrays = found.task.f.arrays
    verdict = cb.verify(
        found.certificate, sample, base=found.base, unlabelled=unlabelled, original=arrays
    ).verdict
    print(verdict)


if __name__ == "__main__":
    main()
