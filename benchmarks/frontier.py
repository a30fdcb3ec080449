"""Bits against certified error on digits, with training and test error beside it: the figure of the README.

Run: python benchmarks/frontier.py        (writes results/frontier.json and docs/frontier.svg)
"""

from __future__ import annotations

import json
import platform
import sys
import time
from pathlib import Path

import torch

import codebound as cb
from codebound.certificate.offers import assess, network_outcome
from codebound.request import Task
from codebound.sample.losses import WRONG
from codebound_networks.chains.from_module import chain_of
from codebound_networks.chains.message import Message
from codebound_networks.codes.choose import best_tensor_code
from codebound_networks.methods.hidden_units import rescaled, without_biases
from codebound_networks.reading.loading import load_model
from codebound_networks.train.pruning import PruneSettings, prune

ROOT = Path(__file__).parents[1]
KEPT = (15, 25, 40, 60, 90, 130, 190, 280, 400)
COLOURS = {"certified error": "#0969da", "test error": "#1a7f37", "training error": "#8c959f"}


def measure() -> list[dict[str, float]]:
    """One row per number of weights kept; each message is decoded before anything is counted."""
    parts = cb.split(cb.load_sample("digits"), {"train": 0.8, "test": 0.2})
    sample, test = parts["train"], parts["test"]
    network = load_model("linear:bias=false", input_shape=sample.input_shape, classes=sample.classes)
    chain, tensors = chain_of(network, sample.input_shape)
    chain = without_biases(chain)
    start = chain.build({name: rescaled(tensor) for name, tensor in tensors.items()})
    task = Task(sample=sample, delta=0.05)
    rows = []
    for keep in KEPT:
        plan = PruneSettings(keep=keep, levels=2, epochs=120, batch_size=50)
        found = prune(start, list(tensors), sample.on("cpu"), plan)
        codes = {
            name: best_tensor_code(each.integers.numpy(), step=0, strides=(8,))
            for name, each in found.items()
        }
        outcome = network_outcome(Message(task.options, chain, codes), task)
        proved = assess(outcome, task)
        rows.append(
            {
                "kept": keep,
                "bits": proved.bits.length,
                "certified error": proved.bound,
                "training error": proved.tally.errors / sample.n,
                "test error": (outcome.count_losses(test, WRONG) or 0) / test.n,
            }
        )
        print("  ".join(f"{key} {value:.4g}" for key, value in rows[-1].items()))
    return rows


def drawing(rows: list[dict[str, float]]) -> str:
    """The rows as a small SVG picture."""
    width, height, left, bottom = 640, 320, 56, 44
    most = max(row["bits"] for row in rows)

    def at(bits: float, error: float) -> str:
        x = left + (width - left - 130) * bits / most
        return f"{x:.1f},{(height - bottom) * (1.0 - error) + 10:.1f}"

    size = f'viewBox="0 0 {width} {height + 20}" font-family="system-ui, sans-serif" font-size="13"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size}>',
        f'<rect width="{width}" height="{height + 20}" fill="white"/>',
    ]
    for percent in range(0, 101, 20):
        y = at(0, percent / 100).split(",")[1]
        parts.append(f'<line x1="{left}" x2="{width - 130}" y1="{y}" y2="{y}" stroke="#d8dee4"/>')
        parts.append(f'<text x="{left - 8}" y="{float(y) + 4}" text-anchor="end">{percent} %</text>')
    for bits in range(0, int(most) + 1, 250):
        x = at(bits, 0).split(",")[0]
        parts.append(f'<text x="{x}" y="{height - bottom + 30}" text-anchor="middle">{bits}</text>')
    middle = (left + width - 130) / 2
    label = "length of the message (bits)"
    parts.append(f'<text x="{middle}" y="{height + 8}" text-anchor="middle">{label}</text>')
    for name, colour in COLOURS.items():
        points = " ".join(at(row["bits"], row[name]) for row in rows)
        x, y = at(rows[-1]["bits"], rows[-1][name]).split(",")
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2.5"/>')
        shift = {"test error": -4, "training error": 12}.get(name, 4)
        parts.append(f'<text x="{float(x) + 8}" y="{float(y) + shift}" fill="{colour}">{name}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def main() -> None:
    """Measures, writes the rows with their provenance, and draws them."""
    start = time.perf_counter()
    rows = measure()
    record = {
        "command": "python benchmarks/frontier.py",
        "data": "digits, 1437 for the sample, 360 held out; test error was never used to choose anything",
        "model": "linear:bias=false",
        "delta": 0.05,
        "seed": 0,
        "codebound": cb.__version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "seconds": round(time.perf_counter() - start, 1),
        "rows": rows,
    }
    (ROOT / "results" / "frontier.json").write_text(json.dumps(record, indent=2) + "\n")
    (ROOT / "docs" / "frontier.svg").write_text(drawing(rows))
    sys.stdout.write("wrote results/frontier.json and docs/frontier.svg\n")


if __name__ == "__main__":
    main()
