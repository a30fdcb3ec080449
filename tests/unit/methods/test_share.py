"""The helper that ``certify`` makes by itself: when, of what, at which price, and what it has to say."""

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import rule_writer as rules
import torch
from safetensors.numpy import load_file, save_file
from scipy.stats import beta
from worlds.attempts import course_of
from worlds.samples import clouds

from codebound.certificate.claims import AboutG, prior_and_rest
from codebound.certification import certify
from codebound.classifier import load_classifier
from codebound.known.encoder import Encoder
from codebound.learn.features import ColumnFeatures, PatchFeatures
from codebound.learn.picking import permutation
from codebound.learn.rule import Rule
from codebound.methods import kernel_share as helpers
from codebound.methods import share as helped
from codebound.methods import strategy as course
from codebound.methods.holdout_baseline import HoldoutBound
from codebound.methods.inputs import encode_rest
from codebound.methods.kernel_share import kernel_helper
from codebound.run.errors import CertificateError
from codebound.run.progress import silent
from codebound.sample.dataset import Dataset, Scaling


def table(n=260, seed=0):
    return clouds(n, features=6, apart=1.6, seed=seed)


@pytest.fixture
def always(monkeypatch):
    """A helper is tried for small tables too, as if all else were far from a hold-out set."""
    monkeypatch.setattr(course, "_FEW", 0)
    monkeypatch.setattr(helped, "NEAR_BITS", -4.0)
    monkeypatch.setattr(helped, "_TENTHS", 5)  # of few examples more have to be counted
    monkeypatch.setattr(helped, "_SECONDS", {"quick": 60.0, "standard": 0.0})
    monkeypatch.setattr(helped, "_COMPARED", 0.0)
    monkeypatch.setattr(course, "_CLEARLY", 1.0)  # and issued although what it saw is declared


def test_what_is_far_above_a_hold_out_set_is_followed_by_a_helper(always):
    found = certify(None, table(), effort="quick", test_set=table(400, seed=1))
    names = {each.name: each for each in found.routes}
    assert {"helper", "split", "picks", "hold-out"} <= names.keys()
    assert found.certificate.claim.bound == min(each.bound for each in found.routes if each.has_certificate)
    assert found.method == "helper"
    facts, claim = found.certificate.facts, found.certificate.claim
    limit = beta.ppf(1 - 0.05 * 2.0**-7, facts.errors + 1, facts.n - facts.errors)
    assert facts.code_bits == 7
    assert claim.bound == pytest.approx(limit, abs=1e-6)
    declared = next(each for each in found.certificate.declarations if "kernel_helper" in each)
    assert f"made of the first {260 - facts.n} of 260 examples" in declared
    assert not found.is_behind_f
    assert found.holdout.facts.n == 400
    assert found.holdout.value < 0.5


def test_its_word_is_one_that_no_other_route_has(always):
    found = certify(None, table(), effort="quick")
    assert found.method == "helper"
    word = found.certificate.message
    assert (word.length, word.data[0] >> 6) == (7, 0b11)  # a short one, about a base: docs/format-3.md, 5.7
    for method in ("split", "picks"):
        other = certify(None, table(), method=method, effort="quick").certificate
        is_short = other.ledger[0][0] == "form"
        assert not is_short or other.message.data[0] >> 6 != 0b11
    assert 2.0**-7 <= 0.25


def rest_changed(sample, tenths):
    """The sample with other labels and inputs after the first part."""
    rest = permutation(sample.n)[tenths * sample.n // 10 :]
    x, y = sample.x.copy(), sample.y.copy()
    x[rest], y[rest] = x[rest][::-1] * 3.0, (y[rest] + 1) % sample.classes
    return replace(sample, x=x, y=y)


def made_by(maker, sample):
    encoder, _, _ = encode_rest(
        maker,
        sample,
        None,
        8,
        has_scores=True,
        allow_copies=False,
        device=torch.device("cpu"),
        progress=silent,
    )
    return encoder.sha256


def test_nothing_after_the_first_part_enters_a_helper():
    sample = table()
    changed = rest_changed(sample, 8)
    assert np.array_equal(prior_and_rest(sample, 8)[0].x, prior_and_rest(changed, 8)[0].x)
    assert made_by(kernel_helper, sample) == made_by(kernel_helper, changed)

    def peeks(whole):  # teeth: tunes on what it must not see
        def maker(first):
            rest = prior_and_rest(whole, 8)[1]
            both = Dataset("both", "train", np.r_[first.x, rest.x], np.r_[first.y, rest.y], 3)
            return kernel_helper(both)

        return maker

    assert made_by(peeks(sample), sample) != made_by(peeks(changed), changed)


def test_where_there_is_no_time_it_is_said_what_to_ask_for(always):
    found = certify(None, table())
    assert "helper" not in {each.name for each in found.routes}
    assert "the effort max" in found.skipped["helper"]
    assert "tenths of the sample" in found.skipped["helper"]
    assert "%" not in found.skipped["helper"]  # what it may come to is an estimate


def tried_within(seconds, bound=0.9):
    """What comes of a helper when so much time is left, and why nothing does."""
    rival = HoldoutBound(Rule(), 0.2, 208, 8, 5, 52, 7, 6)
    search = SimpleNamespace(held_out=rival, skipped={}, is_interrupted=False)
    attempt = SimpleNamespace(best=SimpleNamespace(rank=(bound,)), search=search)
    made = course_of(
        sample=table(), attempts=[attempt], claims=[AboutG()], device=torch.device("cpu"), progress=silent
    )
    found = helped.attempt_shares(made, seconds)
    return found, search.skipped.get("helper", "")


def test_it_is_not_begun_where_its_time_is_too_short(monkeypatch):
    monkeypatch.setattr(helped, "_estimate_seconds", lambda *_: 6000.0)
    monkeypatch.setattr(helped, "kernel_helper", None)
    found, reason = tried_within(100.0)
    assert found == []
    assert "some 100 minutes here: give 202 minutes or more" in reason


def test_a_helper_whose_time_is_up_costs_nothing_that_was_found(monkeypatch):
    monkeypatch.setattr(helped, "_estimate_seconds", lambda *_: 0.0)

    def slow(first, *, progress):
        monkeypatch.setattr(helped.time, "monotonic", lambda: math.inf)
        progress(0, None, "")

    monkeypatch.setattr(helped, "kernel_helper", slow)
    found, reason = tried_within(100.0)
    assert found == []
    assert "its time was up" in reason


def test_what_is_near_to_a_hold_out_set_needs_no_helper(monkeypatch):
    monkeypatch.setattr(helped, "kernel_helper", None)
    near, far = (beta.ppf(1 - 0.05 * 2.0**-bits, 6, 47) for bits in (15.9, 16.1))
    assert tried_within(100.0, near) == ([], "")
    monkeypatch.setattr(helped, "_estimate_seconds", lambda *_: 6000.0)
    assert "minutes" in tried_within(100.0, far)[1]


def test_how_long_it_takes_grows_with_what_is_learned_from():
    few, many = (helped._estimate_seconds(n, 10**5, 5000, torch.device("cpu")) for n in (10**3, 8 * 10**4))
    assert 0.0 < few < many


def test_an_interrupt_keeps_what_was_found(always, monkeypatch):
    def interrupted(first):
        raise KeyboardInterrupt

    monkeypatch.setattr(helped, "kernel_helper", interrupted)
    found = certify(None, table(), effort="quick")
    assert found.method != "helper"
    assert found.certificate.claim.bound < 1.0


def test_the_share_is_decided_before_a_look(always):
    """Every certificate declares that nobody looked before it was known how many examples count."""
    sample = table()
    unlike = Dataset("noise", "train", sample.x, np.random.default_rng(1).integers(0, 3, sample.n), 3)
    for each in (sample, unlike, table(seed=2)):
        price = next(
            route.price for route in certify(None, each, effort="quick").routes if route.name == "helper"
        )
        assert f"of {each.n - helped.share_of(each.n) * each.n // 10}, by a helper" in price


def test_a_share_has_to_fit_into_memory(always, monkeypatch):
    monkeypatch.setattr(helpers, "_ON_THE_WAY", 0.0)
    monkeypatch.setattr(helpers, "_MEMORY", 4.0 * 60**2 + 2.0 * 60 * helped._WIDEST)
    found = certify(None, table(), effort="quick")
    (route,) = (each for each in found.routes if each.name == "helper")
    assert "helper of the other 52" in route.price  # two tenths


def test_few_examples_need_no_helper(monkeypatch):
    monkeypatch.setattr(helped, "NEAR_BITS", -4.0)
    assert "helper" not in {each.name for each in certify(None, table(), effort="quick").routes}
    assert course._FEW == 2000


def test_an_encoder_before_a_helper_is_declared_too():
    encoder = Encoder("plane", lambda x: x[:, :4] + 0.0, "0" * 64)
    sample = encoder.table(table())
    found = certify(None, sample, prior_tenths=8, helper=kernel_helper, effort="quick").certificate
    declared = [each for each in found.declarations if "rows of the encoder" in each]
    assert ["kernel_helper" in declared[0], "encoder plane" in declared[1]] == [True, True]
    assert "fixed without looking" in declared[1]


@pytest.mark.parametrize("scaling", [Scaling(16.0), Scaling(2.0, (0.5,), (3.0,))])
def test_what_is_saved_is_used_without_more(always, monkeypatch, tmp_path, scaling):
    monkeypatch.setattr(helped, "_TENTHS", 3)
    x, y = rules.shapes(150)
    sample = Dataset("shapes", "train", x, y, 3, scaling)
    found = certify(None, sample, effort="quick")
    assert found.method == "helper"
    assert found.is_new
    folder = found.save_to(tmp_path / "made").folder
    g = load_classifier(folder)
    fresh, labels = rules.shapes(60, seed=5)
    expected = found.classifier(scaling.apply(torch.from_numpy(fresh)))
    assert torch.allclose(
        g(torch.from_numpy(fresh)), expected.double().to(g(torch.from_numpy(fresh)).dtype), atol=1e-4
    )
    assert np.mean(np.array(g.predict(torch.from_numpy(fresh))) != labels) < 0.3
    assert 'load_classifier(".")' in (folder / "README.md").read_text()
    tensors = load_file(folder / "helper.safetensors")
    tensors["networks.0.coefficients"][0] += 1.0
    save_file(tensors, folder / "helper.safetensors")
    with pytest.raises(CertificateError, match="does not declare"):
        load_classifier(folder)


class Counted(helpers._Trial):
    """A trial whose errors are a function of width and ridge: the fewest lie behind a bump."""

    def __init__(self, features):
        self.rule, self.found = Rule(features, gamma_index=6, ridge_index=6), {}
        self._try(self.rule)

    def _try(self, rule):
        bump = 5 * (rule.gamma_index in (7, 8))
        self.found[rule] = abs(rule.gamma_index - 10) + abs(rule.ridge_index - 2) + bump, 1.0
        return self.found[rule]


@pytest.mark.parametrize(("features", "width"), [(ColumnFeatures(False), 10), (PatchFeatures(), 6)])
def test_the_width_of_a_table_is_looked_for_beyond_the_next(features, width):
    """One error more, which may be rounding, does not end the way; pictures have a width that is near."""
    trial = Counted(features)
    trial.improve()
    assert (trial.rule.gamma_index, trial.rule.ridge_index) == (width, 2)
