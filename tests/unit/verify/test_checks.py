"""The checks one by one: what is true passes, and each lie is refused by the check that it concerns."""

from dataclasses import replace

import cbound_writer as writer
import numpy as np
import pytest
from scipy.stats import beta

from codebound_verify import checks
from codebound_verify.header import Disagreement, Domain, Picked, Split, parse_header
from codebound_verify.losses import read_loss
from codebound_verify.networks.chain import parse_chain
from codebound_verify.networks.evaluation import chain_evaluator, check_errors
from codebound_verify.networks.network import Network
from codebound_verify.refusal import Refused
from codebound_verify.sample import count_repeats, permutation
from codebound_verify.versions import VERSIONS

CASE = writer.linear_case(400)
X, Y = CASE.x, np.asarray(CASE.y)
HEADER = parse_header(writer.canonical(CASE.fields), VERSIONS[2])
LOGITS = (
    X.reshape(400, 4) / 16 @ CASE.message.tensors["0.weight"].values.T + CASE.message.tensors["0.bias"].values
)
CHAIN = parse_chain((("linear", 3, True),), (1, 2, 2), 3)
TENSORS = {name: tensor.values.astype(np.float32) for name, tensor in CASE.message.tensors.items()}
NETWORK = Network(CHAIN, TENSORS)
EVALUATOR = chain_evaluator(CHAIN, TENSORS, header=HEADER)


def loss(text):
    return read_loss(text, 3, has_new=True)


def wrong(logits=LOGITS, y=Y):
    """Errors of logits; ties are errors."""
    others = logits.copy()
    others[np.arange(len(y)), y] = -np.inf
    return logits[np.arange(len(y)), y] <= others.max(1)


def refused(check, *given, **options):
    with pytest.raises(Refused) as refusal:
        check(*given, **options)
    return " ".join(refusal.value.reasons)


@pytest.mark.parametrize(
    ("header", "x", "y", "reason"),
    [
        (HEADER, X.reshape(400, 4), Y, r"shape (4,); the header says (1, 2, 2)"),
        (HEADER, X, Y + 1, "labels go from 1 to 3; 0 to 2 is expected"),
        (replace(HEADER, loss=loss("class:1")), X, Y, "of the 400 examples count"),
        (replace(HEADER, extra=Split(n_prior=100)), X, Y, "the certificate is about 500"),
        (replace(HEADER, extra=Domain(1.0, 5.0, "")), X, Y, "the domain is 1.0 to 5.0"),
    ],
)
def test_another_sample_is_refused(header, x, y, reason):
    assert reason in refused(checks.match_sample, header, x, y)


def test_examples_that_count_come_behind_those_that_were_set_apart():
    for extra in (Split(n_prior=120), Picked(first=120, picks=3)):
        header = replace(HEADER, extra=extra)
        assert checks.counted_places(header, Y).tolist() == permutation(400)[120:].tolist()
    only = checks.counted_places(replace(HEADER, loss=loss("class:2")), Y)
    assert only.tolist() == np.flatnonzero(Y == 2).tolist()
    assert checks.count_commonest(HEADER, Y) == np.bincount(Y).max()


def test_a_ledger_says_what_the_message_has():
    (name, bits), *rest = HEADER.ledger
    assert "it says" in refused(checks.check_ledger, HEADER, [(name, bits + 1), *rest])
    assert "parts" in refused(checks.check_ledger, HEADER, rest)


def test_errors_are_at_most_those_stated():
    errors = int(wrong().sum())
    check_errors(replace(HEADER, errors=errors + 5), NETWORK, EVALUATOR, X, Y)
    found = refused(check_errors, replace(HEADER, errors=errors - 1), NETWORK, EVALUATOR, X, Y)
    assert f"makes {errors} errors on the 400 examples that count" in found


def test_copies_are_those_that_are_stated_and_few():
    doubled = np.concatenate([X, X[:20]]), np.concatenate([Y, Y[:20]])
    repeats = count_repeats(*doubled)
    header = replace(HEADER, commonest=None, copies=repeats.copies, contradictions=repeats.contradictions)
    assert "exact copies of earlier ones" in refused(
        checks.check_rows, header, repeats, 0, allow_copies=False
    )
    checks.check_rows(header, repeats, 0, allow_copies=True)
    lie = replace(header, copies=repeats.copies - 1)
    assert "copies is" in refused(checks.check_rows, lie, repeats, 0, allow_copies=True)


def test_scaling_by_statistics_of_the_sample_is_refused():
    rows = np.random.default_rng(0).normal(3.0, 2.0, size=(50, 2))
    standard = (rows - rows.mean(0)) / rows.std(0)
    assert "standardised with statistics" in refused(checks.check_scaling, HEADER, standard)


def limit(errors, n, level):
    """Clopper and Pearson's."""
    return float(beta.isf(level, errors + 1, n - errors))


def test_the_word_vacuous_is_that_of_guessing():
    head = HEADER
    assert "vacuous is True" in refused(checks.check_claim, replace(head, vacuous=True))
    assert checks.guessing(head, None) == pytest.approx(2 / 3)
    assert checks.guessing(head, 300) == pytest.approx(0.25)  # the commonest label of 400 examples
    assert checks.guessing(replace(head, loss=loss("top:2")), 300) == pytest.approx(1 / 3)


def disagreeing(share=0.5, disagreement=0.5, count=7):
    head = HEADER
    extra = Disagreement(
        n_unlabelled=300,
        disagreements=count,
        delta_risk=head.delta * share,
        delta_disagreement=head.delta * disagreement,
        unlabelled_sha256="0" * 64,
        subject_sha256="0" * 64,
        subject_chain=(),
    )
    added = limit(count, 300, extra.delta_disagreement)
    bound = limit(head.errors, head.n, extra.delta_risk * 2.0**-head.code_bits) + added
    return replace(head, extra=extra, bound=bound * (1 + 1e-12))


def test_disagreements_are_added_at_half_of_delta_each():
    found = refused(checks.check_claim, disagreeing())  # kl and hoeffding are still those of g
    assert "bound is printed" not in found
    assert "kl is printed" in found
    assert "Claim: bound" in refused(checks.check_claim, replace(disagreeing(), bound=HEADER.bound))


def test_a_split_of_delta_that_was_chosen_is_refused():
    assert "they must be half of delta and half of it" in refused(checks.check_claim, disagreeing(0.9, 0.1))


def test_a_picked_network_has_one_form():
    head = HEADER
    found = refused(checks.check_claim, replace(head, extra=Picked(first=0, picks=20)))
    assert "bound, kl and hoeffding are one number for C-15" in found
