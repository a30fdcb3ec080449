"""Any training of yours: a network of half of the labels encodes the rest, and picks are made there.

Run: python examples/helper.py
"""

import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from torch import nn

import codebound as cb
from codebound.bounds.risk import percent


def make(first: cb.Sample) -> nn.Module:
    """Your training: it is handed the first part of the sample, and nothing else."""
    torch.manual_seed(0)
    network = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(1024, 48),
        nn.ReLU(),
        nn.Linear(48, 10),
    )
    x, y = first.scaling.apply(torch.from_numpy(first.x)), torch.from_numpy(first.y)
    optimizer = torch.optim.Adam(network.parameters(), lr=0.003)
    for _ in range(60):
        optimizer.zero_grad()
        nn.functional.cross_entropy(network(x), y).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return network


def main() -> None:
    """Certifies, shows the offers side by side, and runs g on stored inputs."""
    parts = cb.split(cb.load_sample("digits"), {"train": 0.8, "test": 0.2})
    sample, test = parts["train"], parts["test"]
    found = cb.certify(sample, test=test, known=cb.Known(share=0.5, helper=make), run=cb.Run(effort="quick"))
    print(found)
    for offer in found.offers:
        print(f"  {offer['name']}: {percent(offer['bound'])} ({offer['price']})")
    stored = torch.from_numpy(test.x[:8])
    print(found.classifier(stored).argmax(dim=1).tolist(), test.y[:8].tolist())
    with tempfile.TemporaryDirectory() as folder:
        saved = found.save_to(Path(folder) / "helped")  # all that the second program needs is in it
        command = [sys.executable, "-m", "codebound_verify", *shlex.split(saved.result["verify"])[1:]]
        print(subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[0])


if __name__ == "__main__":
    main()
