"""From data to a certificate: train a small network on digits, certify it, have it verified, use it.

Run: python examples/quickstart.py
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import codebound as cb
from codebound_networks import TrainConfig, fit, load_model


def main() -> None:
    """Prints the claim, the hold-out bound for comparison, and the verdict of the independent verifier."""
    parts = cb.split(cb.load_sample("digits"), {"train": 0.8, "test": 0.2})
    train, test = parts["train"], parts["test"]
    network = load_model("linear", input_shape=train.input_shape, classes=train.classes)
    trained = fit(network, train, TrainConfig(epochs=30)).model

    found = cb.certify(train, network=trained, method="prune", test=test, delta=0.05, run=cb.Run(minutes=0.5))
    print(found)
    if found.holdout is not None:
        print(f"For comparison: {found.holdout.sentence}")

    with tempfile.TemporaryDirectory() as folder:
        path = found.save(Path(folder) / "model.cbound")
        print(f"The independent verifier says {cb.verify(path, train).verdict}.")
        g = cb.load_classifier(path)
    print(f"The network the guarantee is about: {g}")

    learned = cb.certify(train, method="picks", test=test, delta=0.05, run=cb.Run(effort="quick"))
    print(f"Learned from picked examples instead: {learned}")


if __name__ == "__main__":
    main()
