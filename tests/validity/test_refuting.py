"""The alarm: true bounds raise it at most at its level, smuggled networks do, in both programs."""

import copy

import numpy as np
import pytest
import torch
from torch import nn
from worlds.rates import exceeds
from worlds.samples import random_labels

from codebound.bounds.held_out import REFUTING_LEVEL, confront
from codebound.bounds.occam import occam_binomial
from codebound.bounds.risk import HoldoutFacts, OccamFacts
from codebound.certificate.verification import verify
from codebound.certification import certify
from codebound.known.provenance import Pretrained
from codebound.request import Known, Run
from codebound_networks.train.config import TrainConfig
from codebound_networks.train.harness import fit
from codebound_verify.questions.refutation import LEVEL

REPS = 200_000


def alarms(bound: float, *, risk: float, m: int, seed: int = 0) -> int:
    """How many of many test samples of a network with this risk refute the bound."""
    errors, times = np.unique(np.random.default_rng(seed).binomial(m, risk, REPS), return_counts=True)
    tails = [confront(bound, HoldoutFacts(errors=int(k), n=m, delta=0.05)).tail for k in errors]
    return sum(int(count) for tail, count in zip(tails, times, strict=True) if tail < REFUTING_LEVEL)


def test_both_programs_have_the_same_level():
    assert LEVEL == REFUTING_LEVEL


@pytest.mark.parametrize(("risk", "m"), [(0.0456, 10_000), (0.3, 360), (0.5, 40), (0.01, 1000)])
def test_a_bound_that_is_just_true_is_refuted_at_most_at_the_level(risk, m):
    """The worst case: the risk is as large as the bound."""
    seen = alarms(risk, risk=risk, m=m)
    assert not exceeds(seen, reps=REPS, delta=REFUTING_LEVEL)


@pytest.mark.parametrize(("risk", "m"), [(0.0456, 10_000), (0.3, 360), (0.5, 40), (0.01, 1000)])
def test_that_simulation_has_teeth(risk, m):
    """A bound that claims a tenth less than is true is refuted more often."""
    assert exceeds(alarms(0.9 * risk, risk=risk, m=m), reps=REPS, delta=REFUTING_LEVEL)


def test_occam_bounds_are_hardly_ever_refuted_and_free_ones_are():
    """The best of 1024 classifiers of risk 1/2: paid for, its bound is believed; unpaid, it is found out."""
    stream, n, m, reps = np.random.default_rng(0), 200, 500, 400
    best = stream.binomial(n, 0.5, (reps, 1024)).min(axis=1)
    fresh = stream.binomial(m, 0.5, reps)
    for code_bits, expected in ((10, False), (0, True)):
        seen = sum(
            confront(
                occam_binomial(OccamFacts(errors=int(k), n=n, code_bits=code_bits, delta=0.05)).value,
                HoldoutFacts(errors=int(errors), n=m, delta=0.05),
            ).is_refuted
            for k, errors in zip(best, fresh, strict=True)
        )
        assert exceeds(seen, reps=reps, delta=REFUTING_LEVEL) is expected


def learned(sample):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 128), nn.ReLU(), nn.Linear(128, 4))
    return fit(model, sample, TrainConfig(epochs=120, batch_size=50, learning_rate=0.01)).model


@pytest.mark.thorough
def test_a_base_that_knows_the_sample_by_heart_is_found_out_by_test_data():
    """Both programs accept the file: what it declares is false, and only other examples can show it."""
    sample, fresh = random_labels(150, seed=0), random_labels(200, seed=1, role="test")
    hidden = copy.deepcopy(learned(sample))  # of the one that fit returned it is known what it saw
    smuggled = Pretrained(hidden, "said to be made without the sample")
    found = certify(
        sample,
        network=smuggled.network,
        method="naive",
        test=fresh,
        known=Known(base=smuggled),
        run=Run(effort="quick"),
    )
    assert found.certificate.claim.bound < 0.4
    assert found.confrontation.is_refuted
    assert "a base that saw the sample" in found.alarm
    verdict = verify(found.certificate, sample, base=found.base, test_set=fresh)
    assert verdict.is_accepted
    assert verdict.refuted_by_test is True
    assert not verdict
    assert verdict.test.tail == pytest.approx(found.confrontation.tail, rel=1e-9)


@pytest.mark.thorough
def test_an_honest_base_is_not_accused():
    """The same network from the same labels, certified on others: vacuous, and not refuted."""
    sample, fresh = random_labels(150, seed=0), random_labels(200, seed=1, role="test")
    base = Pretrained(learned(random_labels(150, seed=2)), "trained on other random labels")
    found = certify(
        sample,
        network=base.network,
        method="naive",
        test=fresh,
        known=Known(base=base),
        run=Run(effort="quick"),
    )
    assert found.certificate.claim.vacuous
    assert found.alarm == ""
    verdict = verify(found.certificate, sample, base=found.base, test_set=fresh)
    assert verdict.refuted_by_test is False
    assert verdict
