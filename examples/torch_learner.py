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
from codebound.known.score_tables import ScoreTable
from codebound.sample.order import Design, arrange

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
    """Prints the claim of picks, for yourself, then a certificate of declared scores, for others."""
    digits = cb.load_dataset("digits")
    images, labels = digits.x.reshape(digits.n, -1), digits.y
    model = cb.PickToLearn(Trained(), apart=300, first=0, batch=5, growth=0.05).fit(images, labels)
    print(model.claim_)
    print(f"{len(model.picks_)} picks and {len(model.errors_)} errors of {model.n_}")

    known, _ = arrange(digits, Design()).split(1000)  # places of the first 1,000 rows, by a hash of each
    learner = Trained().fit(images[known], labels[known])
    table = ScoreTable(
        learner.decision_function(images), by="Trained, seed 0", of="the known share", rows=1000
    )
    found = cb.certify(None, digits, scores=table, method="scores", effort="quick")
    print(found)
    print(cb.verify(found.certificate, digits, tables=[table.arrays]).first_line)


if __name__ == "__main__":
    main()
