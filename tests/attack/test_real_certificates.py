"""Attacks on certificates that codebound made: a convolutional one, one with blocks, one about f."""

import copy
import hashlib
import json
import random
from dataclasses import dataclass, replace
from functools import cache

import cbound_writer as writer
import numpy as np
import pytest
from attack import crafting
from attack.test_certificates import HEADERS, put
from worlds.samples import written_clusters

from codebound.bits.messages import Options
from codebound.certificate.assessment import assess, assess_picked, issue
from codebound.certificate.decoding import decode
from codebound.certificate.file import Certificate
from codebound.certificate.task import Task
from codebound.certification import certify
from codebound.learn.picking import pick
from codebound.learn.rule import usual_rule
from codebound.run.errors import CodeboundError
from codebound_networks.chains.chain import Chain
from codebound_networks.chains.message import Message
from codebound_networks.chains.operations import Conv, Linear, MaxPool
from codebound_networks.codes.static import frequency_table
from codebound_networks.codes.tensors import Adaptive, Dense, Enumerative, Static, Zero
from codebound_verify import decode_network, verify

SAMPLE = written_clusters(200)
STREAM = np.random.default_rng(0)


def levels(shape, limit=2) -> np.ndarray:
    return STREAM.integers(-limit, limit + 1, shape).astype(np.int32)


def static(q: np.ndarray) -> Static:
    limit = int(np.abs(q).max())
    table = frequency_table(np.bincount(q.ravel() + limit, minlength=2 * limit + 1))
    return Static(q, -3, limit, table=table, lanes_log2=1)


@dataclass(frozen=True)
class Case:
    """A true certificate, and what the verifier is given beside it."""

    certificate: Certificate
    given: dict

    @property
    def data(self) -> bytes:
        return self.certificate.to_bytes()

    def verdict(self, data: bytes, **changes):
        given = {"x": SAMPLE.x, "y": SAMPLE.y, **self.given, **changes}
        return verify(data, given.pop("x"), given.pop("y"), **given)

    def fields(self) -> dict:
        content = self.data
        return json.loads(content[12 : 12 + int.from_bytes(content[8:12], "little")])

    def rewritten(self, change) -> bytes:
        fields = copy.deepcopy(self.fields())
        change(fields)
        return self.sealed(fields, self.certificate.message.data)

    def sealed(self, fields: dict, message: bytes) -> bytes:
        """A file of the same version around any header and message."""
        return writer.seal(writer.canonical(fields), message, version=self.data[7])


def linear() -> Case:
    return Case(certify(crafting.solved(), SAMPLE, method="prune", effort="quick").certificate, {})


def picked() -> Case:
    rule = replace(usual_rule(SAMPLE.input_shape), first=10, batch=1, rounds=4)
    task = Task(sample=SAMPLE, delta=0.05)
    return Case(issue(assess_picked(pick(rule, SAMPLE), task), task), {})


def made(method: str) -> Case:
    """What comes of the sample alone; without rounds it is a file of version 3."""
    return Case(certify(None, SAMPLE, method=method, effort="quick").certificate, {})


def about_f() -> Case:
    fresh = written_clusters(150, seed=1, role="unlabelled")
    found = certify(crafting.solved(), SAMPLE, effort="quick", unlabelled=fresh)
    return Case(found.certificate, {"unlabelled": fresh.x, "subject_weights": found.original})


def convolutional() -> Case:
    chain = Chain((1, 2, 2), (Conv(4, 2, 1, 1, True), MaxPool(3), Linear(5, False), Linear(3, True)))
    codes = {
        "0.weight": Adaptive(levels((4, 1, 2, 2)), -5, 2, row_flags=1, kind=3, stride=2),
        "0.bias": Zero((4,)),
        "2.weight": static(levels((5, 4))),
        "3.weight": Enumerative(levels((3, 5)), -2, 2),
        "3.bias": Dense(levels((3,)), 0, 2),
    }
    task = Task(sample=SAMPLE, delta=0.05)
    return Case(issue(assess(Message(Options(), chain, codes), task), task), {})


CASES = {
    "linear": linear,
    "picked": picked,
    "without rounds": lambda: made("picks"),
    "split": lambda: made("split"),
    "about f": about_f,
    "convolutional": convolutional,
}


@cache
def case_of(name: str) -> Case:
    return CASES[name]()


def test_both_versions_are_attacked():
    assert {name: case_of(name).data[7] for name in CASES if case_of(name).data[7] != 2} == {
        "without rounds": 3,
        "split": 3,
    }
    assert case_of("picked").certificate.facts.extra["picks"] == 4


@pytest.mark.parametrize("name", CASES)
def test_the_certificates_that_are_attacked_are_true(name):
    assert case_of(name).verdict(case_of(name).data).reasons == ()


@pytest.mark.few(1)
@pytest.mark.parametrize("name", CASES)
def test_flipped_bits_anywhere(name):
    case, choice = case_of(name), random.Random(0)
    for position in choice.sample(range(8 * len(case.data)), 400):
        data = bytearray(case.data)
        data[position >> 3] ^= 1 << (position & 7)
        assert not case.verdict(bytes(data)).is_accepted
        with pytest.raises(CodeboundError):
            Certificate.from_bytes(bytes(data))


@pytest.mark.parametrize("name", CASES)
def test_truncated_and_extended(name):
    case = case_of(name)
    for size in range(0, len(case.data), 29):
        assert not case.verdict(case.data[:size]).is_accepted
        with pytest.raises(CodeboundError):
            Certificate.from_bytes(case.data[:size])
    for more in (b"\0", b"\0" * 100, case.data):
        assert not case.verdict(case.data + more).is_accepted


def set_fact(key: str, value):
    return lambda fields: fields["facts"].__setitem__(key, value(fields["facts"][key]))


def shift_ledger(fields: dict) -> None:
    fields["ledger"][0][1] += 5


REPEATED = (  # attacks on a header that say the same of every certificate
    *("negative errors", "huge n", "huge bits", "another sample", "another message hash", "delta of zero"),
    *("another input shape of vectors", "a base that nobody used", "a factory", "an unknown part"),
)
TABLE = {name: HEADERS[name] for name in REPEATED} | {
    "inflated n": (set_fact("n", lambda n: 100 * n), "bound is printed"),
    "lowered error count": (set_fact("errors", lambda errors: max(0, errors - 1)), ""),
    "negative code_bits": (set_fact("code_bits", lambda bits: -bits), "facts.code_bits must be"),
    "more code_bits": (set_fact("code_bits", lambda bits: bits + 64), "adds up to"),
    "more classes": (set_fact("classes", lambda classes: 1000), ""),
    "a ledger that does not add up": (shift_ledger, "the ledger adds up to"),
    "a smaller exponent of delta": (put("claim.delta", 5e-10), "Claim:"),
    "a smaller bound": (
        lambda f: f["claim"].__setitem__("bound", f["claim"]["bound"] * 0.9),
        "bound is printed",
    ),
    "NaN": (put("claim.bound", float("nan")), "NaN is no number"),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("attack", TABLE)
def test_a_changed_header_is_refused(name, attack):
    change, because = TABLE[attack]
    case = case_of(name)
    if attack == "lowered error count" and case.certificate.facts.errors == 0:
        pytest.skip("there is nothing to lower")
    verdict = case.verdict(case.rewritten(change))
    assert not verdict.is_accepted
    assert verdict.bound is None
    assert any(because in reason for reason in verdict.reasons), verdict.reasons


@pytest.mark.parametrize("name", CASES)
def test_another_dataset(name):
    case, other = case_of(name), written_clusters(200, seed=7)
    for changes in ({"x": other.x}, {"y": (SAMPLE.y + 1) % 3}, {"x": SAMPLE.x[:-1], "y": SAMPLE.y[:-1]}):
        assert not case.verdict(case.data, **changes).is_accepted


def test_another_helper():
    case = case_of("about f")
    moved = {name: value + np.float32(1e-3) for name, value in case.given["subject_weights"].items()}
    assert not case.verdict(case.data, subject_weights=moved).is_accepted
    assert not case.verdict(case.data, unlabelled=case.given["unlabelled"][::-1].copy()).is_accepted


def resealed(case: Case, bits: str) -> bytes:
    """The file with another message, every hash and length right."""
    fields = case.fields()
    message = writer.pack_bits(bits)
    fields["facts"]["message_sha256"] = hashlib.sha256(message).hexdigest()
    fields["ledger"][0][1] += len(bits) - fields["facts"]["code_bits"]
    fields["facts"]["code_bits"] = len(bits)
    return case.sealed(fields, message)


@pytest.mark.parametrize("name", CASES)
def test_a_message_with_bits_that_say_nothing(name):
    """The same network in a longer message: what the decoder does not need is refused, even zeros."""
    case = case_of(name)
    bits = str(case.certificate.message)
    for tail in ("0", "1", "0" * 8, "10000000"):
        verdict = case.verdict(resealed(case, bits + tail))
        assert any("decoding it takes" in reason for reason in verdict.reasons), verdict.reasons


def test_a_code_word_that_ends_one_bit_later_than_it_must():
    """Inside the final interval there are longer dyadic intervals; only the shortest one is the code word."""
    case = case_of("linear")
    bits = str(case.certificate.message)
    value = int(bits, 2)
    longer = format(2 * value + 1, f"0{len(bits) + 1}b")
    assert not case.verdict(resealed(case, longer)).is_accepted
    with pytest.raises(CodeboundError):
        decode(Certificate.from_bytes(resealed(case, longer)))


def test_the_same_network_in_another_code_is_another_message_and_pays_for_itself():
    """Several messages may decode to one network: each is charged its own length."""
    weights = {"0.weight": writer.WEIGHT.astype(np.int32), "0.bias": writer.BIAS.astype(np.int32)}
    chain, task = Chain((1, 2, 2), (Linear(3, True),)), Task(sample=SAMPLE, delta=0.05)
    found = {}
    for kind in (Dense, Enumerative, Adaptive):
        codes = {name: kind(q, -3, 2) for name, q in weights.items()}
        certificate = issue(assess(Message(Options(), chain, codes), task), task)
        _, tensors = decode_network(certificate.to_bytes())
        found[kind] = certificate.facts.code_bits, tensors["0.weight"].tobytes()
    assert len({tensors for _, tensors in found.values()}) == 1
    assert len({bits for bits, _ in found.values()}) == 3
    cheapest, dearest = (choice(found, key=found.get) for choice in (min, max))
    codes = {name: dearest(q, -3, 2) for name, q in weights.items()}
    case = Case(issue(assess(Message(Options(), chain, codes), task), task), {})

    def charge_less(fields: dict) -> None:
        fields["ledger"][-1][1] = 0
        fields["ledger"][0][1] += found[cheapest][0] - fields["facts"]["code_bits"]
        fields["facts"]["code_bits"] = found[cheapest][0]

    assert not case.verdict(case.rewritten(charge_less)).is_accepted
