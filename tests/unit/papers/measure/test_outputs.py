"""Margins, their counts, and the certified loss."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from torch import nn

from codebound.run.errors import ModelError, UsageError
from codebound.sample.dataset import Sample, Scaling
from codebound.sample.outputs import margins
from codebound_papers.measure.outputs import (
    MarginReport,
    ambiguous_errors,
    margin_report,
    published_margin_loss,
)

LOGITS = hnp.arrays(
    np.float64,
    st.tuples(st.integers(1, 8), st.integers(2, 5)),
    elements=st.one_of(st.floats(-1e3, 1e3), st.sampled_from([0.0, 1.0, math.nan, math.inf, -math.inf])),
)


@st.composite
def scores(draw):
    logits = draw(LOGITS)
    labels = draw(hnp.arrays(np.int64, len(logits), elements=st.integers(0, logits.shape[1] - 1)))
    return logits, labels


def brute_margin(row, label):
    if not all(math.isfinite(value) for value in row):
        return -math.inf
    return row[label] - max(value for j, value in enumerate(row) if j != label)


@given(scores())
def test_margins_are_the_definition(sample):
    logits, labels = sample
    found = margins(torch.from_numpy(logits), torch.from_numpy(labels)).tolist()
    assert found == [brute_margin(row, label) for row, label in zip(logits.tolist(), labels, strict=True)]


@given(scores(), st.floats(0, 0.5))
def test_ambiguous_errors_are_the_definition(sample, tolerance):
    logits, labels = sample
    found = ambiguous_errors(torch.from_numpy(logits), torch.from_numpy(labels), tolerance).tolist()
    for row, label, loss in zip(logits.tolist(), labels, found, strict=True):
        clears = all(map(math.isfinite, row)) and brute_margin(row, label) > tolerance * max(map(abs, row))
        assert loss == (not clears)


@given(scores(), st.floats(-1e-5, 1e-5))
def test_two_tolerances_absorb_a_small_difference_between_machines(sample, wobble):
    logits, labels = (torch.from_numpy(each) for each in sample)
    signs = torch.tensor([-1.0, 1.0]).double()[torch.arange(logits.shape[1]) % 2]
    moved = logits + wobble * logits.abs().amax(dim=1, keepdim=True) * signs
    claimed = ambiguous_errors(logits, labels, 1e-4)
    recounted = ambiguous_errors(moved, labels, 0.5e-4)
    assert not (recounted & ~claimed).any()


def test_one_tolerance_alone_does_not_absorb_it():
    logits, labels = torch.tensor([[1.0, 0.0]]).double(), torch.tensor([0])
    logits[0, 1] = 1.0 - 1.01e-4
    assert not ambiguous_errors(logits, labels, 1e-4).any()
    assert ambiguous_errors(logits + torch.tensor([0.0, 1e-5]).double(), labels, 1e-4).all()


def test_differences_that_overflow_are_errors():
    assert margins(torch.tensor([[1e308, -1e308]]).double(), torch.tensor([0])).item() == -math.inf


def test_report_counts_exactly():
    report = MarginReport(np.array([2.0, -1.0, 0.0, -np.inf, 0.5, 0.0, 2.0]))
    assert (report.n, report.errors, report.ties, report.non_finite) == (7, 4, 2, 1)
    assert report.minimum == -math.inf
    assert [report.count(g) for g in (-2.0, -1.0, 0.0, 0.49, 0.5, 2.0, 3.0)] == [1, 2, 4, 4, 5, 7, 7]
    assert report.loss(0.5) == 5 / 7
    assert report.quantile(1.0) == 2.0
    assert report.quantiles((0.0, 0.5)) == {0.0: -math.inf, 0.5: 0.0}
    counts, edges = report.histogram(bins=3)
    assert counts.tolist() == [1, 3, 2]
    assert edges.tolist() == [-1.0, 0.0, 1.0, 2.0]


def test_the_printed_loss_counts_the_correct_ones():
    report = MarginReport(np.array([-1.0, 0.5, 1.0, 2.0]))
    assert report.loss(1.0) == 3 / 4
    assert published_margin_loss(report, 1.0) == 2 / 4
    assert published_margin_loss(report, -5.0) == 1.0  # worst "loss" for a threshold that everyone clears


@given(hnp.arrays(np.float64, st.integers(1, 40), elements=st.floats(-5, 5)), st.integers(1, 100))
def test_quantiles_are_the_smallest_margin_that_reaches_the_level(values, percent):
    report = MarginReport(values)
    quantile = report.quantile(percent / 100)
    assert 100 * report.count(quantile) >= percent * report.n
    assert 100 * int((report.values < quantile).sum()) < percent * report.n


@given(hnp.arrays(np.float64, st.integers(2, 40), elements=st.floats(-5, 5)), st.data())
def test_shards_merge_to_the_report_of_one_pass(values, data):
    cut = data.draw(st.integers(1, len(values) - 1))
    left, right = MarginReport(values[:cut]), MarginReport(values[cut:])
    assert left.merge(right) == right.merge(left) == MarginReport(values)
    assert MarginReport(values) != MarginReport(values[:-1])


def test_a_report_cannot_be_changed():
    report = MarginReport(np.array([1.0, 2.0]))
    with pytest.raises(ValueError, match="read-only"):
        report.values[0] = 5.0


@pytest.fixture
def few_images():
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, (37, 1, 2, 2)).astype(np.uint8)
    y = rng.integers(0, 3, 37)
    return Sample("toy", "test", x, y, 3, scaling=Scaling(255.0)).on("cpu")


class Odd(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 3)
        self.dropout = nn.Dropout(0.5)

    def forward(self, x):
        logits = self.dropout(self.linear(x.flatten(1)))
        return torch.where(x[:, :1, 0, 0] > 0.9, torch.nan, logits)


@pytest.mark.parametrize("chunk_size", [1, 5, 37, 100])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_streaming_equals_one_pass_and_leaves_the_model_alone(few_images, chunk_size, dtype):
    model = Odd().train()
    weight = model.linear.weight.clone()
    calls = []
    report = margin_report(
        model, few_images, chunk_size=chunk_size, dtype=dtype, progress=lambda *a: calls.append(a)
    )
    copy = Odd().to(dtype).eval()
    copy.load_state_dict(model.state_dict())
    with torch.no_grad():
        images = few_images.scaling.apply(few_images.x, dtype)
        values = margins(copy(images), few_images.y).numpy()
    assert np.allclose(report.values, np.sort(values), rtol=1e-5, atol=1e-6)
    assert report.non_finite == int((few_images.x[:, 0, 0, 0] > 0.9 * 255).sum()) > 0
    assert calls[-1][:2] == (37, 37)
    assert model.training
    assert model.linear.weight.dtype == torch.float32
    assert torch.equal(model.linear.weight, weight)


@pytest.mark.parametrize(
    ("logits", "labels"),
    [
        (torch.zeros(2, 1), torch.zeros(2).long()),
        (torch.zeros(2), torch.zeros(2).long()),
        (torch.zeros(2, 3), torch.zeros(3).long()),
        (torch.zeros(2, 3), torch.zeros(2)),
        (torch.zeros(2, 3), torch.tensor([0, 3])),
        (torch.zeros(2, 3), torch.tensor([-1, 0])),
    ],
)
def test_wrong_shapes_and_labels_are_refused(logits, labels):
    with pytest.raises(UsageError, match=r"logits|labels"):
        margins(logits, labels)
    with pytest.raises(UsageError, match=r"logits|labels"):
        ambiguous_errors(logits, labels, 0.0)


def test_wrong_arguments_are_refused(few_images):
    with pytest.raises(UsageError, match="tolerance"):
        ambiguous_errors(torch.zeros(1, 2), torch.tensor([0]), -1.0)
    with pytest.raises(UsageError, match="chunk_size"):
        margin_report(Odd(), few_images, chunk_size=0)
    with pytest.raises(ModelError, match="shape"):
        margin_report(nn.Linear(5, 3), few_images)
    with pytest.raises(UsageError, match="level"):
        MarginReport(np.array([1.0])).quantile(1.5)
    with pytest.raises(UsageError, match="non-empty"):
        MarginReport(np.array([]))
