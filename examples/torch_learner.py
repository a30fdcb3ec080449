"""A training function of torch as a learner: seeded, in float64, one example independent of the others.

Run: python examples/torch_learner.py
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from torch import nn

import codebound as cb

if TYPE_CHECKING:
    from numpy.typing import NDArray


def train(inputs: torch.Tensor, labels: torch.Tensor, classes: int, *, steps: int) -> nn.Module:
    """Your training function: the same network for the same examples, whatever was computed before."""
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(0)
        network = nn.Sequential(nn.Linear(inputs.shape[1], 64), nn.ReLU(), nn.Linear(64, classes)).double()
    optimizer = torch.optim.Adam(network.parameters(), lr=0.01)
    for _ in range(steps):
        optimizer.zero_grad()
        nn.functional.cross_entropy(network(inputs), labels).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return network


class Trained(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """The training function with the interface of scikit-learn."""

    def __init__(self, steps: int = 60) -> None:
        self.steps = steps

    def fit(self, X: NDArray[Any], y: NDArray[Any]) -> Trained:
        """Trains on these examples and on nothing else."""
        self.classes_, numbers = np.unique(y, return_inverse=True)
        inputs = torch.as_tensor(X / 16.0, dtype=torch.float64)  # a constant, not a statistic of the sample
        self.network_ = train(inputs, torch.as_tensor(numbers), len(self.classes_), steps=self.steps)
        return self

    def decision_function(self, X: NDArray[Any]) -> NDArray[np.float64]:
        """Scores of the classes."""
        with torch.no_grad():
            scores = self.network_(torch.as_tensor(X / 16.0, dtype=torch.float64))
        return np.asarray(scores)

    def predict(self, X: NDArray[Any]) -> NDArray[Any]:
        """The class with the largest score."""
        return np.asarray(self.classes_[self.decision_function(X).argmax(axis=1)])


def main() -> None:
    """Prints the claims of a known share, and of picks, and what the second program says."""
    digits = cb.load_sample("digits")
    images, labels = digits.x.reshape(digits.n, -1), digits.y
    ways: list[dict[str, Any]] = [{}, {"method": "picks", "share": 0.2, "batch": 5}]
    for settings in ways:
        model = cb.CertifiedClassifier(Trained(), **settings).fit(images, labels)
        print(model.claim_)
        found = model.result_
        tables = [table.arrays for table in found.tables]
        print(cb.verify(found.certificate, found.sample, tables=tables).first_line)


if __name__ == "__main__":
    main()
