"""Tasks about a network that was given: both statements are issued, and what cannot be made is refused."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import beta
from worlds.outcomes import CHAIN, CODES, SAMPLE, issued, table_of
from worlds.samples import written_clusters

from codebound.bits.plain_code import NETWORK
from codebound.certificate import offers
from codebound.certificate.offers import assess, issue
from codebound.methods.search import Search
from codebound.request import Task
from codebound.run.errors import CertificateError, DataError, UsageError
from codebound.sample.order import Design
from codebound.sample.questions import Question
from codebound_networks.chains.message import Message
from codebound_networks.chains.original import Original

FRESH = written_clusters(300, seed=1, role="unlabelled")


def original(moved=0.01):
    """f: the network of the message, with one weight moved."""
    tensors = {name: code.weights().copy() for name, code in CODES.items()}
    tensors["0.weight"][0, 0] += np.float32(moved)
    return Original(CHAIN, {name: torch.from_numpy(value) for name, value in tensors.items()})


def task_about(moved=0.01, **given):
    return Task(sample=SAMPLE, delta=0.05, original=original(moved), **given)


def test_unlabelled_inputs_add_how_often_two_networks_differ():
    task = task_about(2.5, unlabelled=FRESH)
    search = Search(task, "quick")
    search.propose(Message(task.options, CHAIN, CODES))
    certificate = issue(search.best, task)
    x = FRESH.x.reshape(300, 4) / 16.0
    answers = []
    for tensors in (original(2.5).arrays, {name: code.weights() for name, code in CODES.items()}):
        logits = x @ tensors["0.weight"].T.astype(float) + tensors["0.bias"]
        answers.append(logits.argmax(1))
    apart = int((answers[0] != answers[1]).sum())
    risk, disagreement = certificate.claim.limits
    assert disagreement.errors == apart == certificate.original.unlabelled.disagreements > 0
    bits = certificate.message.bits
    for limit in (risk, disagreement):
        level = 0.025 * 2.0**-bits
        assert limit.bound == pytest.approx(
            beta.isf(level, limit.errors + 1, limit.n - limit.errors), rel=1e-9
        )
    assert certificate.claim.bound == pytest.approx(risk.bound + disagreement.bound)
    assert (certificate.claim.law, certificate.claim.subject, certificate.statement) == ("sum", "f", "C-12b")


@pytest.mark.parametrize(
    ("copies", "counted"), [("any", (2, 4)), ("independent", (2, 6)), ("repeated", (1, 3))]
)
def test_copies_of_fresh_inputs_are_counted_like_those_of_the_sample(copies, counted):
    x = FRESH.x.reshape(300, 4) / 16.0
    both = original(2.5).arrays, {name: code.weights() for name, code in CODES.items()}
    answers = [(x @ each["0.weight"].T.astype(float) + each["0.bias"]).argmax(1) for each in both]
    (one, other, *_), (differs, *_) = (
        np.flatnonzero(each) for each in (answers[0] == answers[1], answers[0] != answers[1])
    )
    fresh = FRESH.select([one, other, one, differs, differs, one], role="unlabelled")
    task = task_about(2.5, unlabelled=fresh, design=Design(copies=copies))
    search = Search(task, "quick")
    search.propose(Message(task.options, CHAIN, CODES))
    disagreement = search.best.limits[1]
    assert (disagreement.errors, disagreement.n) == counted


def test_on_a_domain_the_margin_covers_the_distance_and_is_paid_for():
    bits = {}
    for moved in (0.001, 0.1):
        task = task_about(moved, input_range=(0, 16))
        search = Search(task, "quick")
        search.propose(Message(task.options, CHAIN, CODES))
        certificate = issue(search.best, task)
        bits[moved] = certificate.message.bits
        assert (certificate.statement, certificate.claim.subject) == ("C-12a", "f")
        assert certificate.original.domain == (0.0, 16.0)
        assert "stored values from 0 to 16" in certificate.sentence
        assert certificate.limit.errors >= issued(NETWORK)[0].limit.errors
    assert len(set(bits.values())) == 2
    assert all(each > issued(NETWORK)[0].message.bits for each in bits.values())


@pytest.mark.parametrize(
    ("given", "changes", "error", "words"),
    [
        ({"unlabelled": FRESH, "input_range": (0, 16)}, {}, UsageError, "one of both"),
        ({"input_range": (4.0, -2.0)}, {}, DataError, "must hold every stored value"),
        ({"input_range": (0.0, 1.0)}, {}, DataError, "must hold every stored value"),
        ({"input_range": (float("nan"), 16.0)}, {}, DataError, "must hold every stored value"),
        ({"input_range": (0.0, 16.0)}, {"original": None}, CertificateError, "needs a network"),
        (
            {"unlabelled": FRESH},
            {"original": Original(None, {}, unchained="a branch")},
            CertificateError,
            "a chain",
        ),
        (
            {"unlabelled": FRESH},
            {"question": Question(on="each class")},
            UsageError,
            "only every error counts",
        ),
        (
            {"unlabelled": replace(FRESH, x=FRESH.x.reshape(300, 4))},
            {},
            DataError,
            "unlabelled inputs have the shape",
        ),
        ({"unlabelled": replace(SAMPLE, role="unlabelled")}, {}, CertificateError, "have to be a fresh draw"),
    ],
)
def test_a_claim_about_f_that_cannot_be_made_is_refused(given, changes, error, words):
    with pytest.raises(error, match=words):
        Task(**{"sample": SAMPLE, "delta": 0.05, "original": original()} | given | changes)


def test_tables_fit_the_sample():
    for table, words in (
        (table_of(written_clusters(30)), "are of 30 examples, the sample has 240"),
        (table_of(rows=241), "made from 241"),
    ):
        with pytest.raises((DataError, UsageError), match=words):
            Task(sample=SAMPLE, delta=0.05, tables=(table,))
    with pytest.raises(UsageError, match="at most 256"):
        Task(sample=SAMPLE, delta=0.05, tables=(table_of(),) * 257)


def test_one_label_is_nothing_to_tell_apart():
    with pytest.raises(DataError, match="nothing to tell apart"):
        Task(sample=replace(SAMPLE, y=SAMPLE.y * 0, classes=1), delta=0.05)


def test_the_bits_decide_what_is_counted(monkeypatch):
    """Teeth: if the decoder gave another network, the errors would be those of that network."""
    task = Task(sample=SAMPLE, delta=0.05)
    message = Message(task.options, CHAIN, CODES)
    zeros = CHAIN.build({"0.weight": torch.zeros(3, 4), "0.bias": torch.zeros(3)})
    garbled = type("Garbled", (), {"parts": message.parts, "build": lambda self, base: zeros})()
    monkeypatch.setattr(offers, "form_of", lambda name: lambda bits, **known: garbled)
    assert assess(offers.network_outcome(message, task), task).limits[0].errors == SAMPLE.n
