"""Short messages: what the page says is what both programs write and read; what is not true is refused."""

import copy
import itertools
from dataclasses import replace

import cbound_writer as writer
import numpy as np
import pytest
import rule_writer as rules
import short_writer as short
import torch
from attack import crafting

import codebound as cb
from codebound.bits.bitstring import Bits
from codebound.bits.messages import Options
from codebound.bits.setting import Setting
from codebound.certificate.assessment import assess_picked, issue
from codebound.certificate.decoding import decode, rule_message
from codebound.certificate.file import Certificate
from codebound.certificate.task import Task
from codebound.known.base import Pretrained
from codebound.learn.features import ColumnFeatures, FilterFeatures
from codebound.learn.picking import pick
from codebound.learn.rule import PickedMessage, Rule, usual_rule
from codebound.run.errors import CodeboundError, FormatError, UsageError
from codebound.sample.arrays import from_arrays
from codebound.sample.dataset import Dataset, Scaling
from codebound.sample.losses import parse_loss
from codebound_networks.chains.chain import Chain
from codebound_networks.chains.message import Message
from codebound_networks.chains.message import decode as decode_message
from codebound_networks.chains.operations import AveragePool, Linear
from codebound_networks.codes.tensors import Dense, Raw, Zero
from codebound_verify import verify

X, Y = writer.clusters(200, 0)
BASE = {"0.weight": np.float32(writer.WEIGHT) * 0.7, "0.bias": np.float32(writer.BIAS)}
NAMED = {"name": "made elsewhere", "sha256": writer.tensors_hash(BASE)}
PICTURES, LABELS = rules.shapes(120)


def logits(biases=(0, 0, 0), unit=0):
    return (
        X.reshape(len(X), 4) / 16 @ BASE["0.weight"].T.astype(float)
        + BASE["0.bias"]
        + np.array(biases) * 2.0**unit
    )


def head_file(message, *, version=3, **changes):
    """A certificate with as many errors as there are."""
    if "errors" not in changes:
        changes["errors"] = writer.count(logits(message.biases or (0, 0, 0), message.unit), Y)
    fields = writer.header(
        message, X, Y, **{"classes": message.classes, "base": NAMED, "tally": None, **changes}
    )
    if version == 2:
        del fields["facts"]["tally"]
        fields["format"] = writer.page(2)
    return short.sealed(message, fields, version=version)


def refused(data, because, x=X, y=Y, base=BASE):
    crafting.refused(data, because, x, y, base=base)


HEADS = {
    "nothing added": short.Head(),
    "biases": short.Head(biases=(1, -1, 0), unit=-2),
    "the same, the long way": short.Head(operations=[["linear", 3, True]], biases=(0, 0, -1), unit=3),
}


@pytest.mark.parametrize("message", HEADS.values(), ids=HEADS)
def test_a_head_written_by_hand_is_accepted_and_decodes_to_what_it_says(message):
    data = head_file(message)
    assert verify(data, X, Y, base=BASE).reasons == ()
    found = decode(Certificate.from_bytes(data), base=BASE).state_dict()
    bias = next(value for value in found.values() if value.ndim == 1).numpy()
    added = np.array(message.biases or (0, 0, 0)) * 2.0**message.unit
    assert bias.tolist() == (BASE["0.bias"] + added).astype(np.float32).tolist()


def test_every_head_has_the_bits_of_the_page():
    chains = {None: Chain((4,), (Linear(3, True),)), 2: Chain((1, 2, 2), (AveragePool(2), Linear(3, True)))}
    asked = itertools.product(
        (None, 7), ("wrong", "class:2", "cost-above:1:distance"), (None, (0, 1, -1)), chains
    )
    for tenths, loss, biases, pool in asked:
        chain = chains[pool]
        codes = {name: Zero(shape) for name, shape in chain.tensor_shapes().items()}
        if biases:
            codes[list(codes)[-1]] = Dense(np.array(biases, dtype=np.int32), -8 * 5, 1)
        setting = Setting(3, Scaling(16.0), parse_loss(loss, classes=3))
        made = Message(Options(tenths, None, True, setting), chain, codes).shorten()
        bits, ledger = made.encode()
        literal = short.Head(
            loss=loss,
            starts=(1, 1) if tenths is None else (1, 0, 1),
            split=tenths,
            operations=pool and [["average pool", 2], ["linear", 3, True]],
            unit=-5,
            biases=biases,
        )
        assert (str(bits), [list(each) for each in ledger]) == (literal.bits, literal.ledger)
        again = decode_message(bits, input_shape=chain.input_shape, short_classes=3)
        assert (again.options, again.chain) == (made.options, chain)
        assert [each.values().tolist() for each in again.codes.values()] == [
            each.values().tolist() for each in codes.values()
        ]


def test_what_is_no_small_head_is_not_short():
    chain = Chain((4,), (Linear(3, True),))
    shapes, options = chain.tensor_shapes(), Options(None, None, True, Setting(3, Scaling(16.0)))
    zeros = {name: Zero(shape) for name, shape in shapes.items()}
    one = np.array([1, 0, 0], dtype=np.int32)
    for last in (Dense(one, -39, 1), Dense(2 * one, -40, 2), Dense(one, 32, 1), Raw(np.ones(3, np.float32))):
        made = Message(options, chain, {**zeros, "0.bias": last})
        assert made.shorten() is made
    other = Message(options, chain, {**zeros, "0.weight": Dense(np.ones((3, 4), dtype=np.int32), 0, 1)})
    without = Message(Options(setting=options.setting), chain, zeros)
    margin = Message(Options(None, 3, True, options.setting), chain, zeros)
    assert not any(each.shorten().is_short for each in (other, without, margin))


FALSE = {
    "in version 2": (head_file(short.Head(), version=2), "Message"),
    "a zero in front": (head_file(short.Head(starts=(0, 1))), "begins with a one"),
    "after a split, as if there were none": (head_file(short.Head(starts=(1, 0, 1), split=5)), "a split"),
    "a rule, of which nothing is said": (head_file(short.Head(starts=(1, 0, 0))), "C-15"),
    "without a base": (head_file(short.Head(), base=None), "a base"),
    "other classes than the base": (head_file(short.Head(classes=4), errors=200), "the network needs"),
    "another scaling": (head_file(short.Head(), scaling=short.LISTED[1]), "scaling"),
    "another loss": (head_file(short.Head(loss="class:1"), loss="wrong"), "it counts the loss"),
    "one error less": (
        head_file(short.Head(), errors=writer.count(logits(), Y) - 1),
        "the certificate states",
    ),
    "biases for no biases": (
        head_file(short.Head(operations=[["linear", 3, False]], biases=(1, 0, 0)), errors=200),
        "which is not one for 3 classes",
    ),
    "a bound on a domain": (
        head_file(
            short.Head(),
            statement="C-12a",
            subject="f",
            extra={"input_low": 0.0, "input_high": 16.0, "subject_sha256": "0" * 64},
        ),
        "no margin theta",
    ),
}


@pytest.mark.parametrize(("data", "because"), FALSE.values(), ids=FALSE)
def test_heads_that_are_not_true_are_refused(data, because):
    refused(data, because)
    if because not in ("the certificate states", "no margin theta", "a split"):  # not for a decoder to tell
        with pytest.raises(CodeboundError):
            decode(Certificate.from_bytes(data), base=BASE)


COLUMNS = short.PlainRule(learner=((0, 4), (1, 2), (9, 16), (5, 16)))
USUAL = short.PlainRule(tenths=4, copies_off=1, has_scaling=True)
RULES = {
    "columns": (COLUMNS, Rule(ColumnFeatures(True), gamma_index=9, ridge_index=5, tenths=5)),
    "usual": (
        short.PlainRule(tenths=3, copies_off=0, has_scaling=True),
        Rule(FilterFeatures(True, 3, 2), copies=2, gamma_index=4, ridge_index=8, tenths=3),
    ),
    "usual, without copies": (
        USUAL,
        Rule(FilterFeatures(True, 3, 2), copies=0, gamma_index=4, ridge_index=8, tenths=4),
    ),
    "filters": (
        short.PlainRule(
            learner=(*rules.filters(straight=0, dictionary=1, pool=3), (3, 8), (4, 16), (7, 16)),
            has_scaling=True,
        ),
        Rule(FilterFeatures(False, 1, 3), copies=3, gamma_index=4, ridge_index=7, tenths=5),
    ),
}


def assessed(rule, sample, delta=0.05, **asked):
    task = Task(sample=sample, delta=delta, **asked)
    plain = replace(rule, first=rule.tenths * sample.n // 10, rounds=0)
    return assess_picked(pick(plain, sample), task), task


@pytest.mark.parametrize("name", RULES)
def test_a_rule_has_the_bits_of_the_page_and_the_bound_of_a_hold_out_set(name):
    message, rule = RULES[name]
    sample = Dataset("shapes", "train", PICTURES, LABELS, 3, Scaling(16.0))
    found, task = assessed(rule, sample)
    assert (str(found.bits), [list(each) for each in found.ledger]) == (message.bits, message.ledger)
    errors = found.facts.errors
    data = short.sealed(message, short.rule_header(message, PICTURES, LABELS, errors=errors))
    verdict = verify(data, PICTURES, LABELS)
    assert verdict.reasons == ()
    certificate = issue(found, task)
    assert certificate.claim.bound == pytest.approx(verdict.bound, abs=2e-15, rel=1e-9)
    assert rule_message(certificate).encode() == (certificate.message, certificate.ledger)
    refused(
        short.sealed(message, short.rule_header(message, PICTURES, LABELS, errors=errors - 1)),
        "the certificate states",
        PICTURES,
        LABELS,
    )


def altered(**changes):
    """The certificate of the rule on columns, with another message or other facts."""
    names = set(changes) & set(short.PlainRule.__dataclass_fields__)
    asked = {name: changes.pop(name) for name in names}
    message = short.PlainRule(**{"learner": COLUMNS.learner, **asked})
    n = len(PICTURES) - changes.get("first", message.tenths * len(PICTURES) // 10)
    fields = short.rule_header(message, PICTURES, LABELS, **{"errors": n, **changes})
    return short.sealed(message, fields)


FALSE_RULES = {
    "another share than the first examples": (altered(first=36), "5/10 of 120 examples are 60"),
    "more classes than the first examples show": (altered(more_classes=1), "there are 4 classes"),
    "picks": (altered(extra={"first": 60, "picks": 4}), "picks 4; the rule"),
    "a base": (altered(base=NAMED), "The base made elsewhere"),
    "a literal scaling": (
        altered(
            learner=None,
            copies_off=1,
            has_scaling=True,
            scaling={"divisor": 3, "mean": [0.0], "std": [1.0]},
        ),
        "listed scalings",
    ),
    "features of kind 3": (altered(learner=((3, 4),)), "kind 3"),
    "a word that ends too late": (altered(learner=(*COLUMNS.learner, (0, 2))), "Message"),
}


@pytest.mark.parametrize(("data", "because"), FALSE_RULES.values(), ids=FALSE_RULES)
def test_rules_that_are_not_true_are_refused(data, because):
    refused(data, because, PICTURES, LABELS, None)


def test_all_numbers_of_a_bound_are_one_and_not_too_small():
    true = short.rule_header(COLUMNS, PICTURES, LABELS, errors=60)["claim"]["bound"]
    assert true == 1.0
    fields = short.rule_header(COLUMNS, PICTURES, LABELS, errors=59)
    for name, value in (("bound", fields["claim"]["bound"] - 2.0**-49), ("kl", 1.0)):
        wrong = copy.deepcopy(fields)
        wrong["claim"][name] = value
        refused(short.sealed(COLUMNS, wrong), name, PICTURES, LABELS, None)


def test_version_2_has_no_hold_out_bound():
    message = rules.RuleMessage(features=rules.DIRECTIONS, rounds=0)
    fields = rules.header(message, PICTURES, LABELS, errors=40)
    held_out = writer.binomial_limit(40, 100, len(message.bits), 0.05)
    assert held_out < fields["claim"]["bound"]
    fields["claim"] |= dict.fromkeys(("bound", "kl", "hoeffding"), held_out)
    refused(writer.write(message, fields), "bound is printed", PICTURES, LABELS, None)
    fields["facts"]["tally"], fields["format"] = None, writer.page(3)
    verdict = verify(short.sealed(message, fields), PICTURES, LABELS)
    assert not any("bound is printed" in reason for reason in verdict.reasons)


@pytest.mark.parametrize("loss", ["class:1", "cost-above:1:distance", "top:2"])
def test_losses_of_a_rule_that_picks_nothing(loss):
    sample = from_arrays(X, Y, name="clusters", classes=3, scaling=Scaling(16.0))
    found = cb.certify(None, sample, method="split", effort="quick", loss=loss)
    certificate = found.certificate
    assert (certificate.ledger[1][0], certificate.claim.statement) == ("fault", "C-15")
    facts, claim = certificate.facts, certificate.claim
    exact = writer.binomial_limit(facts.errors, facts.n, facts.code_bits, 0.05)
    assert claim.bound == pytest.approx(exact, rel=1e-9)


@pytest.mark.thorough
def test_what_is_declared_of_short_messages_is_what_they_say():
    """Classes and scaling are known without the message, where it leaves them out."""
    sample = from_arrays(X, Y, name="clusters", classes=3, scaling=Scaling(16.0))
    said = cb.certify(None, sample, method="split", effort="quick").certificate.declarations
    assert any(
        "classes, by the labels of the first examples and the message; inputs are" in each for each in said
    )
    assert not any("never at the size" in each for each in said)
    pictures = from_arrays(PICTURES, LABELS, name="shapes", classes=3, scaling=Scaling(16.0))
    said = cb.certify(None, pictures, method="split", effort="quick").certificate.declarations
    assert any("the message, which says that inputs are scaled as (x / 16" in each for each in said)
    torch.manual_seed(0)  # of some heads the best biases are too large for a short message
    head = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 3))
    base = Pretrained(head, "made elsewhere")
    found = cb.certify(head, sample, method="biases", effort="quick", base=base)
    assert found.certificate.is_short
    assert any("as many as the base has" in each for each in found.certificate.declarations)
    assert str(found.certificate.counts[0]).startswith("errors of g: ")
    verdict = verify(found.certificate.to_bytes(), X, Y, base=found.base)
    assert verdict.counts[0].what == "errors of g on the whole sample"


def test_bounds_of_classes_are_those_of_hold_out_sets():
    sample = from_arrays(X, Y, name="clusters", classes=3, scaling=Scaling(16.0))
    found = cb.certify(None, sample, method="split", effort="quick", by_class=True)
    bits = found.certificate.facts.code_bits
    rows = verify(found.certificate.to_bytes(), X, Y, by_class=True).by_class
    for ours, theirs in zip(found.by_class, rows, strict=True):
        exact = writer.binomial_limit(theirs.errors, theirs.n, bits, 0.05 / 3)
        assert ours.bound == pytest.approx(exact, rel=1e-9)
        assert theirs.bound == pytest.approx(exact, rel=1e-9)


def test_the_price_of_a_hold_out_set_is_at_most_20_bits():
    shapes = {(7,): (), (1, 2, 2): (), (2, 9, 9): (), (1, 28, 28): (2, 0), (3, 32, 32): (1,)}
    for shape, copies in shapes.items():
        for classes, tenths in itertools.product((2, 10, 1000), (1, 9)):
            usual = usual_rule(shape)
            tried = [replace(usual, copies=each) for each in copies] or [
                Rule(ColumnFeatures(bool(flag)), gamma_index=width, ridge_index=ridge)
                for flag, width, ridge in itertools.product((0, 1), (0, 15), (0, 15))
            ]
            for rule in tried:
                rule = replace(rule, first=1, rounds=0, tenths=tenths)
                options = Options(setting=Setting(classes, Scaling(255.0)))
                message = PickedMessage(options, rule, shape)
                assert message.encode()[0].length <= 20


def test_the_codes_of_both_versions_have_room_for_each_other():
    """The shares of the code space that section 5.7 states."""
    schemes, options, architectures = 1 / 2 + 1 / 8, 3 / 4, 1 / 2 + 1 / 8 + 1 / 8
    plain = schemes * options * architectures
    picked, losses = 1 / 8 * 1 / 8, 1 / 32
    assert plain < 0.36
    assert plain + picked + losses + 1 / 16 + 1 / 2 < 1.0


def test_a_literal_scaling_of_pictures_has_no_short_code():
    rule = replace(RULES["usual"][1], first=1, rounds=0)
    options = Options(setting=Setting(3, Scaling(3.0)))
    with pytest.raises(UsageError, match="literal"):
        PickedMessage(options, rule, (1, 6, 6)).encode()


def test_bits_that_are_cut_off_are_no_message():
    made = short.Head(biases=(1, -1, 0))
    cut = Bits(writer.pack_bits(made.bits[:-1]), len(made.bits) - 1)
    with pytest.raises(FormatError):
        decode_message(cut, input_shape=(4,), short_classes=3)


def test_a_helper_made_of_the_first_part_is_a_hold_out_set_at_few_bits():
    sample = from_arrays(X, Y, name="clusters", classes=3, scaling=Scaling(16.0))
    found = cb.certify(None, sample, prior_tenths=5, method="biases", delta=1e-6).certificate
    assert (found.claim.statement, found.is_short, found.version) == ("C-10", True, 3)
