"""A network of one's own, bounded through a certificate: sums, refusals, and the promise, with teeth."""

import dataclasses
from fractions import Fraction

import numpy as np
import pytest
import torch
from scipy.stats import beta
from torch import fx, nn
from torch.nn.modules.module import register_module_forward_pre_hook
from worlds.networks import mlp
from worlds.rates import exceeds
from worlds.requests import request

from codebound.certificate.evaluate import collect_answers, count_differences, count_errors
from codebound.certification import certify
from codebound.request import Run
from codebound.run.errors import CertificateError, CodeboundError, UsageError
from codebound.sample.dataset import Sample
from codebound.sample.load import load_sample
from codebound.sample.order import COPIES
from codebound_networks.about_f.disagreement import bound_through, count_disagreements, find_agreements
from codebound_networks.views.rebuild import with_weights

DIGITS = load_sample("digits")
SAMPLE = DIGITS.select(range(400), role="train")
FRESH = DIGITS.select(range(900, 1797), role="unlabelled")


def untrained(seed=0):
    return mlp(64, 10, flat=True, seed=seed).eval()


@pytest.fixture(scope="module")
def learned(tmp_path_factory):
    folder = tmp_path_factory.mktemp("learned") / "c"
    found = certify(SAMPLE, method="picks", delta=0.025, run=Run(effort="quick"))
    found.save_to(folder)
    return found, folder


@pytest.fixture(scope="module")
def after_split():
    asked = {"share": 0.5, "helper": lambda prior: untrained(), "method": "prune"}
    return certify(SAMPLE, network=untrained(), delta=0.025, **request(effort="quick", **asked))


class Copy(nn.Module):
    """g itself as a network of scaled inputs, which answers something else now and then."""

    def __init__(self, g, other):
        super().__init__()
        self.g, self.other = g, other

    def forward(self, x):
        outputs = self.g((x * 16).round().to(torch.uint8))
        is_other = (x.flatten(1).sum(1) * 16).round().long() % self.other == 0
        return torch.where(is_other[:, None], outputs.flip(1), outputs)


def test_the_bound_is_the_sum_of_both_limits(learned):
    found, folder = learned
    through = bound_through(
        folder / "certificate.cbound",
        Copy(found.network, 40),
        sample=SAMPLE,
        unlabelled=FRESH,
        weights=folder / "g.safetensors",
    )
    differ, n = through.disagreements, FRESH.n
    assert 5 < differ < 60
    limit = beta.ppf(1 - 0.025, differ + 1, n - differ)  # Clopper and Pearson, by another library
    assert through.bound == pytest.approx(found.certificate.claim.bound + limit, abs=1e-9)
    assert through.bound >= found.certificate.claim.bound + limit - 1e-15
    assert Fraction(through.delta) >= Fraction(0.025) + Fraction(0.025)
    assert f"1 - {through.delta:g}" in through.sentence


def test_it_goes_through_a_split_too(after_split):
    g = after_split.network
    through = bound_through(
        after_split.certificate, g, sample=SAMPLE, unlabelled=FRESH, base=after_split.base, delta=0.01
    )
    assert through.statement == "C-10"
    assert through.disagreements < 5  # f is g: what is ambiguous counts


def test_what_is_no_second_draw_is_refused(learned):
    found, folder = learned
    weights = folder / "g.safetensors"
    mixed = Sample("mixed", "unlabelled", np.concatenate([FRESH.x, SAMPLE.x[:1]]), np.zeros(898, np.int64), 1)
    with pytest.raises(CodeboundError, match="sample"):
        bound_through(found.certificate, untrained(), sample=SAMPLE, unlabelled=mixed, weights=weights)
    with pytest.raises(CertificateError, match="refuses"):
        bound_through(
            found.certificate,
            untrained(),
            sample=DIGITS.select(range(1, 401), role="train"),
            unlabelled=DIGITS.select(range(901, 1797), role="unlabelled"),
            weights=weights,
        )
    claim = dataclasses.replace(found.certificate.claim, bound=0.001)
    forged = dataclasses.replace(found.certificate, claim=claim)
    with pytest.raises(CertificateError, match="refuses"):
        bound_through(forged, untrained(), sample=SAMPLE, unlabelled=FRESH, weights=weights)
    with pytest.raises(UsageError, match="below 1"):
        bound_through(
            found.certificate, untrained(), sample=SAMPLE, unlabelled=FRESH, weights=weights, delta=0.99
        )


def test_copies_of_fresh_inputs_are_counted_like_those_of_the_sample():
    fresh = DIGITS.select([900, 901, 900, 902, 902, 900], role="unlabelled")
    agree = np.array([True, True, True, False, False, True])
    counted = {copies: count_disagreements(agree, fresh, copies=copies) for copies in COPIES}
    assert counted == {"any": (2, 4), "independent": (2, 6), "repeated": (1, 3)}


def test_a_network_that_looks_at_its_batch_is_refused(learned):
    class Batch(nn.Module):
        def forward(self, x):
            return nn.functional.pad(x.flatten(1).sum(1, keepdim=True) - x.sum(), (0, 9))

    found, folder = learned
    with pytest.raises(CodeboundError):
        bound_through(
            found.certificate, Batch(), sample=SAMPLE, unlabelled=FRESH, weights=folder / "g.safetensors"
        )


def misses(*, with_limit: bool, reps: int = 3000) -> int:
    """Worlds of known risk: g errs with probability 0.05, f differs from it with probability 0.03."""
    from codebound.bounds.occam import occam_binomial
    from codebound.bounds.original import through_disagreement
    from codebound.bounds.risk import HoldoutFacts, OccamFacts

    rng = np.random.default_rng(0)
    n, m, delta = 200, 150, 0.1
    errors, differ = rng.binomial(n, 0.05, reps), rng.binomial(m, 0.03, reps)
    count, known = 0, {}
    for pair in zip(errors.tolist(), differ.tolist(), strict=True):
        if pair not in known:
            risk = occam_binomial(OccamFacts(errors=pair[0], n=n, code_bits=0, delta=delta)).value
            apart = HoldoutFacts(errors=pair[1], n=m, delta=delta)
            known[pair] = through_disagreement(risk, apart) if with_limit else pair[0] / n + pair[1] / m
        count += known[pair] < 0.08  # the worst case: f is wrong wherever it differs from a right g
    return count


def test_holds_at_the_claimed_level():
    assert not exceeds(misses(with_limit=True), reps=3000, delta=0.2)


def test_the_level_test_has_teeth():
    assert exceeds(misses(with_limit=False), reps=3000, delta=0.2)


TESTED = DIGITS.select(range(900, 1400), role="test")


class Rough(nn.Module):
    """A network of others, whose answers are ties, not finite, or lost in float32 now and then."""

    def __init__(self, seed=0, *, offset=0.0):
        super().__init__()
        self.inside, self.offset = untrained(seed), offset

    def forward(self, x):
        outputs, kind = self.inside(x), (x.flatten(1).sum(1) * 16).round().long() % 12
        outputs = torch.where(kind[:, None] == 0, outputs.round(), outputs)
        outputs = torch.where(kind[:, None] == 1, outputs / 0.0, outputs)
        return outputs + self.offset


def trained_chain():
    """A chain that is right now and then: rows of weights are the means of the classes."""
    means = np.stack([SAMPLE.x[SAMPLE.y == label].reshape(-1, 64).mean(0) for label in range(10)])
    network = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    with torch.no_grad():
        network[1].weight.copy_(torch.from_numpy(means / 16.0))
        network[1].bias.copy_(-8.0 * (network[1].weight ** 2).sum(1) / 16.0)
    return network.eval()


NETWORKS = {
    "a chain": trained_chain,
    "another chain": untrained,
    "of others": Rough,
    "lost in float32": lambda: Rough(offset=2.0**18),
    "nothing is certain": lambda: Rough(offset=2.0**30),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_one_evaluation_counts_what_two_count(name):
    f, g = NETWORKS[name](), untrained(1)
    said = collect_answers(f, TESTED.on("cpu"))
    assert said.errors == count_errors(with_weights(f, f.state_dict()), TESTED.on("cpu"))
    agree = find_agreements(f, g, TESTED, takes_stored=False)
    assert count_differences(said, g, TESTED, takes_stored=False) == int((~agree).sum())
    assert 0 < said.errors <= TESTED.n
    assert count_differences(said, f, TESTED, takes_stored=False) == int((~said.is_clear).sum())


class Cancelling(nn.Module):
    """Loses its digits in float32, where the second column is not zero."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1))

    def forward(self, x):
        large = x[:, 1:2] * 1e6
        found = ((x[:, :1] + large) - large) * self.weight
        return torch.cat([found, -found, 0.0 * found], dim=1)


def test_what_float32_denies_is_an_error_and_not_clear_however_late_it_comes():
    x = np.zeros((6000, 2))
    x[:, 0], x[4196:] = 1.0, (1.03, 1.0)  # behind the examples that a screening looks at
    late = Sample("late", "test", x, np.zeros(6000, dtype=np.int64), 3).on("cpu")
    said = collect_answers(Cancelling(), late)
    assert said.errors == 6000 - 4196 > count_errors(Cancelling(), late)
    assert said.is_clear.tolist() == [True] * 4196 + [False] * (6000 - 4196)


def test_f_is_evaluated_once_on_a_test_sample():
    class Smooth(nn.Module):
        def __init__(self):
            super().__init__()
            self.inside = untrained()

        def forward(self, x):
            return self.inside(x.sin())  # no operation of a message: f stays a network of torch

    marked = TESTED.x.copy()
    marked[..., 0, 0] = 5  # always 0 elsewhere: they are told apart by that
    marked = dataclasses.replace(TESTED, x=marked)
    seen = {torch.float32: 0, torch.float64: 0}

    def note(module, given):
        if isinstance(module, fx.GraphModule) and len(given[0]):
            seen[given[0].dtype] += int((given[0][..., 0, 0] == 5.0 / 16.0).sum())

    hook = register_module_forward_pre_hook(note)
    try:
        found = certify(SAMPLE, network=Smooth(), test=marked, method="picks", run=Run(effort="quick"))
    finally:
        hook.remove()
    assert found.holdout_f is not None
    assert found.disagreement is not None
    assert set(seen.values()) == {marked.n}  # in both precisions, by which it is judged
