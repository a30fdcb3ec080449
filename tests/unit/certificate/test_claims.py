"""Claims: what each counts, what its messages carry, how its bound follows, and what it states."""

from dataclasses import replace

import cbound_writer as reference
import numpy as np
import pytest
import torch
from torch import nn
from worlds.samples import written_clusters

from codebound.bits.messages import Options
from codebound.bits.setting import Setting
from codebound.bounds.facts import HoldoutFacts, OccamFacts
from codebound.bounds.held_out import holdout
from codebound.bounds.occam import occam_binomial
from codebound.bounds.original import grid_theta
from codebound.certificate.assessment import assess
from codebound.certificate.claims import (
    AboutG,
    AbstractClaim,
    AfterSplit,
    ByDisagreement,
    OnDomain,
    prior_and_rest,
)
from codebound.certificate.task import Task
from codebound.certification import certify
from codebound.methods.search import guess
from codebound.run.errors import CertificateError, DataError, UsageError
from codebound.sample.arrays import from_arrays
from codebound.sample.dataset import Dataset, Scaling
from codebound_networks.chains.chain import Chain
from codebound_networks.chains.message import Message
from codebound_networks.chains.operations import Linear
from codebound_networks.chains.original import Original
from codebound_networks.codes.tensors import Dense

CHAIN = Chain((1, 2, 2), (Linear(3, False),))
CODE = Dense(reference.WEIGHT.astype(np.int32), -3, 2)


def original(moved=0.01):
    """f: the network of the message, with one weight moved."""
    weight = CODE.weights().copy()
    weight[0, 0] += np.float32(moved)
    return Original(CHAIN, {"0.weight": torch.from_numpy(weight)})


SAMPLE, FRESH = written_clusters(), written_clusters(300, seed=1, role="unlabelled")
CLAIMS = {
    "C-2": AboutG(),
    "C-10": AfterSplit(3),
    "C-12a": OnDomain(0.0, 16.0),
    "C-12b": ByDisagreement(FRESH),
}


def task_of(claim: AbstractClaim, **changes) -> Task:
    base = ("zero", {"0.weight": np.zeros((3, 4), np.float32)}) if claim.trains_base else None
    given = {"sample": SAMPLE, "delta": 0.05, "claim": claim, "original": original(), "base": base}
    return Task(**(given | changes))


def message_for(task: Task) -> Message:
    return Message(task.options, CHAIN, {"0.weight": CODE})


def test_every_claim_is_here():
    kinds, found = [AbstractClaim], set()
    while kinds:
        kind = kinds.pop()
        kinds.extend(kind.__subclasses__())
        if not kind.__abstractmethods__:
            found.add(kind)
    assert {kind for kind in found if kind.__module__.startswith("codebound.")} == set(
        map(type, CLAIMS.values())
    )


@pytest.mark.parametrize("ref", CLAIMS)
class TestEveryClaim:
    def test_it_counts_a_part_of_the_sample_and_never_what_a_base_saw(self, ref):
        prior, counted = CLAIMS[ref].split(SAMPLE)
        assert (prior is not None) == CLAIMS[ref].trains_base
        assert counted.n + (0 if prior is None else prior.n) == SAMPLE.n
        task = task_of(CLAIMS[ref])
        assert assess(message_for(task), task).facts.n == counted.n == task.counted.n

    def test_fewer_errors_never_make_the_bound_worse(self, ref):
        task = task_of(CLAIMS[ref])
        found = assess(message_for(task), task)
        bounds = [
            task.claim.conclude(
                replace(found.facts, errors=errors), message=found.message, network=found.network, task=task
            ).bound.value
            for errors in (0, found.facts.errors, found.facts.errors + 20)
        ]
        assert bounds == sorted(bounds)
        assert bounds[0] < bounds[2]

    def test_it_never_spends_more_than_delta(self, ref):
        task = task_of(CLAIMS[ref])
        found = assess(message_for(task), task)
        assert found.facts.delta == task.claim.delta_share * 0.05
        assert found.bound.delta == pytest.approx(0.05)

    def test_what_it_counted_and_what_it_states_have_different_names(self, ref):
        task = task_of(CLAIMS[ref])
        counted = assess(message_for(task), task).conclusion.counted
        assert not counted.keys() & task.claim.describe(task).keys()

    def test_a_guess_needs_no_more_than_the_task(self, ref):
        task = task_of(CLAIMS[ref])
        assert 0.0 < guess(message_for(task), task).value < 1.0


SETTING = Setting(3, Scaling(16.0))


def test_about_g_is_the_occam_bound_of_the_whole_sample():
    task = task_of(AboutG())
    found = assess(message_for(task), task)
    assert task.options == Options(setting=SETTING)
    assert found.message.options == Options(setting=SETTING)
    assert found.bound == occam_binomial(found.facts)
    assert found.conclusion.counted == task.claim.describe(task) == {}


def test_after_a_split_the_fraction_is_in_the_message_and_in_the_facts():
    task = task_of(AfterSplit(3))
    found = assess(message_for(task), task)
    assert task.options == Options(tenths=3, has_base=True, setting=SETTING)
    assert found.conclusion.counted == {"n_prior": 120}
    prior, rest = prior_and_rest(SAMPLE, 3)
    assert np.array_equal(task.counted.x, rest.x)
    assert (prior.role, rest.role) == ("prior", "certify")


def test_on_a_domain_the_margin_covers_the_distance_and_is_paid_for():
    task = task_of(OnDomain(0, 16))
    message = message_for(task)
    fitted = task.claim.complete(message, task)
    index = fitted.options.theta_index
    assert message.options.theta_index is None
    found = assess(message, task)
    assert found.bits.length == message.encode()[0].length + grid_theta(index).code_bits
    nearer = replace(task, original=original(0.001))
    assert task.claim.complete(message, nearer).options.theta_index < index
    assert task.claim.describe(task) == {
        "input_low": 0.0,
        "input_high": 16.0,
        "subject_sha256": task.f.sha256,
    }


def test_by_disagreement_half_of_delta_is_for_the_fresh_inputs():
    task = task_of(ByDisagreement(FRESH), original=original(2.5))
    found = assess(message_for(task), task)
    counted = found.conclusion.counted
    assert counted["n_unlabelled"] == 300
    assert 0 < counted["disagreements"] < 300
    assert counted["delta_risk"] == counted["delta_disagreement"] == 0.025
    apart = holdout(HoldoutFacts(errors=counted["disagreements"], n=300, delta=0.025)).value
    assert found.conclusion.added == apart
    assert found.bound.value == pytest.approx(occam_binomial(found.facts).value + apart)
    assert task.claim.describe(task) == {
        "unlabelled_sha256": FRESH.sha256,
        "subject_sha256": task.f.sha256,
        "subject_chain": CHAIN.describe(),
    }


@pytest.mark.parametrize(
    ("claim", "changes", "error", "words"),
    [
        (OnDomain(4.0, -2.0), {}, UsageError, "low < high"),
        (OnDomain(0.0, 1.0), {}, UsageError, "contains every stored value"),
        (OnDomain(float("nan"), 16.0), {}, UsageError, "low < high"),
        (OnDomain(0.0, 16.0), {"original": None}, CertificateError, "chain of known layers"),
        (ByDisagreement(FRESH), {"original": None}, CertificateError, "chain of known layers"),
        (
            ByDisagreement(FRESH),
            {"original": Original(None, {}, unchained="it has a branch")},
            CertificateError,
            "chain of known layers",
        ),
        (
            ByDisagreement(from_arrays(np.zeros((5, 4), np.uint8), None, name="x", role="unlabelled")),
            {},
            DataError,
            "the unlabelled inputs have the shape",
        ),
    ],
)
def test_a_task_refuses_a_claim_that_cannot_be_made(claim, changes, error, words):
    with pytest.raises(error, match=words):
        task_of(claim, **changes)


def test_a_claim_of_disagreement_has_inputs():
    with pytest.raises(TypeError):
        ByDisagreement()


class TestTheShortSpellings:
    """``unlabelled``, ``input_range`` and ``prior_tenths`` of certify."""

    def certified(self, **asked):
        model = nn.Sequential(nn.Flatten(), nn.Linear(4, 3, bias=False))
        model[1].weight.data = torch.from_numpy(CODE.weights())
        return certify(model, SAMPLE, method="prune", effort="quick", **asked).certificate

    @pytest.mark.parametrize(
        ("short", "claim"),
        [
            ({"unlabelled": FRESH}, ByDisagreement(FRESH)),
            ({"input_range": (0, 16)}, OnDomain(0, 16)),
            ({}, AboutG()),
        ],
    )
    def test_they_give_the_same_certificate(self, short, claim):
        assert self.certified(**short) == self.certified(claim=claim)

    @pytest.mark.parametrize(
        "both",
        [
            {"unlabelled": FRESH, "input_range": (0, 16)},
            {"claim": AboutG(), "prior_tenths": 3},
            {"claim": OnDomain(0, 16), "input_range": (0, 16)},
        ],
    )
    def test_there_is_one_claim(self, both):
        with pytest.raises(UsageError, match="choose one"):
            self.certified(**both)


def test_the_sample_is_cut_and_sent_once_for_a_task(monkeypatch):
    calls = []

    def counting(name, method):
        def counted(*arguments, **options):
            calls.append(name)
            return method(*arguments, **options)

        return counted

    for name in ("select", "on"):
        monkeypatch.setattr(Dataset, name, counting(name, getattr(Dataset, name)))
    task = task_of(AfterSplit(5))
    for _ in range(4):
        guess(message_for(task), task)
        assess(message_for(task), task)
    assert sorted(calls) == ["on", "select", "select"]


def test_facts_of_a_guess_are_those_of_the_first_examples():
    """With few examples the guess sees all of them, so it knows the errors."""
    task = task_of(AboutG())
    assert task.first_data.n == SAMPLE.n
    found = assess(message_for(task), task)
    facts = OccamFacts(errors=found.facts.errors, n=400, code_bits=found.bits.length, delta=0.05)
    assert guess(message_for(task), task).value == pytest.approx(occam_binomial(facts).value, abs=0.03)
