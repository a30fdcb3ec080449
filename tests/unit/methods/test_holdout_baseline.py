"""Hold-out rivals against another computation, and helpers from a first part."""

from dataclasses import replace

import numpy as np
import pytest
import rule_writer as rules
import torch
from scipy.stats import beta
from torch import nn
from worlds.samples import clouds

from codebound.bounds.facts import HoldoutFacts
from codebound.bounds.held_out import holdout
from codebound.certificate.claims import prior_and_rest
from codebound.certification import certify
from codebound.known.base import Pretrained
from codebound.learn.features import ColumnFeatures, PatchFeatures
from codebound.learn.picking import features_of, learner_of, permutation
from codebound.learn.rule import Rule
from codebound.methods import holdout_baseline as rivals
from codebound.methods import kernel_share as helpers
from codebound.methods.holdout_baseline import TENTHS, bound_shares
from codebound.methods.kernel_share import kernel_helper, linear_helper
from codebound.methods.search import UnsuitedError
from codebound.run.errors import CertificateError, UsageError
from codebound.sample.dataset import Dataset, Scaling


def table(n=240, columns=6):
    return clouds(n, features=columns, apart=1.6)


def ridge_errors(sample, size, rule):
    """Kernel ridge regression on the scaled columns, in plain NumPy."""
    order = permutation(sample.n)
    first = np.sort(sample.x[order[: rule.first]].astype(float), axis=0)
    low, middle, high = (first[at] for at in (rule.first // 10, rule.first // 2, 9 * rule.first // 10))
    z = np.clip((sample.x - middle) / (high - low), -4, 4)
    learned, rest = z[order[:size]], z[order[size:]]
    apart = ((z[:, None] - learned[None]) ** 2).sum(2) / sample.input_shape[0]
    kernel = 1.0 / (1.0 + rule.gamma * apart / 4.0) ** 4
    targets = 2.0 * np.eye(sample.classes)[sample.y[order[:size]]] - 1.0
    weights = np.linalg.solve(kernel[order[:size]] + rule.ridge * np.eye(size), targets)
    assert len(rest) == sample.n - size
    return int((np.argmax(kernel[order[size:]] @ weights, 1) != sample.y[order[size:]]).sum())


def test_the_hold_out_rival_is_that_of_another_computation():
    sample, rule = table(), Rule(ColumnFeatures(), first=50)
    found = min(bound_shares(rule, sample, delta=0.05), key=lambda each: each.value)
    bounds = {}
    for tenths in TENTHS:
        size = tenths * sample.n // 10
        errors, n = ridge_errors(sample, size, rule), sample.n - size
        bounds[size] = beta.ppf(1 - 0.05 / len(TENTHS), errors + 1, n - errors)
    assert not found.is_reckoned
    assert abs(ridge_errors(sample, found.learned, rule) - found.errors) <= 1  # columns are rounded
    assert found.value == pytest.approx(
        beta.ppf(1 - 0.05 / len(TENTHS), found.errors + 1, found.n - found.errors), abs=1e-9
    )
    assert found.value <= min(bounds.values()) + 0.02


def test_errors_after_large_shares_are_reckoned_from_smaller_ones(monkeypatch):
    sample, rule = table(1200), Rule(ColumnFeatures(), first=50)
    counted = {each.tenths: each for each in rivals.bound_shares(rule, sample, delta=0.05)}
    monkeypatch.setattr(rivals, "_WHOLE", 300)
    monkeypatch.setattr(rivals, "_PART", 900)
    for each in rivals.bound_shares(rule, sample, delta=0.05):
        assert each.is_reckoned
        assert not counted[each.tenths].is_reckoned
        near = counted[each.tenths]
        assert abs(each.errors - near.errors) <= 4.0 * (near.errors + 1.0) ** 0.5
        assert each.value == pytest.approx(
            beta.ppf(1 - 0.05 / len(TENTHS), each.errors + 1, each.n - each.errors), abs=1e-9
        )


def test_a_reckoned_share_is_counted_before_it_is_certified_and_others_follow(monkeypatch):
    monkeypatch.setattr(rivals, "_WHOLE", 60)
    sample = table(300)
    found = certify(None, sample, method="split").certificate
    facts = found.facts
    assert facts.errors > 0
    monkeypatch.setattr(
        rivals, "_extrapolate", lambda sizes, *_: ([0.0 for _ in sizes], 6)
    )  # a lie is harmless
    lied = certify(None, sample, method="split").certificate
    promised = holdout(HoldoutFacts(errors=lied.facts.errors, n=lied.facts.n, delta=0.05 * 2.0**-20)).value
    assert lied.facts.errors > 0
    assert lied.claim.bound <= promised


@pytest.mark.parametrize(("few", "effort"), [(100, "standard"), (100, "quick"), (1500, "standard")])
def test_the_learner_of_a_split_is_tuned_for_a_larger_table(monkeypatch, few, effort):
    best, tried = Rule(ColumnFeatures(), gamma_index=3, ridge_index=9), []
    shares = rivals.bound_shares

    def noted(rule, *args, **named):
        tried.append(rule)
        return shares(rule, *args, **named)

    monkeypatch.setattr(rivals, "_FEW", few)
    monkeypatch.setattr(rivals, "bound_shares", noted)
    monkeypatch.setattr(helpers, "best_rule", lambda *_: best)
    found = certify(None, table(), method="split", effort=effort).certificate
    is_tuned = (few, effort) == (100, "standard")
    assert (replace(best, first=rivals._KNOWN) in tried) == is_tuned
    assert found.facts.code_bits <= 20


def test_a_share_that_is_too_large_is_not_carried_out(monkeypatch):
    monkeypatch.setattr(rivals, "_MOST_SUPPORTS", {"quick": 70})
    found = certify(None, table(), method="split", effort="quick").certificate
    assert found.facts.extra["first"] <= 70
    monkeypatch.setattr(rivals, "_MOST_SUPPORTS", {"quick": 0})
    with pytest.raises(UnsuitedError, match="too large"):
        certify(None, table(), method="split", effort="quick")


def test_the_linear_helper_is_ridge_regression():
    from sklearn.linear_model import Ridge

    sample = table(200, 40)
    network = linear_helper(sample)
    x = torch.from_numpy(sample.x)
    outputs = network(x).detach().double().numpy()
    targets = 2.0 * np.eye(3)[sample.y] - 1.0
    unit = float(np.square(sample.x - sample.x.mean(0)).sum(1).mean())
    others = [Ridge(alpha=ridge * unit).fit(sample.x, targets).predict(sample.x) for ridge in helpers._RIDGES]
    assert min(np.abs(outputs - other).max() for other in others) < 1e-4


@pytest.mark.parametrize("scale", [1e200, 1e-45])
def test_numbers_too_large_or_small_for_a_linear_helper_stop_no_other_method(scale):
    sample = table(200, 4)
    x = sample.x.astype(np.float64) * np.array([scale, 1.0, 1.0, 1.0])
    found = certify(None, (x, sample.y), effort="quick", allow_copies=True)
    assert found.certificate.claim.bound < 1.0


@pytest.mark.parametrize("block", [64, 1024])
def test_the_kernel_helper_is_kernel_ridge_regression(monkeypatch, block):
    monkeypatch.setattr(helpers, "_BLOCK", block)
    sample = table(300)
    network = kernel_helper(sample)
    rule, order = network.rule, permutation(sample.n)
    z = sample.x.astype(float)
    if rule.features.is_normalised:
        z = z / np.linalg.norm(z, axis=1, keepdims=True) * np.sqrt(z.shape[1])
    else:
        first = np.sort(z[order], axis=0)
        z = np.clip((z - first[150]) / (first[270] - first[30]), -4, 4)
    apart = ((z[:, None] - z[None]) ** 2).sum(2) / 6
    kernel = 1.0 / (1.0 + rule.gamma * apart / 4.0) ** 4
    targets = 2.0 * np.eye(3)[sample.y] - 1.0
    expected = kernel @ np.linalg.solve(kernel + rule.ridge * np.eye(300), targets)
    outputs = network(torch.from_numpy(sample.x)).numpy()
    assert np.abs(outputs - expected).max() < 0.02  # columns are rounded
    assert (outputs.argmax(1) != sample.y).mean() < 0.35


@pytest.mark.parametrize(("ridge", "taken"), [(4.0, 4.0), (0.1, 0.1), (0.001, 0.064)])
def test_what_is_solved_in_float32_is_refined_or_has_a_larger_ridge(monkeypatch, ridge, taken):
    monkeypatch.setattr(helpers, "_BLOCK", 50)
    rng = np.random.default_rng(0)
    x, targets = rng.normal(size=(320, 5)), rng.normal(size=(320, 3))
    kernel = np.exp(-((x[:, None] - x[None]) ** 2).sum(2) / 20.0) - 0.03 * np.eye(320)  # not definite
    kernel = kernel.astype(np.float32)
    found = helpers.solve(torch.from_numpy(kernel.copy()), torch.from_numpy(targets), ridge).numpy()
    expected = np.linalg.solve(kernel + taken * np.eye(320), targets)
    assert np.abs(found - expected).max() < 1e-4 * np.abs(expected).max()


def test_what_no_memory_has_room_for_is_not_learned_from(monkeypatch):
    sample = table(300)
    monkeypatch.setattr(helpers, "_ON_THE_WAY", 0.0)
    monkeypatch.setattr(helpers, "_MEMORY", 4.0 * 100**2 + 2.0 * 100 * 6)
    network = kernel_helper(sample)
    assert len(network.supports) == 100
    assert torch.equal(network.supports, torch.from_numpy(sample.x[permutation(300)[:100]]))
    assert (network(torch.from_numpy(sample.x)).argmax(1).numpy() != sample.y).mean() < 0.4


@pytest.mark.parametrize("n", [1, 11, 12])
def test_a_kernel_helper_of_a_few_examples_is_refused_or_there(n):
    sample = table(n)
    if n < 12:
        with pytest.raises(UsageError, match="at least 12 examples"):
            kernel_helper(sample)
    else:
        assert kernel_helper(sample)(torch.from_numpy(sample.x)).shape == (12, 3)


def test_a_picture_and_its_mirror_image_have_one_support(monkeypatch):
    x, y = rules.shapes(60)
    sample = Dataset("shapes", "train", x, y, 3, Scaling(16.0))
    patches = PatchFeatures(3, 256, 4, 3, 3)
    rule = Rule(patches, copies=1, first=60, gamma_index=5, ridge_index=6)
    monkeypatch.setattr(helpers, "best_rule", lambda *_: rule)
    network = kernel_helper(sample)
    inputs = sample.scaling.apply(torch.from_numpy(x))
    assert torch.allclose(network(inputs), network(inputs.flip(-1)), atol=1e-5)
    found, labels = features_of(rule, sample), torch.from_numpy(y)
    learner = learner_of(rule, *found, labels, classes=3, capacity=60)  # in float64, batch by batch
    learner.add(torch.from_numpy(permutation(60)))
    assert torch.allclose(network(inputs), learner.outputs(learner.coefficients()), atol=1e-4)


def test_a_helper_sees_the_first_part_and_nothing_else():
    sample, seen = table(), []

    def make(first):
        seen.append(first)
        return linear_helper(first)

    found = certify(None, sample, prior_tenths=5, helper=make, method="prune", effort="quick")
    prior, rest = prior_and_rest(sample, 5)
    (given,) = seen
    assert np.array_equal(given.x, prior.x)
    assert np.array_equal(given.y, prior.y)
    assert not {row.tobytes() for row in given.x} & {row.tobytes() for row in rest.x}
    claim, facts = found.certificate.claim, found.certificate.facts
    assert (claim.statement, facts.n) == ("C-10", rest.n)
    level = 0.05 * 2.0**-facts.code_bits  # a hold-out set, and the bits of the message
    held_out = beta.ppf(1 - level, facts.errors + 1, facts.n - facts.errors)
    assert claim.bound == pytest.approx(held_out, abs=1e-6)
    assert facts.code_bits <= 24
    assert "made by" in found.certificate.base_declared


def test_inputs_that_are_drawn_twice_are_no_reason_to_refuse_a_helper():
    some = table(200)
    rows = [*range(200), *range(40)]
    sample = Dataset("twice", "train", some.x[rows], some.y[rows], 3)
    prior, rest = prior_and_rest(sample, 5)
    assert len({row.tobytes() for row in prior.x} & {row.tobytes() for row in rest.x}) > 2
    found = certify(None, sample, prior_tenths=5, helper=linear_helper, allow_copies=True)
    assert found.certificate.facts.n == 120
    with pytest.raises(CertificateError, match="must not have seen any"):
        found.encoder.table(replace(prior, role="test"))


def test_the_best_of_several_shares_is_taken_and_stands_in_the_message():
    sample = table()
    each = {
        tenths: certify(None, sample, prior_tenths=tenths, method="prune", effort="quick").certificate
        for tenths in (3, 7)
    }
    best = certify(None, sample, prior_tenths=(3, 7), method="prune", effort="quick").certificate
    assert best.claim.bound == min(one.claim.bound for one in each.values())
    assert best.facts.extra["n_prior"] in (72, 168)


def test_weights_of_a_helper_are_declared():
    sample = table()
    prior, _ = prior_and_rest(sample, 5)
    helper = Pretrained(linear_helper(prior), "trained by hand on the first part")
    found = certify(None, sample, prior_tenths=5, helper=helper, method="prune", effort="quick")
    assert "trained by hand on the first part" in found.certificate.base_declared


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        ({"helper": linear_helper}, "say of which"),
        ({"prior_tenths": ()}, "at least one share"),
        ({"prior_tenths": 5, "helper": lambda first: 3}, "torch module"),
        ({"prior_tenths": 5, "base": Pretrained(nn.Linear(6, 3), "x")}, "a helper of its own"),
    ],
)
def test_a_helper_that_cannot_be_is_refused(asked, reason):
    with pytest.raises(UsageError, match=reason):
        certify(None, table(), method="prune", effort="quick", **asked)


@pytest.mark.thorough
@pytest.mark.parametrize("delta", [0.05, 1e-6])
@pytest.mark.parametrize("is_picture", [False, True])
def test_a_split_is_never_worse_than_its_hold_out_set_and_20_bits(delta, is_picture):
    sample = table()
    if is_picture:
        x, y = rules.shapes(150)
        sample = Dataset("shapes", "train", x, y, 3, Scaling(16.0))
    found = certify(None, sample, method="split", effort="standard", delta=delta).certificate
    facts = found.facts
    promised = holdout(HoldoutFacts(errors=facts.errors, n=facts.n, delta=delta * 2.0**-20)).value
    assert found.claim.bound <= promised
    assert (found.version, facts.extra["picks"]) == (3, 0)
    shares = {tenths * sample.n // 10 for tenths in TENTHS}
    assert facts.extra["first"] in shares
    assert facts.n == sample.n - facts.extra["first"]


def test_a_split_of_few_examples_is_none():
    with pytest.raises(UnsuitedError, match="at least 12"):
        certify(None, table(n=11), method="split", effort="quick")
    with pytest.raises(UnsuitedError, match="of its own"):
        certify(None, table(), prior_tenths=5, method="split", effort="quick")
