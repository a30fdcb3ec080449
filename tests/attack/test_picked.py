"""Certificates of picked networks that are not true, or ask for what they must not."""

import copy
import math
from types import SimpleNamespace

import cbound_writer as writer
import numpy as np
import pytest
import rule_writer as rules
from attack import crafting

from codebound.certificate.assessment import assess_picked, issue
from codebound.certificate.claims import AboutG
from codebound.certificate.task import Task
from codebound.learn.feature_weights import LayerFeatures
from codebound.learn.features import ColumnFeatures, FilterFeatures, PatchFeatures
from codebound.learn.picking import pick
from codebound.learn.rule import Rule
from codebound.sample.arrays import from_arrays
from codebound.sample.dataset import Scaling
from codebound_verify import Refused, verify
from codebound_verify.container import read
from codebound_verify.learn.picking import learn
from codebound_verify.learn.rule import Columns, decode_rule
from codebound_verify.learn.rule import Rule as RuleOfVerifier
from codebound_verify.message import Message

X, Y = rules.shapes()
MESSAGE = rules.RuleMessage(features=rules.DIRECTIONS, gamma=1)


def picked_by(message: rules.RuleMessage, x, y):
    """What the rule of a message on columns picks."""
    normalised = message.features == rules.DIRECTIONS
    layer = tuple((0, 1, 2, 4)[symbol] for symbol in message.symbols) or None
    setting = SimpleNamespace(input_shape=x.shape[1:], classes=3, scaling=SimpleNamespace(divisor=16.0))
    rule = RuleOfVerifier(
        message.first,
        Columns(normalised),
        message.copies,
        2.0**message.gamma,
        2.0**message.ridge,
        message.score / 8,
        (message.batch,) * message.rounds,
        layer,
    )
    return learn(rule, setting, x, y)


def errors_of(message: rules.RuleMessage, x, y) -> int:
    """What it gets wrong of the others."""
    return picked_by(message, x, y).count(y, np.arange(len(y)))[1]


FIELDS = rules.header(MESSAGE, X, Y, errors=errors_of(MESSAGE, X, Y))


def refused(data: bytes, because: str, x=X, y=Y) -> None:
    crafting.refused(data, because, x, y)


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
        ({"features": rules.layer(rules.COLUMNS), "symbols": (2,) * 36}, "kind 3 are reserved in version 2"),
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


LAYER = rules.RuleMessage(features=rules.layer(rules.COLUMNS), symbols=(2, 3, 2, 1, 0, 2) * 6, gamma=1)
USUAL_BELOW = rules.RuleMessage(
    features=(*rules.USUAL_BELOW, (0, 2), (0, 4), (1, 2)), symbols=(2, 2, 3, 1, 2, 2, 0, 3, 3)
)
COMPUTED = rules.RuleMessage(features=(*rules.USUAL_BELOW, (1, 2), (2, 4)))
LAYERS = {"columns": LAYER, "usual": USUAL_BELOW, "computed": COMPUTED}


def sealed_3(message: rules.RuleMessage, x=X, y=Y) -> bytes:
    """The same in version 3."""
    n = len(x) - message.first
    return rules.certificate(message, x, y, errors=max(0, n - message.picks), version=3)


@pytest.mark.parametrize("message", LAYERS.values(), ids=LAYERS)
def test_a_layer_is_true_to_begin_with(message):
    assert verify(sealed_3(message), X, Y).reasons == ()


FILTERS = rules.filters(straight=0, dictionary=3, pool=2)


@pytest.mark.parametrize(
    ("changes", "because"),
    [
        ({"symbols": (0,) * 36}, "all weights of the layer are 0"),
        ({"symbols": (2,) * 35}, ""),  # the last one is read from what follows
        ({"symbols": (2,) * 37}, ""),
        ({"symbols": (), "features": ((3, 4), (0, 4), (0, 2))}, ""),
        (
            {"symbols": (), "features": rules.layer(rules.COLUMNS, power=1), "copies": 2},
            "columns have no copies",
        ),
        ({"symbols": (), "features": rules.layer(rules.patches(size=7), power=3)}, "do not fit"),
        ({"copies": 2}, "columns have no copies"),
        ({"features": rules.layer(FILTERS, by=1), "symbols": (2,) * 9, "copies": 1}, "for patches alone"),
        ({"features": rules.layer(rules.patches(size=7)), "symbols": (2,) * 2}, "do not fit"),
        ({"features": rules.layer(rules.patches(size=3, grid=5)), "symbols": (2,) * 15}, "fewer patches"),
    ],
)
def test_layers_that_there_are_not(changes, because):
    message = rules.RuleMessage(**{"features": LAYER.features, "symbols": LAYER.symbols, **changes})
    verdict = verify(sealed_3(message), X, Y)
    assert not verdict.is_accepted or verdict.bound == 1.0
    assert any(because in reason for reason in verdict.reasons) or not because


@pytest.mark.thorough
def test_weights_other_than_those_that_were_counted_with():
    """The claim of one layer around the message of another: the rule is run, and its errors are more."""
    x, y = rules.shapes(400)
    good = rules.RuleMessage(features=rules.layer(rules.COLUMNS), symbols=(2,) * 36, gamma=1, rounds=8)
    bad = rules.RuleMessage(features=good.features, symbols=(0,) * 24 + (3,) * 12, gamma=1, rounds=8)
    errors = errors_of(good, x, y)
    assert errors < errors_of(bad, x, y)
    assert verify(rules.certificate(good, x, y, errors=errors, version=3), x, y).reasons == ()
    refused(rules.certificate(bad, x, y, errors=errors, version=3), "errors", x, y)


LEARNERS = {
    "columns": (ColumnFeatures(), 0),
    "directions": (ColumnFeatures(True), 0),
    "filters": (FilterFeatures(True, 3, 3), 2),
    "patches": (PatchFeatures(3, 256, 1, 2, 2), 1),
    "coded": (LayerFeatures(ColumnFeatures(), (2, 3, 2, 1, 0, 2) * 6), 0),
    "computed": (LayerFeatures(FilterFeatures(True, 3, 3), (), strength=2), 2),
}


@pytest.mark.parametrize(("features", "copies"), LEARNERS.values(), ids=LEARNERS)
def test_weights_in_which_a_single_number_is_another(features, copies):
    """What features took from the first examples is compared too: it decides what g says of new inputs."""
    sample = from_arrays(X, Y, name="shapes", classes=3, scaling=Scaling(16.0))
    task = Task(sample=sample, delta=0.05, claim=AboutG())
    made = assess_picked(pick(Rule(features, first=30, copies=copies, batch=2, rounds=2), sample), task)
    file = read(issue(made, task).to_bytes())
    learned = learn(decode_rule(Message(file)), file.header, X, Y)
    tensors = {name: value.numpy() for name, value in made.network.state_dict().items()}
    learned.check_weights(tensors, X, Y)
    for name, value in tensors.items():
        changed = value.copy()
        changed.reshape(-1)[-1] += 1
        for given in (
            {**tensors, name: changed},
            {each: other for each, other in tensors.items() if each != name},
        ):
            with pytest.raises(Refused, match="Weights: "):
                learned.check_weights(given, X, Y)
    for places in (tensors["examples"] + len(X), -tensors["examples"], tensors["examples"].astype(float)):
        with pytest.raises(Refused, match="places of the picks"):
            learned.check_weights({**tensors, "examples": places}, X, Y)
    with pytest.raises(Refused, match="'more'"):
        learned.check_weights({**tensors, "more": tensors["picks"]}, X, Y)


@pytest.mark.parametrize(
    ("shape", "features", "because"),
    [
        ((1, 300, 300), rules.layer(rules.COLUMNS), "the length of a vector would be 90000"),
        ((1, 300, 300), rules.layer(rules.COLUMNS, power=2), "the length of a vector would be 90000"),
        ((1, 128, 128), rules.layer(FILTERS, by=0), "the length of a vector would be"),
        ((1, 300, 300), rules.layer(FILTERS, by=0), "pictures of 1 or 3 channels and sides from 3 to 128"),
        ((300,), rules.layer(rules.patches(size=3)), "pictures of 1 or 3 channels"),
        ((1, 256, 256), rules.layer(rules.COLUMNS), "which is too much"),
    ],
)
def test_a_layer_that_asks_for_too_much_is_refused(shape, features, because):
    x = np.random.default_rng(0).integers(0, 17, (30, *shape)).astype(np.uint8)
    symbols = (3,) * (1 << 16) if because == "which is too much" else (2,) * 4
    message = rules.RuleMessage(features=features, symbols=symbols, rounds=1)
    refused(sealed_3(message, x, Y[:30]), because, x, Y[:30])


@pytest.mark.parametrize("message", LAYERS.values(), ids=LAYERS)
def test_every_flipped_bit_of_a_layer_is_refused_or_another_rule(message):
    for place in range(0, len(message.bits), 3):
        other = copy.copy(message)
        other.bits = message.bits[:place] + str(1 - int(message.bits[place])) + message.bits[place + 1 :]
        verdict = verify(sealed_3(other), X, Y)
        assert verdict.verdict in ("ACCEPT", "REFUSE")
        assert not verdict.is_accepted or verdict.bound == 1.0


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
    refused(altered(architecture=named), "the file needs code of others")


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
    errors = errors_of(LAST_PICK, x, y)
    assert verify(rules.certificate(LAST_PICK, x, y, errors=errors), x, y).reasons == ()


def test_examples_that_merely_look_equal_may_not():
    x, y = with_a_twin(is_equal=False)
    refused(sealed(LAST_PICK, x, y), "of each other, and some of them are picked", x, y)
