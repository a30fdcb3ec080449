"""The constant classifier, which every other method has to beat."""

import numpy as np
import pytest
import torch

from codebound.bounds.occam import occam_binomial
from codebound.bounds.risk import OccamFacts
from codebound.certification import certify
from codebound.methods.search import UnsuitedError
from codebound.request import Claim, Run
from codebound.sample.arrays import from_arrays
from codebound.sample.dataset import Sample

RARE = 10


@pytest.fixture
def noise():
    """Inputs that say nothing, and one label in a hundred that is another one."""
    random = np.random.default_rng(0)
    y = np.r_[np.zeros(1000 - RARE, dtype=np.int64), np.ones(RARE, dtype=np.int64)]
    return from_arrays(random.normal(size=(1000, 6)).astype("float32"), y, name="noise", classes=2)


def test_it_errs_on_all_other_labels_and_nothing_else(noise):
    found = certify(noise, method="constant")
    limit, bits = found.certificate.limit, found.certificate.message.bits
    assert (limit.errors, limit.n) == (RARE, 1000)
    assert bits < 60
    expected = occam_binomial(OccamFacts(errors=RARE, n=1000, code_bits=bits, delta=0.05)).value
    assert found.bound == pytest.approx(expected, rel=1e-9)
    assert set(found.network(torch.randn(50, 6)).argmax(dim=1).tolist()) == {0}


@pytest.mark.thorough
def test_it_is_tried_where_nothing_says_more_and_the_fewest_errors_win(noise):
    alone = certify(noise, method="constant")
    found = certify(noise, run=Run(effort="quick"))
    assert found.vacuous
    assert "constant" in {each["name"] for each in found.offers}
    assert found.certificate.limit.errors * 1000 <= alone.certificate.limit.errors * found.certificate.limit.n


def test_it_reads_no_words():
    gaps = np.array([[np.nan], [1.0]] * 20)
    cells = Sample("gaps", "train", gaps, np.array([0, 1] * 20), 2, is_cells=True)
    with pytest.raises(UnsuitedError, match="reads words"):
        certify(cells, method="constant")


def test_it_is_no_network_near_f(noise):
    with pytest.raises(UnsuitedError, match="near f"):
        certify(
            noise,
            network=torch.nn.Sequential(torch.nn.Linear(6, 2)),
            method="constant",
            claim=Claim(input_range=(-9.0, 9.0)),
        )
