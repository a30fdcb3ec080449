"""A network of one's own on MNIST: certified through a checkpoint that saw four fifths of the sample.

    python results/own_network.py train --device cuda
    python results/own_network.py certify

The checkpoint g has seen the first four fifths (in the order of C-10), errors are counted on the rest;
training then goes on with all labels, to f. Unlabelled inputs, of the test part, say how often they differ.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from codebound.certificate.claims import prior_and_rest
from codebound.data.dataset import Dataset, Scaling

TENTHS = 8
DELTA = 0.05
EPOCHS = 40
BATCH = 250
NAMES = {"g": "own_network_g.safetensors", "f": "own_network_f.safetensors"}


def network() -> nn.Sequential:
    """Four convolutions and two linear layers."""
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(32, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(64, 64, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(64 * 49, 128),
        nn.ReLU(),
        nn.Linear(128, 10),
    )


def read(path: Path | None, role: str) -> Dataset:
    """MNIST, from an .npz file with x and y or from the catalogue."""
    if path is None:
        from codebound.data.load import load_dataset

        return load_dataset("mnist", role=role)
    stored = np.load(path)
    return Dataset("mnist", role, stored["x"], stored["y"].astype(np.int64), 10, Scaling(255.0))


def trained(model: nn.Module, sample: Dataset, *, epochs: int, rate: float, device: str) -> nn.Module:
    """The network after some epochs on pictures that are moved, turned and stretched a little."""
    x = torch.from_numpy(sample.x).to(device).float() / 255.0
    y = torch.from_numpy(sample.y).to(device)
    model = model.to(device).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.01)
    steps = epochs * (-(-len(x) // BATCH))
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for epoch in range(epochs):
        order = torch.randperm(len(x), device=device)
        for start in range(0, len(x), BATCH):
            rows = order[start : start + BATCH]
            loss = functional.cross_entropy(model(moved(x[rows])), y[rows], label_smoothing=0.02)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
        if epoch % 10 == 9:
            sys.stdout.write(f"epoch {epoch + 1}: loss {float(loss.detach()):.4f}\n")
            sys.stdout.flush()
    return model.eval()


def moved(x: torch.Tensor) -> torch.Tensor:
    """Pictures after a random affine map near the identity."""
    n = len(x)
    noise = torch.randn(n, 2, 2, device=x.device) * 0.06
    shift = (torch.rand(n, 2, 1, device=x.device) - 0.5) * 0.28
    matrix = torch.cat([torch.eye(2, device=x.device) + noise, shift], dim=2)
    grid = functional.affine_grid(matrix, list(x.shape), align_corners=False)
    return functional.grid_sample(x, grid, align_corners=False)


@torch.no_grad()
def errors(model: nn.Module, data: Dataset, device: str) -> int:
    """Errors in float32, as a first look."""
    x, y = torch.from_numpy(data.x).to(device).float() / 255.0, torch.from_numpy(data.y).to(device)
    parts = (model(x[at : at + 1000]).argmax(1) for at in range(0, len(x), 1000))
    return int((torch.cat(list(parts)) != y).sum())


def train(asked: argparse.Namespace) -> None:
    """Trains g on the first part, and f from there on all of the sample."""
    torch.manual_seed(0)
    sample = read(asked.data, "train")
    prior, rest = prior_and_rest(sample, TENTHS)
    start = time.perf_counter()
    model = trained(network(), prior, epochs=asked.epochs, rate=0.002, device=asked.device)
    g = {name: tensor.detach().cpu().clone() for name, tensor in model.state_dict().items()}
    sys.stdout.write(f"g errs on {errors(model, rest, asked.device)} of {rest.n} after the split\n")
    model = trained(model, sample, epochs=max(1, asked.epochs // 4), rate=0.0005, device=asked.device)
    asked.out.mkdir(parents=True, exist_ok=True)
    for name, state in (("g", g), ("f", {key: each.cpu() for key, each in model.state_dict().items()})):
        torch.save(state, asked.out / NAMES[name].replace("safetensors", "pt"))
    sys.stdout.write(f"{time.perf_counter() - start:.0f} s\n")


def main() -> None:
    """Trains, or certifies what was trained."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("what", choices=("train", "certify"))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    parser.add_argument("--data", type=Path, help="an .npz file with x and y")
    parser.add_argument("--out", type=Path, default=Path("runs/own_network"))
    asked = parser.parse_args()
    if asked.what == "train":
        train(asked)


if __name__ == "__main__":
    main()
