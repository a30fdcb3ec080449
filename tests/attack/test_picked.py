"""Certificates of picked networks that are not true, or ask for what they must not."""

import copy
import math
from types import SimpleNamespace

import cbound_writer as writer
import numpy as np
import pytest
import rule_writer as rules

from codebound_verify import verify
from codebound_verify.picks.picking import learn
from codebound_verify.picks.rule import Columns, Rule

X, Y = rules.shapes()
MESSAGE = rules.RuleMessage(features=rules.DIRECTIONS, gamma=1)


def picked_by(message: rules.RuleMessage, x, y):
    """What the rule of a message on columns picks and gets wrong."""
    normalised = message.features == rules.DIRECTIONS
    setting = SimpleNamespace(input_shape=x.shape[1:], classes=3, scaling=SimpleNamespace(divisor=16.0))
    rule = Rule(
        message.first,
        Columns(normalised),
        message.copies,
        2.0**message.gamma,
        2.0**message.ridge,
        message.score / 8,
        (message.batch,) * message.rounds,
    )
    return learn(rule, setting, x, y)


FIELDS = rules.header(MESSAGE, X, Y, errors=picked_by(MESSAGE, X, Y).errors)


def refused(data: bytes, because: str, x=X, y=Y) -> None:
    verdict = verify(data, x, y)
    assert verdict.bound is None
    assert any(because in reason for reason in verdict.reasons), verdict.reasons


def altered(**changes) -> bytes:
    """The true certificate with facts, claims or extras replaced."""
    fields = copy.deepcopy(FIELDS)
    for place in ("claim", "facts", "helper"):
        fields[place].update({key: value for key, value in changes.items() if key in fields[place]})
    fields["facts"]["extra"].update(
        {key: value for key, value in changes.items() if key in ("first", "picks")}
    )
    return writer.write(MESSAGE, fields)


def sealed(message: rules.RuleMessage, x=X, y=Y) -> bytes:
    """A consistent certificate in which every example that was not picked is an error."""
    n = len(x) - message.first
    return rules.certificate(message, x, y, errors=max(0, n - message.picks))


def test_it_is_true_to_begin_with():
    assert verify(writer.write(MESSAGE, FIELDS), X, Y).reasons == ()


def test_a_bound_that_is_too_small_by_nearly_nothing():
    true = FIELDS["claim"]["bound"]  # rounded up to a multiple of 2^-50
    below = true - 2.0**-49
    for name in ("bound", "kl", "hoeffding"):
        refused(altered(**{name: below}), f"{name} is printed")
        refused(altered(**{name: true * (1 + 2e-6)}), f"{name} is printed")
    refused(altered(kl=math.nextafter(true, 1)), "one number")


def test_picks_and_first_examples_are_those_of_the_rule():
    refused(altered(picks=MESSAGE.picks - 1), f"picks {MESSAGE.picks - 1}")
    refused(altered(picks=0), "picks 0")
    refused(altered(first=19, n=141), "first is 19")
    refused(altered(first=30, n=130), "first is 30")
    refused(altered(n=141), "the certificate is about 161")


def test_other_data_order_and_labels():
    refused(writer.write(MESSAGE, FIELDS), "SHA-256", X[::-1], Y[::-1])
    labels = Y.copy()
    labels[3] = 3
    fields = copy.deepcopy(FIELDS)
    fields["facts"]["sample_sha256"] = writer.sample_hash(X, labels)
    refused(writer.write(MESSAGE, fields), "labels go from 0 to 3", X, labels)


@pytest.mark.parametrize(
    ("changes", "because"),
    [
        ({"features": ((3, 4),)}, "kind 3"),
        ({"copies": 2}, "columns have no copies"),
        ({"features": rules.filters(straight=0, dictionary=3, pool=2), "copies": 1}, "for patches alone"),
        ({"longer": ((2, 1), (2, 1))}, "must be in order"),
        ({"longer": ((2, 1), (1, 1))}, "must be in order"),
        ({"longer_count": 6}, "6 longer batches are coded for 5 rounds"),
        ({"longer_count": 10**9}, "longer batches are coded"),
        ({"options": (1, 0, 0)}, "a split fraction"),
        ({"options": (0, 0, 1)}, "differences to a base"),
        ({"batch": 40}, "the sample has 160"),
        ({"features": rules.patches(size=3, filters=2048, grid=4)}, "patches are needed"),
        ({"features": rules.patches(size=7)}, "do not fit"),
        ({"features": rules.patches(size=3, filters=2048, grid=5)}, "fewer patches"),
    ],
)
def test_rules_that_there_are_not(changes, because):
    message = rules.RuleMessage(**{"features": rules.DIRECTIONS, **changes})
    refused(sealed(message), because)


def test_a_tiny_file_that_asks_for_huge_vectors():
    x = np.random.default_rng(0).integers(0, 17, (30, 1, 40, 40)).astype(np.uint8)
    message = rules.RuleMessage(features=rules.patches(size=3, filters=2048, grid=5), rounds=1)
    refused(sealed(message, x, Y[:30]), "the length of a vector would be 102400", x, Y[:30])


def test_rule_and_statement_belong_together():
    fields = copy.deepcopy(FIELDS)
    fields["claim"]["statement"], fields["facts"]["extra"] = "C-2", {}
    refused(writer.write(MESSAGE, fields), "the statement is C-15")
    case = writer.linear_case(30)
    case.fields["claim"]["statement"] = "C-15"
    case.fields["facts"]["extra"] = {"first": 10, "picks": 0}
    refused(case.data(), "it has not a rule", case.x, case.y)
    named = {"name": "net", "graph_sha256": "0" * 64, "sources": []}
    refused(altered(architecture=named), "The architecture net is outside the file")


def test_a_witness_that_nothing_needs():
    refused(writer.seal(writer.canonical(FIELDS), MESSAGE.packed(), witness=b"x"), "the message needs 0")


def test_bits_behind_the_rule():
    message = copy.copy(MESSAGE)
    message.bits += "0" * 9
    message.ledger = [*MESSAGE.ledger, ["block rule", 9]]
    refused(sealed(message), "decoding it takes")


def test_every_flipped_bit_is_refused_or_another_rule():
    """Sealed again as nearly no claim, none of them makes the program fail."""
    for place in range(len(MESSAGE.bits)):
        message = copy.copy(MESSAGE)
        message.bits = MESSAGE.bits[:place] + str(1 - int(MESSAGE.bits[place])) + MESSAGE.bits[place + 1 :]
        verdict = verify(sealed(message), X, Y)
        assert verdict.verdict in ("ACCEPT", "REFUSE")
        if verdict.is_accepted:
            assert verdict.bound == 1.0


@pytest.mark.parametrize("wrong", [np.nan, np.inf, 1e301])
def test_numbers_that_are_none(wrong):
    x = X.astype(np.float64)
    x[7, 0, 2, 3] = wrong
    refused(sealed(MESSAGE, x), "not finite, or above", x)


LAST_PICK = rules.RuleMessage(features=rules.COLUMNS, gamma=1, batch=1, rounds=1)


def with_a_twin(*, is_equal: bool) -> tuple[np.ndarray, np.ndarray]:
    """The sample, and once more the example that is picked: with the same bytes, or just the same vector.

    Columns are clamped four spreads from their middle, so numbers beyond that are all one.
    """
    x = X.astype(np.float64)
    x[:, 0, 0, 0] = 1e6
    x[rules.order(161)[: LAST_PICK.first], 0, 0, 0] = 0  # the spread of this column is that of the others
    (place,) = picked_by(LAST_PICK, x, Y).picked[LAST_PICK.first :]
    twin = x[place].copy()
    if not is_equal:
        assert twin[0, 0, 0] == 1e6
        twin[0, 0, 0] = 2e6
    assert rules.order(161).index(160) >= LAST_PICK.first
    return np.concatenate([x, twin[None]]), np.append(Y, Y[place])


def test_equal_examples_may_stand_on_both_sides_of_the_border():
    x, y = with_a_twin(is_equal=True)
    errors = picked_by(LAST_PICK, x, y).errors
    assert verify(rules.certificate(LAST_PICK, x, y, errors=errors), x, y).reasons == ()


def test_examples_that_merely_look_equal_may_not():
    x, y = with_a_twin(is_equal=False)
    refused(sealed(LAST_PICK, x, y), "of each other, and some of them are picked", x, y)
