"""Containers and headers of format 1.0: one file that is read, and small changes of it that are refused."""

import hashlib
import json
from contextlib import nullcontext

import pytest
from certificate_reader import Refused as OtherRefused
from certificate_reader import read_container as other_reader
from file_worlds import made
from file_writer import container, edited, put, write_file

from codebound_verify.container import read_container
from codebound_verify.refusal import Refused

DATA = write_file(*made("table_with_picks"))
SPLIT = 12 + int.from_bytes(DATA[8:12], "little")
TEXT = DATA[12:SPLIT].decode()
HEADER = json.loads(TEXT)
MESSAGE = DATA[SPLIT:-36]
ZEROS = "0" * 64
GIVEN = {"chain": [["linear", 3, 1]], "domain": [0.0, 1.5], "sha256": ZEROS, "unlabelled": None}
MADE = {"by": "a", "of": "b", "rows": 1, "sha256": ZEROS}


def test_a_file_is_read_as_it_was_written():
    read = read_container(DATA)
    sample, claim, known = read.header.sample, read.header.claim, read.header.known
    assert (sample.rows, list(sample.input_shape)) == (
        HEADER["sample"]["rows"],
        HEADER["sample"]["input_shape"],
    )
    assert vars(claim.limits[0]) == HEADER["claim"]["limits"][0]
    assert vars(known.tables[0]) == HEADER["known"]["tables"][0]
    assert [list(part) for part in read.header.message.ledger] == HEADER["message"]["ledger"]
    assert (read.message, read.witness, read.sha256) == (MESSAGE, b"", hashlib.sha256(DATA).hexdigest())
    bounded = put(HEADER, {"original": GIVEN, "claim.subject": "f"})
    assert read_container(container(bounded, MESSAGE)).header.original.domain == (0.0, 1.5)


def test_containers_with_a_byte_more_less_or_changed_are_refused():
    wrong = [DATA[:-1], DATA + b"\0", DATA[:7], DATA[:12], b"", container(HEADER, MESSAGE + b"\0")]
    wrong += [container(HEADER, MESSAGE[:-1]), container(HEADER, MESSAGE, version=5)]
    wrong += [container(HEADER, MESSAGE[:-1] + bytes([MESSAGE[-1] ^ 128]))]  # other bits than the hash says
    wrong += [
        DATA[:place] + bytes([DATA[place] ^ 1]) + DATA[place + 1 :] for place in (0, 8, 11, 40, SPLIT, -1)
    ]
    for data in wrong:
        with pytest.raises(Refused):
            read_container(data)
    for version in (1, 2, 3):
        with pytest.raises(Refused, match="last program that reads it"):
            read_container(container(HEADER, MESSAGE, version=version))
    dirty = MESSAGE[:-1] + bytes([MESSAGE[-1] | 1])
    told = put(HEADER, {"message.sha256": hashlib.sha256(dirty).hexdigest()})
    with pytest.raises(Refused, match="unused"):
        read_container(container(told, dirty))


OTHER_TEXTS = [
    ('"errors":', '"errors":-0'),
    ('"subject":"g"', '"subject": "g"'),
    ('"subject":"g"', '"subject":"\\u0067"'),
    ('"subject":"g"', '"subject":"g","subject":"g"'),
    ('"delta":0.05', '"delta":5e-2'),
    ('"original":null', '"original":NaN'),
    ('"original":null', '"original":' + "[" * 30_000 + "]" * 30_000),
    ('"order":"rows"', '"order":"rows\n"'),
    ('"seal":""', '"seal":"\\n"'),
    ('"seal":""', '"seal":"\x7f"'),
]


@pytest.mark.parametrize(("old", "new"), OTHER_TEXTS)
def test_headers_that_are_not_canonical_are_refused(old, new):
    assert TEXT.count(old) >= 1
    with pytest.raises(Refused, match=r"canonical|printable"):
        read_container(container(TEXT.replace(old, new, 1).encode(), MESSAGE))


CLUSTERS = {"sample.order": "clusters", "sample.clusters": ZEROS, "sample.copies": "independent"}
WRONG = [
    {"sample.rows": 0},
    {"sample.rows": 2**32 + 1},
    {"sample.classes": 1},
    {"sample.input_shape": []},
    {"sample.input_shape": [2**13, 2**12]},
    {"sample.input_shape": [1, 1, 1, 1]},
    {"sample.order": "row"},
    {"sample.copies": "anyall"},
    {"sample.salt": ZEROS},
    {"sample.salt": "A" * 64, "sample.seal": "a"},
    {"sample.clusters": ZEROS},
    CLUSTERS | {"sample.copies": "any"},
    CLUSTERS | {"sample.clusters": None},
    {"known.rows": HEADER["sample"]["rows"]},
    {"known.rows": True},
    {"known.rows": 10.0},
    {"known.tables.0.columns": 1},
    {"known.tables.0.columns": 2**16, "sample.rows": 2**16},
    {"known.tables.0.rows": HEADER["sample"]["rows"] + 1},
    {"known.features": MADE},
    {"known.features": MADE | {"rows": 41}, "sample.order": "file", "known.rows": 40},
    {"known.base": MADE | {"other": 1}},
    {"message.bits": HEADER["message"]["bits"] + 1},
    {"message.bits": 0},
    {"message.ledger": [["form", HEADER["message"]["bits"], 0]]},
    {"message.ledger": [["form", HEADER["message"]["bits"] + 1], ["table", -1]]},
    {"claim.delta": 1.0},
    {"claim.delta": 0.0},
    {"claim.delta": 1},
    {"claim.law": "sum"},
    {"claim.law": "binomial"},
    {"claim.subject": "f"},
    {"claim.limits": []},
    {"claim.limits.0.picks": None},
    {"claim.limits.0.errors": HEADER["claim"]["limits"][0]["n"] + 1},
    {"claim.limits.0.n": HEADER["sample"]["rows"] + 1},
    {"claim.vacuous": 0},
    {"claim.bound": 1},
    {"original": GIVEN},
    {"original": GIVEN | {"domain": None}, "claim.subject": "f"},
    {"original": GIVEN | {"domain": [0, 1]}, "claim.subject": "f"},
    {"original": GIVEN | {"domain": [1.0, 0.0]}, "claim.subject": "f"},
    {"original": GIVEN | {"chain": None}, "claim.subject": "f"},
    {"original": GIVEN | {"chain": [["linear", 3]]}, "claim.subject": "f"},
    {"original": GIVEN | {"chain": [["linear", 3, 2]]}, "claim.subject": "f"},
    {"original": GIVEN | {"chain": [["dictionary", 3, 1]]}, "claim.subject": "f"},
    {"declarations": []},
    {"declarations": ["a" * 401]},
    {"declarations": ["caf\u00e9"]},
    {"made_by.date": "2027-02-30"},
    {"made_by.commit": "a" * 39},
    {"format.frozen": "2027-01-01"},
    {"format.sha256": "1" * 64},
]


@pytest.mark.parametrize("changes", WRONG, ids=[", ".join(each) for each in WRONG])
def test_headers_with_a_wrong_field_are_refused(changes):
    with pytest.raises(Refused, match="Header: "):
        read_container(edited(DATA, changes))


def test_lists_of_limits_and_headers_are_long_enough_for_a_thousand_classes():
    own = HEADER["claim"]["limits"][0]
    for count, is_fine in ((1024, True), (1025, False)):
        data = edited(DATA, {"claim.limits": [own] * count})
        assert int.from_bytes(data[8:12], "little") > 1 << 16
        for reader, refused in ((read_container, Refused), (other_reader, OtherRefused)):
            with nullcontext() if is_fine else pytest.raises(refused):
                reader(data)


@pytest.mark.parametrize(
    "place", [(), ("sample",), ("claim", "limits", 0), ("known", "tables", 0), ("format",)]
)
def test_every_object_has_exactly_its_keys(place):
    for lose in (False, True):
        header = json.loads(TEXT)
        part = header
        for key in place:
            part = part[key]
        if lose:
            part.popitem()
        else:
            part["zzz"] = None
        with pytest.raises(Refused, match="with the keys"):
            read_container(container(header, MESSAGE))


def is_read(read, refused, data: bytes) -> bool:
    try:
        return read(data) is not None
    except refused:
        return False


def test_a_file_that_another_reader_refuses_is_refused():
    """Change one byte of the header at every 7th place, and put the hash right."""
    for place in range(12, SPLIT, 7):
        data = DATA[:place] + bytes([DATA[place] ^ 1]) + DATA[place + 1 : -32]
        data += hashlib.sha256(data).digest()
        if is_read(read_container, Refused, data):
            assert is_read(other_reader, OtherRefused, data), data[place - 20 : place + 20]
