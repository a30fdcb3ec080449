"""The file: golden bytes, exact round trips, and a reader that refuses whatever does not have the form."""

import copy
import hashlib
from dataclasses import replace
from pathlib import Path

import cbound_writer as reference
import numpy as np
import pytest
from drawing import examples
from hypothesis import given
from hypothesis import strategies as st

from codebound.bits.messages import Options
from codebound.bits.setting import Setting
from codebound.certificate.file import Base, Certificate, CertificateFacts, Claim, Helper
from codebound.run.errors import CodeboundError, FormatError
from codebound.sample.dataset import Scaling
from codebound_networks.chains.chain import Chain
from codebound_networks.chains.message import Message
from codebound_networks.chains.operations import Linear
from codebound_networks.codes.tensors import Adaptive, Dense
from codebound_verify import verify

GOLDEN = Path(__file__).parents[2] / "golden/version-2/tiny.cbound"


def literal_case() -> reference.Case:
    """A linear classifier of 2 x 2 images on 30 examples, by the literal writer of docs/format.md."""
    return reference.linear_case(30, scaling={"divisor": 16.0, "mean": [0.0], "std": [1.0]})


def same_certificate() -> Certificate:
    """The same by codebound; the three bounds are copied, because both round them in their own way."""
    fields = literal_case().fields
    claim = {{"fault": "loss"}.get(name, name): value for name, value in fields["claim"].items()}
    chain = Chain((1, 2, 2), (Linear(3, True),))
    codes = {
        "0.weight": Adaptive(reference.WEIGHT.astype(np.int32), -3, 2),
        "0.bias": Dense(reference.BIAS.astype(np.int32), 1, 1),
    }
    bits, ledger = Message(Options(setting=Setting(3, Scaling(16.0))), chain, codes).encode()
    return Certificate(
        claim=Claim(**claim),
        facts=CertificateFacts(**fields["facts"]),
        helper=Helper(input_shape=(1, 2, 2), scaling=Scaling(16.0)),
        ledger=ledger,
        declarations=("The sample is independent of the code.",),
        made_by={"codebound": "0.1", "commit": "", "date": "2025-01-31"},
        message=bits,
    )


CERTIFICATE = same_certificate()
CONTENT = CERTIFICATE.to_bytes()
HEAD_END = 12 + int.from_bytes(CONTENT[8:12], "little")


def test_golden_bytes():
    """The file on disk, codebound and the literal writer: the same bytes; the verifier accepts them."""
    assert GOLDEN.read_bytes() == CONTENT
    assert literal_case().data() == CONTENT
    x, y = reference.clusters(30)
    verdict = verify(CONTENT, x, y)
    assert verdict.reasons == ()


def test_the_message_of_the_golden_file_bit_by_bit():
    """Symbols of probability 1/2 are bits as they stand, so the beginning can be read off the page."""
    text = str(CERTIFICATE.message)
    assert text.startswith(
        "010"  # three classes: gamma(2)
        "10"  # the third scaling of the catalogue: divisor 16
        "1"  # method: gamma(1)
        "000"  # no split, no theta, no base
        "1"  # a chain
        "1"  # of one operation
        "1"  # a linear one, whose width is the number of classes
        "1"  # with a bias
        "1"  # its weight is in mode 1, adaptive
        "00110"  # step -3: gamma(6)
        "010"  # L = 2
        "00"  # no flags of rows or columns
        "00"  # kind 0
    )
    assert dict(CERTIFICATE.ledger)["architecture"] == 4
    assert sum(bits for _, bits in CERTIFICATE.ledger) == len(text) == CERTIFICATE.facts.code_bits


def test_reading_inverts_writing():
    again = Certificate.from_bytes(CONTENT)
    assert again == CERTIFICATE
    assert again.to_bytes() == CONTENT


@given(
    st.builds(Base, st.text(max_size=20), st.just("b" * 64)) | st.none(),
    st.lists(st.text(max_size=30), min_size=1, max_size=4),
    st.floats(0.0, 1.0),
)
def test_every_field_comes_back(base, declarations, bound):
    certificate = replace(
        CERTIFICATE,
        helper=replace(CERTIFICATE.helper, base=base),
        declarations=tuple(declarations),
        claim=replace(CERTIFICATE.claim, bound=bound),
    )
    assert Certificate.from_bytes(certificate.to_bytes()) == certificate


def test_saving_is_all_or_nothing(tmp_path, monkeypatch):
    path = CERTIFICATE.save(tmp_path / "new" / "c.cbound")
    assert Certificate.load(path) == CERTIFICATE
    assert Certificate.load(str(path)) == CERTIFICATE
    before = path.read_bytes()
    broken = replace(CERTIFICATE, declarations=("x" * 70_000,))
    with pytest.raises(FormatError, match="more than 65536"):
        broken.save(path)
    assert path.read_bytes() == before
    assert [each.name for each in path.parent.iterdir()] == ["c.cbound"]


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(FormatError, match="cannot be read"):
        Certificate.load(tmp_path / "absent.cbound")
    with pytest.raises(FormatError, match="cannot be read"):
        Certificate.load(tmp_path)


def test_a_file_larger_than_any_certificate_is_not_read(tmp_path):
    path = tmp_path / "huge.cbound"
    with path.open("wb") as file:
        file.truncate(1 << 30)  # sparse
    with pytest.raises(FormatError, match="larger than any"):
        Certificate.load(path)


def test_the_sentence_is_the_claim():
    assert "the decoded network g errs on at most" in CERTIFICATE.sentence
    assert "1 - 0.05" in CERTIFICATE.sentence
    vacuous = replace(CERTIFICATE, claim=replace(CERTIFICATE.claim, vacuous=True, subject="f"))
    assert "VACUOUS" in vacuous.sentence
    assert "original network f" in vacuous.sentence


def sealed(fields: dict) -> bytes:
    return reference.seal(reference.canonical(fields), CERTIFICATE.message.data)


def changed(path: str, value: object) -> bytes:
    fields = copy.deepcopy(literal_case().fields)
    *parents, last = path.split(".")
    record = fields
    for key in parents:
        record = record[key]
    if value is None:
        del record[last]
    else:
        record[last] = value
    return sealed(fields)


MALFORMED = {
    "nothing": b"",
    "only the magic": CONTENT[:8],
    "another magic": b"X" + CONTENT[1:],
    "another version": reference.seal(CONTENT[12:HEAD_END], CERTIFICATE.message.data, version=3),
    "a flipped bit": CONTENT[:100] + bytes([CONTENT[100] ^ 4]) + CONTENT[101:],
    "a byte less": CONTENT[:-1],
    "a byte more": CONTENT + b"\0",
    "a sealed byte more": reference.seal(CONTENT[12:HEAD_END], CERTIFICATE.message.data + b"\0"),
    "a header of 4 GB": CONTENT[:8] + b"\xff" * 4 + CONTENT[12:],
    "white space": reference.seal(b" " + CONTENT[12:HEAD_END], CERTIFICATE.message.data),
    "a duplicate key": reference.seal(
        CONTENT[12:HEAD_END].replace(b'"errors":', b'"errors":0,"errors":'), CERTIFICATE.message.data
    ),
    "NaN": reference.seal(CONTENT[12:HEAD_END].replace(b"0.05", b"NaN"), CERTIFICATE.message.data),
    "no object": reference.seal(b"[]", CERTIFICATE.message.data),
    "deep nesting": reference.seal(b"[" * 60_000, CERTIFICATE.message.data),
    "another page": changed("format.sha256", "0" * 64),
    "another day": changed("format.frozen", "2026-01-01"),
    "no page": changed("format", None),
    "a witness that is not there": CONTENT[:-36] + b"\1\0\0\0" + CONTENT[-32:],
    "an unknown key": changed("claim.note", 1),
    "an unknown part": changed("signature", 1),
    "a missing key": changed("claim.kl", None),
    "a missing part": changed("ledger", None),
    "n as a text": changed("facts.n", "30"),
    "n as a fraction": changed("facts.n", 30.5),
    "errors as a list": changed("facts.errors", [1]),
    "extra as a list": changed("facts.extra", []),
    "bound as a text": changed("claim.bound", "0.1"),
    "bound as true": changed("claim.bound", True),
    "vacuous as a number": changed("claim.vacuous", 0),
    "an unknown subject": changed("claim.subject", "h"),
    "code_bits of another message": changed("facts.code_bits", 8000),
    "negative code_bits": changed("facts.code_bits", -1),
    "an input shape as a text": changed("helper.input_shape", "122"),
    "an input shape of texts": changed("helper.input_shape", ["1", "2"]),
    "an empty input shape": changed("helper.input_shape", []),
    "a divisor of zero": changed("helper.scaling.divisor", 0.0),
    "a mean as a number": changed("helper.scaling.mean", 1.0),
    "a mean of texts": changed("helper.scaling.mean", ["a"]),
    "a base as a text": changed("helper.base", "b"),
    "a base as a number": changed("helper.base", 7),
    "an empty ledger": changed("ledger", []),
    "a ledger of numbers": changed("ledger", [1, 2]),
    "a ledger of texts": changed("ledger", [["method", "1"]]),
    "declarations as a text": changed("declarations", "trust me"),
    "declarations of numbers": changed("declarations", [1]),
    "made_by as a list": changed("made_by", []),
    "made_by of numbers": changed("made_by", {"codebound": 1, "commit": "", "date": "2025-01-31"}),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_file_is_one_error_in_words(name):
    with pytest.raises(FormatError, match="this is no certificate"):
        Certificate.from_bytes(MALFORMED[name])


@given(st.binary(max_size=80), st.integers(0, len(CONTENT)), st.integers(0, 12))
@examples(200)
def test_whatever_the_bytes_are_nothing_but_a_format_error_is_raised(inserted, start, removed):
    body = (CONTENT[:start] + inserted + CONTENT[start + removed :])[:-32]
    data = body + hashlib.sha256(body).digest()
    try:
        certificate = Certificate.from_bytes(data)
    except FormatError:
        return
    assert str(certificate)
    assert certificate.to_bytes()


@given(st.binary(max_size=200))
def test_random_bytes(data):
    with pytest.raises(CodeboundError):
        Certificate.from_bytes(data)
