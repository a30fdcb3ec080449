"""Scores of a network on a sample: one row for each example, or a sentence that says what to return."""

import numpy as np
import pytest
import torch
from torch import nn

from codebound.run.errors import ModelError
from codebound.sample.dataset import Dataset
from codebound.sample.losses import error_count, logit_chunks, margins

DATA = Dataset("one", "train", np.eye(3, dtype="float32"), np.array([0, 1, 1]), 2).on("cpu")


class Returns(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


def test_margins_are_those_of_the_largest_other_score():
    scores = torch.tensor([[3.0, 1.0, 2.5], [0.0, 4.0, 4.0]])
    assert margins(scores, torch.tensor([0, 1])).tolist() == [0.5, 0.0]


def test_ties_and_scores_that_are_not_finite_are_errors():
    assert error_count(Returns(lambda x: x[:, :2]), DATA, dtype=torch.float64) == 1
    assert error_count(Returns(lambda x: x[:, :2] / 0), DATA, dtype=torch.float64) == 3


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda x: [x, x], "returns a list"),
        (lambda x: x[:, :1], r"torch\.cat\(\(-z, z\), 1\)"),
        (lambda x: x[:, 0], "one output for each example"),
        (lambda x: x[:, :2, None], r"makes \(2, 1\) of one example(.|\n)*nn\.Flatten"),
    ],
)
def test_other_outputs_are_told_what_to_be(function, words):
    with pytest.raises(ModelError, match=words):
        next(logit_chunks(Returns(function), DATA))
