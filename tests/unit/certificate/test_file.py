"""The file: exact round trips, and a reader that refuses whatever does not have the form."""

import copy
import hashlib
import json
from dataclasses import asdict, replace

import pytest
from drawing import examples
from hypothesis import given
from hypothesis import strategies as st
from worlds.outcomes import FORMS, issued, task_of
from worlds.outcomes import outcome as outcome_of

from codebound.bits.plain_code import FIRST_TABLE, NETWORK, PICKS, USUAL_SPLIT
from codebound.certificate.file import Certificate
from codebound.certificate.offers import assess, draft
from codebound.run.errors import CodeboundError, FormatError

CERTIFICATES = {form: draft(assess(outcome_of(form, task_of()), task_of()), task_of()) for form in FORMS}
CERTIFICATE = CERTIFICATES[FIRST_TABLE]
CONTENT = CERTIFICATE.to_bytes()
HEAD_END = 12 + int.from_bytes(CONTENT[8:12], "little")
HEADER, TAIL = CONTENT[12:HEAD_END], CONTENT[HEAD_END:-32]
FIELDS = json.loads(HEADER)


def seal(header, *, tail=TAIL, version=4):
    """A file of a header, a message and a witness, with a hash that is right."""
    content = b"CBOUND\0" + bytes([version]) + len(header).to_bytes(4, "little") + header + tail
    return content + hashlib.sha256(content).digest()


def changed(path, *value):
    """The file with another value at a path, or without it."""
    fields = copy.deepcopy(FIELDS)
    *parents, last = path.split(".")
    record = fields
    for key in parents:
        record = record[key]
    if value:
        record[last] = value[0]
    else:
        del record[last]
    return seal(json.dumps(fields, sort_keys=True, separators=(",", ":")).encode())


@pytest.mark.parametrize("form", FORMS)
def test_reading_inverts_writing(form):
    certificate = CERTIFICATES[form]
    again = Certificate.from_bytes(certificate.to_bytes())
    assert (again, again.to_bytes(), again.form) == (certificate, certificate.to_bytes(), form)


def test_a_file_is_laid_out_as_the_page_says():
    assert seal(HEADER) == CONTENT
    assert CERTIFICATE.bits.data + bytes(4) == TAIL
    assert json.dumps(FIELDS, sort_keys=True, separators=(",", ":")).encode() == HEADER
    assert " ".join(FIELDS) == "claim declarations format known made_by message original sample"


@given(st.lists(st.text('abc "\\é', max_size=30), min_size=1, max_size=4), st.floats(1e-9, 1.0))
def test_every_field_comes_back(declarations, bound):
    claim = replace(CERTIFICATE.claim, bound=bound)
    certificate = replace(CERTIFICATE, declarations=tuple(declarations), claim=claim)
    assert Certificate.from_bytes(certificate.to_bytes()) == certificate


def test_saving_is_all_or_nothing(tmp_path):
    path = CERTIFICATE.save(tmp_path / "new" / "c.cbound")
    assert Certificate.load(path) == Certificate.load(str(path)) == CERTIFICATE
    before = path.read_bytes()
    with pytest.raises(FormatError, match="more than 1048576"):
        replace(CERTIFICATE, declarations=("x" * 1_050_000,)).save(path)
    assert path.read_bytes() == before
    assert [each.name for each in path.parent.iterdir()] == ["c.cbound"]


def test_files_that_cannot_be_read(tmp_path):
    for place in (tmp_path / "absent.cbound", tmp_path):
        with pytest.raises(FormatError, match="cannot be read"):
            Certificate.load(place)
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(1 << 30)  # sparse
    with pytest.raises(FormatError, match="larger than any"):
        Certificate.load(tmp_path / "huge")


@pytest.mark.parametrize("version", [1, 2, 3])
def test_earlier_versions_are_named_with_the_program_that_reads_them(version):
    with pytest.raises(
        FormatError, match=f"format of version {version}, which earlier programs wrote: docs/history"
    ):
        Certificate.from_bytes(seal(HEADER, version=version))


MALFORMED = {
    "nothing": (b"", "too short"),
    "only the magic": (CONTENT[:8], "too short"),
    "another magic": (b"X" + CONTENT[1:], "does not start"),
    "a later version": (seal(HEADER, version=5), "format version 5; version 4 is known"),
    "a flipped bit": (CONTENT[:100] + bytes([CONTENT[100] ^ 4]) + CONTENT[101:], "damaged or was changed"),
    "a byte less": (CONTENT[:-1], "damaged"),
    "a byte more": (CONTENT + b"\0", "damaged"),
    "a sealed byte more": (seal(HEADER, tail=TAIL + b"\0"), "no witness of the stated length"),
    "a longer message": (seal(HEADER, tail=b"\0" + TAIL), "no witness of the stated length"),
    "unused bits": (seal(HEADER, tail=b"\x81" + TAIL[1:]), ""),
    "a header of 4 GB": (CONTENT[:8] + b"\xff" * 4 + CONTENT[12:], "damaged"),
    "white space": (seal(b" " + HEADER), "canonical"),
    "a duplicate key": (seal(HEADER.replace(b'"errors":', b'"errors":0,"errors":')), "canonical"),
    "NaN": (seal(HEADER.replace(b'"delta":0.05', b'"delta":NaN')), ""),
    "no object": (seal(b"[]"), ""),
    "deep nesting": (seal(b"[" * 60_000), ""),
    "another page": (changed("format.sha256", "f" * 64), "another page than this program"),
    "another day": (changed("format.frozen", "2026-01-01"), "another page"),
    "no page": (changed("format"), ""),
    "an unknown key": (changed("claim.note", 1), "must have the fields"),
    "an unknown part": (changed("signature", 1), "must have the fields"),
    "a missing key": (changed("claim.on"), "must have the fields"),
    "rows as a text": (changed("sample.rows", "30"), "its rows has the wrong type"),
    "rows as a fraction": (changed("sample.rows", 30.5), "its rows has the wrong type"),
    "limits as a number": (changed("claim.limits", 3), "its limits has the wrong type"),
    "an error as true": (changed("claim.bound", True), "its bound has the wrong type"),
    "vacuous as a number": (changed("claim.vacuous", 0), "its vacuous has the wrong type"),
    "an unknown subject": (changed("claim.subject", "h"), "its subject has the wrong type"),
    "an unknown law": (changed("claim.law", "normal"), "its law has the wrong type"),
    "an unknown loss": (changed("claim.loss", "class:-1"), "unknown loss"),
    "unknown rows": (changed("claim.on", "some"), "errors are counted on"),
    "bits of another message": (changed("message.bits", 8000), "no witness"),
    "negative bits": (changed("message.bits", -1), ""),
    "an input shape of texts": (
        changed("sample.input_shape", ["1", "2"]),
        "its input_shape has the wrong type",
    ),
    "an empty input shape": (changed("sample.input_shape", []), "its inputs have the shape"),
    "an empty ledger": (changed("message.ledger", []), "is empty"),
    "no limits": (changed("claim.limits", []), "is empty"),
    "a ledger of numbers": (changed("message.ledger", [1, 2]), "its ledger has the wrong type"),
    "declarations as a text": (changed("declarations", "trust me"), "its declarations has the wrong type"),
    "a table as a text": (changed("known.tables", ["t"]), "TableFacts must have"),
    "made_by of numbers": (changed("made_by", {"codebound": 1}), "wrong type"),
    "a reserved word": (seal(HEADER, tail=b"\xff" + TAIL[1:]), ""),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_file_is_one_error_in_words(name):
    content, words = MALFORMED[name]
    with pytest.raises(FormatError, match=f"this is no certificate.*{words}"):
        Certificate.from_bytes(content)


@given(st.binary(max_size=80), st.integers(0, len(CONTENT)), st.integers(0, 12))
@examples(200)
def test_whatever_the_bytes_are_nothing_but_a_format_error_is_raised(inserted, start, removed):
    body = (CONTENT[:start] + inserted + CONTENT[start + removed :])[:-32]
    try:
        certificate = Certificate.from_bytes(body + hashlib.sha256(body).digest())
    except FormatError:
        return
    assert str(certificate)
    assert certificate.form
    assert certificate.to_bytes()


@given(st.binary(max_size=200))
def test_random_bytes(data):
    with pytest.raises(CodeboundError):
        Certificate.from_bytes(data)


def test_the_sentence_is_the_claim():
    words = {form: certificate.sentence for form, certificate in CERTIFICATES.items()}
    assert "provided that the scores never saw the examples that are counted" in words[FIRST_TABLE]
    assert not any("provided" in words[form] for form in (USUAL_SPLIT, PICKS, NETWORK))
    assert all("1 - 0.05" in each and "errs on at most" in each for each in words.values())
    claim = replace(CERTIFICATE.claim, vacuous=True, subject="f", loss="class:1", on="answered:2")
    other = replace(CERTIFICATE, claim=claim).sentence
    assert "VACUOUS" in other
    assert "the given network" in other
    assert "of the new data that it answers of class 1" in other


@pytest.mark.parametrize("form", FORMS)
def test_the_bound_follows_from_the_file_at_every_delta(form):
    certificate = CERTIFICATES[form]
    terms = certificate.terms
    assert terms.bound(terms.limits(certificate.claim.delta)) == certificate.claim.bound
    assert terms.bound(terms.limits(1e-6)) > certificate.claim.bound
    assert certificate.statement == {
        PICKS: "C-15",
        USUAL_SPLIT: "C-10",
        FIRST_TABLE: "C-2",
        NETWORK: "C-2",
    }.get(form, "C-10")


def test_a_file_that_is_issued_is_the_draft():
    certificate, task, assessed = issued(FIRST_TABLE)
    assert certificate == draft(assessed, task)
    assert asdict(certificate.sample)["sha256"] == task.sample.sha256
