"""Splits: the usual one for a bit, another where leaving out speaks for it, and what cannot be split."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from worlds.outcomes import CHAIN, CODES
from worlds.samples import clouds, rows_of, written_clusters

from codebound.bits.plain_code import SPLIT, USUAL_SPLIT
from codebound.certification import certify
from codebound.methods import split
from codebound.methods.search import Search, UnsuitedError
from codebound.request import Claim, Run, Task
from codebound.run.errors import ModelError
from codebound.sample.counting import Term
from codebound.sample.order import Design
from codebound_networks.chains.original import Original


def search_for(sample, effort="standard", **given):
    search = Search(Task(sample=sample, delta=0.05, **given), effort)
    search.is_asked = True
    return search


def nearest(sample, known, rest):
    """Errors of the nearest known neighbour: what any learner is near to, where clouds are far apart."""
    apart = ((sample.x[rest][:, None] - sample.x[known][None]) ** 2).sum(2)
    return int((sample.y[known][apart.argmin(1)] != sample.y[rest]).sum())


def test_the_usual_split_costs_a_bit_and_another_one_is_offered_beside_it():
    search = search_for(clouds(300, features=6, apart=1.6))
    split.propose_split(search)
    forms = {each.outcome.form: each for each in search.offers}
    usual = forms[USUAL_SPLIT]
    assert (usual.bits.length, usual.outcome.known_rows, usual.tally.n) == (1, 150, 150)
    assert usual.bound == Term("binomial", usual.tally.errors, 150, 1).limit(0.05)
    assert set(forms) <= {USUAL_SPLIT, SPLIT}
    quick = search_for(clouds(300, features=6, apart=1.6), "quick")
    split.propose_split(quick)
    assert [each.outcome.form for each in quick.offers] == [USUAL_SPLIT]


def test_errors_are_those_of_rows_after_the_known_share():
    sample = clouds(400, features=4, apart=6.0)
    task = search_for(sample, "quick")
    split.propose_split(task)
    known, rest = task.task.arranged.split(200)
    assert abs(task.best.tally.errors - nearest(sample, known, rest)) <= 1


def test_nothing_of_the_counted_rows_is_learned():
    """Teeth: other labels and inputs there leave the known share and the learner as they are."""
    sample = clouds(200, features=4, apart=2.0)
    first = search_for(sample, "quick", design=Design(order="file"))
    split.propose_split(first)
    y = sample.y.copy()
    y[100:] = (y[100:] + 1) % 3
    second = search_for(replace(sample, y=y), "quick", design=Design(order="file"))
    split.propose_split(second)
    ours, theirs = (each.best.outcome.made for each in (first, second))
    assert ours.rule == theirs.rule
    assert np.array_equal(ours.coefficients, theirs.coefficients)
    assert first.best.tally.errors < 50 < second.best.tally.errors


def test_labels_that_only_counted_rows_have_are_wrong():
    y = np.r_[np.arange(60) % 2, np.full(60, 2)]
    search = search_for(
        rows_of(np.random.default_rng(0).normal(size=(120, 2)), y), "quick", design=Design(order="file")
    )
    split.propose_split(search)
    assert search.best.outcome.classes.tolist() == [0, 1]
    assert search.best.tally.errors == 60


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"sample": clouds(3)}, "at least 4"),
        ({"sample": rows_of(np.zeros((30, 2)), np.zeros(30), classes=2)}, "no learner suits"),
    ],
)
def test_what_cannot_be_split_says_why(given, words):
    with pytest.raises(UnsuitedError, match=words):
        split.propose_split(search_for(**given))


def test_a_claim_about_f_is_none_for_a_rule():
    tensors = {name: torch.from_numpy(code.weights()) for name, code in CODES.items()}
    task = {"original": Original(CHAIN, tensors), "input_range": (0, 16)}
    with pytest.raises(UnsuitedError, match="a classifier of its own"):
        split.propose_split(search_for(written_clusters(60), **task))


def test_where_no_usual_learner_suits_another_one_may(monkeypatch):
    def fail(*given, **options):
        raise ModelError("too much work.")

    monkeypatch.setattr(split, "usual_split", fail)
    found = certify(clouds(200, features=4), method="split", run=Run(effort="quick"))
    assert found.certificate.form == SPLIT
    monkeypatch.setattr(split, "compare_rules", fail)
    with pytest.raises(UnsuitedError, match="too much work"):
        certify(clouds(200, features=4), method="split", run=Run(effort="quick"))


def test_clusters_are_split_as_wholes_and_a_row_of_each_counts():
    sample = clouds(300, features=4, apart=2.0)
    clusters = np.repeat(np.arange(100, dtype=np.int64), 3)
    found = certify(
        sample, method="split", claim=Claim(clusters=clusters), run=Run(effort="quick")
    ).certificate
    assert (found.known.rows, found.limit.n, found.claim.on) == (50, 50, "one row a cluster")
    every = certify(
        sample,
        method="split",
        claim=Claim(clusters=clusters, on="any row of a cluster"),
        run=Run(effort="quick"),
    ).certificate
    assert every.limit.n == 50
    assert every.limit.errors >= found.limit.errors
