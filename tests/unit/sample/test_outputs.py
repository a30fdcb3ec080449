"""Scores of networks: what leads by how much, and outputs that are no scores."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from codebound.run.errors import ModelError, UsageError
from codebound.sample.dataset import Sample
from codebound.sample.losses import column_leads, leads, leads_of
from codebound.sample.outputs import error_count, logit_chunks, margins

ROWS = torch.tensor([[3.0, 1.0, 2.0], [1.0, 1.0, 0.0], [0.0, 5.0, 1.0]])


def test_leads_of_the_best_of_a_class_and_of_the_label():
    assert leads(ROWS).tolist() == [1.0, 0.0, 4.0]
    assert leads_of(ROWS, 1).tolist() == [-2.0, 0.0, 4.0]
    assert leads_of(ROWS, 7, np.array([2, 7, 9])).tolist() == [-2.0, 0.0, 4.0]
    with pytest.raises(UsageError, match="label 3"):
        leads_of(ROWS, 3)
    labels = torch.tensor([0, 1, 2])
    assert margins(ROWS, labels).tolist() == [1.0, 0.0, -4.0]
    assert column_leads(ROWS, labels, best=2).tolist() == [2.0, 1.0, 1.0]
    assert (
        margins(torch.tensor([[math.nan, 1.0], [math.inf, 0.0]]), torch.tensor([1, 0])).tolist()
        == [-math.inf] * 2
    )


def test_differences_are_those_of_float64():
    close = torch.tensor([[1.0 + 2.0**-52, 1.0]], dtype=torch.float64)
    assert leads(close).tolist() == [2.0**-52]


DATA = Sample("one", "train", np.eye(3, dtype="float32"), np.array([0, 1, 1]), 2).on("cpu")


class Returns(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


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
def test_errors_name_the_outputs_that_are_needed(function, words):
    with pytest.raises(ModelError, match=words):
        next(logit_chunks(Returns(function), DATA))
