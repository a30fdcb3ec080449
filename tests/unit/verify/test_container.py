"""A file is taken apart only if every byte of it has its place."""

import hashlib

import cbound_writer as writer
import pytest

from codebound_verify import container
from codebound_verify.container import load, read
from codebound_verify.refusal import Refused

CASE = writer.linear_case(30)
DATA = CASE.data()


def sealed(data: bytes) -> bytes:
    return data + hashlib.sha256(data).digest()


def test_header_and_message_are_those_that_were_written():
    found = read(DATA)
    assert found.header.n == 30
    assert hashlib.sha256(found.message).hexdigest() == found.header.message_sha256
    assert found.witness == b""


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (DATA[:40], "the shortest certificate has"),
        (b"X" + DATA[1:], "it is no certificate"),
        (DATA[:7] + b"\xff" + DATA[8:], "format version 255"),
        (DATA[:8] + b"\xff\xff\xff\x7f" + DATA[12:], "The header claims"),
        (DATA[:-1] + bytes([DATA[-1] ^ 1]), "SHA-256 at the end"),
        (sealed(DATA[:-32] + b"more"), "missing or left over"),
        (sealed(DATA[:-33]), "missing or left over"),
    ],
)
def test_a_byte_that_is_wrong_missing_or_left_over_is_refused(data, reason):
    with pytest.raises(Refused, match=reason):
        read(data)


def test_a_file_that_is_too_long_is_refused_unread(tmp_path, monkeypatch):
    (tmp_path / "c.cbound").write_bytes(DATA)
    assert load(tmp_path / "c.cbound") == DATA
    monkeypatch.setattr(container, "FILE_LIMIT", 100)
    with pytest.raises(Refused, match="has at most 100"):
        load(tmp_path / "c.cbound")
