"""Crafted certificates: name, what is done to a true one, and the reason for which it must be refused."""

import copy
import hashlib
import json
import math
import struct

import cbound_writer as writer
import numpy as np
import pytest
from attack import crafting

from codebound_verify import Verdict, decode_network, verify

TRUE = writer.linear_case()
DATA = TRUE.data()


def test_the_certificate_that_is_attacked_is_true():
    assert verify(DATA, TRUE.x, TRUE.y).verdict == "ACCEPT"


def refused(data: bytes, *, x=TRUE.x, y=TRUE.y, because: str) -> Verdict:
    return crafting.refused(data, because, x, y)


def headed(change) -> bytes:
    """The file with a changed header, sealed again with right hashes."""
    fields = copy.deepcopy(TRUE.fields)
    change(fields)
    return writer.write(TRUE.message, fields)


def put(path: str, value: object):
    """Change one field."""

    def change(fields: dict) -> None:
        *parents, last = [int(key) if key.isdigit() else key for key in path.split(".")]
        for key in parents:
            fields = fields[key]
        fields[last] = value

    return change


def remade(bits: str | None = None, **facts) -> bytes:
    """A consistent file for other facts: the bounds are recomputed as an honest writer would."""
    message = copy.copy(TRUE.message)
    if bits is not None:
        message.bits = bits
        if len(bits) != len(TRUE.message.bits):
            message.ledger = [["method", len(bits)]]
    errors = facts.pop("errors", TRUE.fields["facts"]["errors"])
    fields = writer.header(message, TRUE.x, TRUE.y, errors=errors, classes=3, **facts)
    return writer.write(message, fields)


BITS = TRUE.message.bits
FORMS = {name: TRUE.fields["claim"][name] for name in ("bound", "kl", "hoeffding")}

HEADERS = {
    "lower bound": (put("claim.bound", FORMS["bound"] * (1 - 1e-12)), "bound is printed"),
    "bound of zero": (put("claim.bound", 0), "bound is printed"),
    "needlessly high bound": (put("claim.bound", FORMS["bound"] * (1 + 2e-6)), "larger than the true"),
    "lower kl": (put("claim.kl", FORMS["kl"] * (1 - 1e-8)), "kl is printed"),
    "lower hoeffding": (put("claim.hoeffding", FORMS["hoeffding"] * (1 - 1e-8)), "hoeffding is printed"),
    "bound above one": (put("claim.bound", 1.5), "claim.bound must be"),
    "bound as text": (put("claim.bound", "0.01"), "claim.bound must be"),
    "bound as a boolean": (put("claim.bound", True), "claim.bound must be"),
    "delta of zero": (put("claim.delta", 0.0), "claim.delta must be"),
    "delta of one": (put("claim.delta", 1), "claim.delta must be"),
    "negative delta": (put("claim.delta", -0.05), "claim.delta must be"),
    "smaller delta, same bound": (put("claim.delta", 0.01), "smaller than the true"),
    "smaller delta exponent": (put("claim.delta", 5e-300), "smaller than the true"),
    "fewer classes": (put("facts.classes", 2), "0 to 1 is expected"),
    "vacuous flag": (put("claim.vacuous", True), "vacuous is True"),
    "vacuous as a number": (put("claim.vacuous", 0), "claim.vacuous must be"),
    "unknown statement": (put("claim.statement", "C-3"), "claim.statement must be"),
    "subject f without proof": (put("claim.subject", "f"), "claim.subject must be 'g'"),
    "statement with the wrong extras": (put("claim.statement", "C-10"), "facts.extra must be"),
    "extras that nobody asked for": (put("facts.extra", {"n_prior": 0}), "facts.extra must be"),
    "inflated n": (put("facts.n", 4000), "400 examples; the certificate is about 4000"),
    "n of zero": (put("facts.n", 0), "facts.n must be"),
    "huge n": (put("facts.n", 10**30), "facts.n must be"),
    "n as a float": (put("facts.n", 400.0), "facts.n must be"),
    "negative errors": (put("facts.errors", -1), "facts.errors must be"),
    "more errors than examples": (put("facts.errors", 401), "facts.errors must be"),
    "lower error count": (put("facts.errors", 0), "larger than the true"),
    "fewer bits": (put("facts.code_bits", 8), "the ledger adds up"),
    "huge bits": (put("facts.code_bits", 2**33), "facts.code_bits must be"),
    "negative bits": (put("facts.code_bits", -8), "facts.code_bits must be"),
    "one class": (put("facts.classes", 1), "facts.classes must be"),
    "more classes than the chain can have": (put("facts.classes", 2**17), "facts.classes must be"),
    "another sample": (put("facts.sample_sha256", "0" * 64), "the sample has SHA-256"),
    "another message hash": (put("facts.message_sha256", "0" * 64), "The message has SHA-256"),
    "hash in capitals": (put("facts.sample_sha256", "A" * 64), "hexadecimal digits in lower case"),
    "short hash": (put("facts.sample_sha256", "0" * 63), "64 hexadecimal digits"),
    "ledger that does not add up": (put("ledger.3.1", 1), "the ledger adds up"),
    "ledger of other parts": (put("ledger.3.0", "0.bias"), "Ledger: it says"),
    "negative ledger entry": (put("ledger.3.1", -5), "ledger[3][1] must be"),
    "ledger entry of three": (put("ledger.3", ["a", 1, 2]), "ledger[3] must be"),
    "no ledger": (put("ledger", []), "ledger must be a list"),
    "a factory": (put("helper.architecture", writer.factory()), "code of others (a factory)"),
    "a factory that has to be trusted": (
        put("helper.architecture", writer.factory(None, [("nets", "0" * 64)])),
        "code of others (a factory)",
    ),
    "a factory of version 1": (
        put("helper.architecture", {"name": "a", "graph_sha256": "0" * 64}),
        "code of others (a factory)",
    ),
    "an architecture that is a word": (put("helper.architecture", ""), "code of others (a factory)"),
    "a base that nobody used": (put("helper.base", {"name": "a", "sha256": "0" * 64}), "--base"),
    "another input shape": (put("helper.input_shape", [1, 4, 1]), "an input has shape"),
    "another input shape of vectors": (put("helper.input_shape", [4]), "an input has shape"),
    "two axes": (put("helper.input_shape", [2, 2]), "helper.input_shape must be"),
    "negative shape": (put("helper.input_shape", [1, -2, -2]), "helper.input_shape must be"),
    "huge shape": (put("helper.input_shape", [2**24, 2**24, 2**24]), "helper.input_shape must be"),
    "divisor of zero": (put("helper.scaling.divisor", 0), "divisor must be"),
    "negative std": (put("helper.scaling.std", [-1.0]), "std must be"),
    "inputs that overflow": (
        put("helper.scaling", {"divisor": 1e-300, "mean": [0.0], "std": [1e-300]}),
        "its scaling is",
    ),
    "a mean per pixel": (put("helper.scaling.mean", [0.0, 1.0, 2.0, 3.0]), "mean must be a list of length 1"),
    "another scaling": (put("helper.scaling.mean", [3.0]), "its scaling is"),
    "no declarations": (put("declarations", []), "declarations must be"),
    "too many declarations": (put("declarations", ["a"] * 33), "declarations must be"),
    "a long declaration": (put("declarations", ["a" * 401]), "declarations[0] must be"),
    "an unknown field": (put("claim.note", "trust me"), "claim must be an object with the keys"),
    "an unknown part": (put("signature", "mine"), "it must be an object with the keys"),
    "a date that does not exist": (put("made_by.date", "2025-02-30"), "made_by.date must be"),
    "a date of another form": (put("made_by.date", "20250131"), "made_by.date must be"),
    "claim as a list": (put("claim", []), "claim must be an object"),
    "another page": (put("format.sha256", "0" * 64), "format"),
    "another day": (put("format.frozen", "2020-01-01"), "format"),
    "no page": (put("format", None), "format"),
    "more classes than the message says": (put("facts.classes", 4), "it is about 3 classes"),
    "a commonest label that never occurs": (put("facts.commonest", 0), "commonest"),
    "a commonest label that is everywhere": (put("facts.commonest", 400), "commonest"),
    "copies that are not there": (put("facts.copies", 1), "copies"),
    "contradictions that are not there": (put("facts.contradictions", 1), "contradictions"),
    "copies as text": (put("facts.copies", "0"), "facts.copies must be"),
    "a commit that is no text": (put("made_by.commit", 7), "made_by.commit must be"),
}


@pytest.mark.parametrize("name", HEADERS)
def test_a_crafted_header_is_refused(name):
    change, because = HEADERS[name]
    refused(headed(change), because=because)


HONEST = {  # everything is consistent with the lie: only a look at the data or the message shows it
    "inflated n": ({"n": 800}, "400 examples; the certificate is about 800"),
    "deflated n": ({"n": 100, "commonest": 40}, "400 examples; the certificate is about 100"),
    "lowered error count": ({"errors": 0}, "the certificate states 0"),
    "longer message": ({"bits": BITS + "0" * 8}, "decoding it takes"),
    "one bit more": ({"bits": BITS + "1"}, "decoding it takes"),
    "shorter message": ({"bits": BITS[:-1]}, "Message:"),
    "half a message": ({"bits": BITS[:30]}, "ends inside its code word"),
    "no message": ({"bits": ""}, "ends inside its code word"),
    "the last bit flipped": ({"bits": BITS[:-1] + str(1 - int(BITS[-1]))}, ""),
}


@pytest.mark.few(1)
@pytest.mark.parametrize("name", HONEST)
def test_a_consistent_lie_is_refused(name):
    facts, because = HONEST[name]
    refused(remade(**facts), because=because)


def head_bytes() -> bytes:
    return writer.canonical(TRUE.fields)


def resealed(body: bytes) -> bytes:
    """Any bytes with their hash behind them."""
    return body + hashlib.sha256(body).digest()


PACKED = TRUE.message.packed()

CONTAINERS = {
    "empty file": (b"", "the shortest certificate"),
    "another magic": (b"X" + DATA[1:], "no certificate"),
    "version 3 by the page of version 2": (writer.seal(head_bytes(), PACKED, version=3), "format must be"),
    "version 4": (writer.seal(head_bytes(), PACKED, version=4), "format version 4"),
    "version 1 with a page": (writer.seal(head_bytes(), PACKED, version=1), "it must be an object with"),
    "a witness of nothing": (writer.seal(head_bytes(), PACKED, witness=b"proof"), "needs 0"),
    "a witness of 4 GB": (resealed(DATA[:-36] + b"\xff" * 4), "length of the witness"),
    "a witness that is longer than it says": (resealed(DATA[:-32] + b"proof"), "length of the witness"),
    "a witness that is shorter than it says": (
        resealed(DATA[:-36] + b"\x09\0\0\0proof"),
        "length of the witness",
    ),
    "no length of a witness": (resealed(DATA[:-36]), "length of the witness"),
    "a large witness of nothing": (
        writer.seal(head_bytes(), PACKED, witness=bytes((1 << 24) + 1)),
        "length of the witness",
    ),
    "version 1 with a witness": (
        resealed(DATA[:7] + b"\x01" + DATA[8:-32]),
        "it must be an object with",
    ),
    "version 0": (writer.seal(head_bytes(), PACKED, version=0), "format version 0"),
    "truncated by one": (DATA[:-1], "SHA-256 at the end"),
    "one byte more": (DATA + b"\0", "SHA-256 at the end"),
    "a sealed byte more": (writer.seal(head_bytes(), PACKED + b"\0"), "bytes are missing or left over"),
    "a sealed byte less": (writer.seal(head_bytes(), PACKED[:-1]), "bytes are missing or left over"),
    "a header of 4 GB": (DATA[:8] + b"\xff" * 4 + DATA[12:], "The header claims 4294967295 bytes"),
    "no header": (DATA[:8] + b"\0" * 4 + DATA[12:], "The header claims 0 bytes"),
    "another checksum": (DATA[:-32] + bytes(32), "SHA-256 at the end"),
    "white space": (writer.seal(json.dumps(TRUE.fields, sort_keys=True).encode(), PACKED), "not canonical"),
    "unsorted keys": (
        writer.seal(
            json.dumps(dict(sorted(TRUE.fields.items(), reverse=True)), separators=(",", ":")).encode(),
            PACKED,
        ),
        "not canonical",
    ),
    "duplicate field": (
        writer.seal(head_bytes().replace(b'"errors":', b'"errors":0,"errors":'), PACKED),
        "occurs twice",
    ),
    "number in another spelling": (
        writer.seal(head_bytes().replace(b"0.05", b"5e-2"), PACKED),
        "not canonical",
    ),
    "not a number": (writer.seal(head_bytes().replace(b"0.05", b"NaN"), PACKED), "NaN is no number"),
    "infinity": (writer.seal(head_bytes().replace(b"0.05", b"1e999"), PACKED), "not canonical JSON"),
    "bytes that are not ASCII": (
        writer.seal(head_bytes().replace(b"sample is", b"s\xc3\xa4mple"), PACKED),
        "ASCII",
    ),
    "deep nesting": (writer.seal(b"[" * 60_000, PACKED), "not canonical JSON"),
    "a number of 60,000 digits": (writer.seal(b"9" * 60_000, PACKED), "not canonical JSON"),
    "no JSON": (writer.seal(b"hello", PACKED), "not canonical JSON"),
    "null": (writer.seal(b"null", PACKED), "it must be an object"),
}


@pytest.mark.parametrize("name", CONTAINERS)
def test_a_crafted_container_is_refused(name):
    data, because = CONTAINERS[name]
    crafting.refused_by_both(data, because, TRUE.x, TRUE.y)


def test_padding_bits_that_are_set():
    message = writer.Message(
        [["linear", 3, True]], {"0.weight": writer.dense(writer.WEIGHT), "0.bias": writer.zero((3,))}
    )
    assert len(message.bits) % 8
    packed = message.packed()[:-1] + bytes([message.packed()[-1] | 1])
    fields = writer.header(message, TRUE.x, TRUE.y, errors=400, classes=3)
    fields["facts"]["message_sha256"] = hashlib.sha256(packed).hexdigest()
    refused(writer.seal(writer.canonical(fields), packed), because="unused low bits")
    assert (
        verify(writer.write(message, fields), TRUE.x, TRUE.y).reasons[0].startswith("The message has SHA-256")
    )


def test_every_single_flipped_bit_is_refused():
    for position in range(8 * len(DATA)):
        byte, bit = divmod(position, 8)
        flipped = DATA[:byte] + bytes([DATA[byte] ^ 1 << bit]) + DATA[byte + 1 :]
        assert verify(flipped, TRUE.x, TRUE.y).verdict == "REFUSE"


def test_every_truncation_is_refused():
    for size in range(len(DATA)):
        assert verify(DATA[:size], TRUE.x, TRUE.y).verdict == "REFUSE"


def test_a_flipped_bit_of_the_message_is_another_network():
    """Sealed again, it is accepted only if that network has the stated ledger and makes no more errors."""
    accepted = 0
    for position, old in enumerate(BITS):
        data = remade(BITS[:position] + str(1 - int(old)) + BITS[position + 1 :], forms=FORMS)
        if verify(data, TRUE.x, TRUE.y).verdict == "ACCEPT":
            accepted += 1
            _, g = decode_network(data)
            logits = TRUE.x.reshape(400, 4) / 16 @ g["0.weight"].astype(float).T + g["0.bias"].astype(float)
            assert writer.count(logits, TRUE.y) <= TRUE.fields["facts"]["errors"]
            expected = {
                name: tensor.values.astype(np.float32) for name, tensor in TRUE.message.tensors.items()
            }
            assert not all(np.array_equal(g[name], values) for name, values in expected.items())
    assert accepted < len(BITS) // 10


@pytest.mark.parametrize("what", ["input", "label", "order", "dtype", "fewer", "shape"])
def test_another_dataset(what):
    x, y = TRUE.x.copy(), TRUE.y.copy()
    if what == "input":
        x[7, 0, 1, 1] ^= 1
    elif what == "label":
        y[7] = (y[7] + 1) % 3
    elif what == "order":
        x, y = x[::-1], y[::-1]
    elif what == "dtype":
        x = x.astype(np.float32)
    elif what == "fewer":
        x, y = x[:-1], y[:-1]
    else:
        x = x.reshape(400, 4)
    refused(DATA, x=x, y=y, because="the sample has SHA-256")


@pytest.mark.parametrize("label", [-1, 3, 2**40])
def test_a_label_out_of_range(label):
    y = TRUE.y.copy()
    y[0] = label
    fields = copy.deepcopy(TRUE.fields)
    fields["facts"]["sample_sha256"] = writer.sample_hash(TRUE.x, y)
    refused(writer.write(TRUE.message, fields), y=y, because="0 to 2 is expected")


def chain(operations, tensors=None, **options) -> bytes:
    """A vacuous but consistent certificate for any message."""
    message = writer.Message(operations, tensors or {}, **options)
    return writer.write(message, writer.header(message, TRUE.x, TRUE.y, errors=400, classes=3))


def fixed_linear(weight: writer.Tensor) -> bytes:
    return chain([["linear", 3, False]], {"0.weight": weight})


def coded(write) -> writer.Tensor:
    return writer.Tensor(lambda coder, name: write(coder), np.zeros(1))


def raw_nan(coder: writer.Coder) -> None:
    coder.gamma(6)
    for _ in range(12):
        coder.float32(math.nan)


MESSAGES = {
    "weights that are NaN": (fixed_linear(coded(raw_nan)), "not finite"),
    "weights beyond float32": (fixed_linear(writer.dense(np.full((3, 4), 1000), 1000)), "too large"),
    "256 operations and one": (
        chain([["max pool", 1]] * 256 + [["linear", 3, False]]),
        "number of operations",
    ),
    "a chain without a classifier": (chain([["max pool", 1]], classes=3), "last operation must be linear"),
    "a pool after a linear": (
        chain([["linear", 4, False], ["max pool", 1], ["linear", 3, False]]),
        "needs an image",
    ),
    "a layer of 2^16 + 1": (chain([["linear", 2**16 + 1, False], ["linear", 3, False]]), "out is 65537"),
    "2^32 weights": (
        chain([["linear", 2**16, False], ["linear", 2**16, False], ["linear", 3, False]]),
        "at most 1073741824",
    ),
    "an image of 10^9 pixels": (
        chain([["conv", 1, 1, 1, 2**15, False], ["linear", 3, False]]),
        "numbers out of",
    ),
    "a margin that no statement asks for": (chain([["linear", 3, False]], theta=0), "a margin theta"),
    "a split that no statement asks for": (chain([["linear", 3, False]], split=1), "a split fraction"),
    "a base that the header does not name": (
        chain([["linear", 3, False]], has_base=True),
        "differences to a base",
    ),
    "a factory that the header does not name": (chain(None), "code of others (a factory)"),
    "2^24 dense weights and some in no bits": (
        chain(
            [["linear", 2**13, False], ["linear", 2**11 + 1, False], ["linear", 3, False]],
            {
                "0.weight": writer.zero(1),
                "1.weight": coded(lambda coder: [coder.gamma(k) for k in (3, 1, 1)]),
            },
        ),
        "coded inside its code word are more than",
    ),
}


@pytest.mark.parametrize("name", MESSAGES)
def test_a_crafted_message_is_refused(name):
    data, because = MESSAGES[name]
    crafting.refused_by_both(data, because, TRUE.x, TRUE.y)


def test_an_unknown_scheme_and_an_unknown_architecture():
    for numbers, because in (((5,), "scheme 5"), ((1, 4), "architecture 4"), ((1, 1, 1, 11), "operation 11")):
        coder = writer.Coder()
        writer.write_setting(coder, 3, TRUE.message.scaling)
        for position, number in enumerate(numbers):
            if position == 1:
                for _ in range(3):
                    coder.bit(0)
            coder.gamma(number)
        crafting.refused_by_both(remade(coder.end() + "0" * 64), because, TRUE.x, TRUE.y)


def test_zero_weights_predict_nothing():
    """A network of a few bits with all logits equal errs on every example, whatever is claimed."""
    message = writer.Message([["linear", 3, False]], {"0.weight": writer.zero((3, 4))})
    fields = writer.header(message, TRUE.x, TRUE.y, errors=0, classes=3)
    refused(writer.write(message, fields), because="makes 400 errors")


def test_a_header_length_that_points_into_the_message():
    longer = DATA[:8] + struct.pack("<I", len(head_bytes()) + 4) + DATA[12:-32]
    refused(longer + hashlib.sha256(longer).digest(), because="not canonical JSON")
