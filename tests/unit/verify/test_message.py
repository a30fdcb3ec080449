"""Bits and words of messages, with the reader of the tests as the other program."""

import numpy as np
import pytest
from certificate_reader import Bits as OtherBits
from code_writer import packed
from file_worlds import made
from file_writer import edited, write_file

from codebound_verify.container import read_container
from codebound_verify.message import Bits, finish_message, read_message
from codebound_verify.refusal import Refused


def test_two_readers_of_bits_read_the_same():
    random = np.random.default_rng(2)
    for _ in range(50):
        data = random.integers(0, 256, 40).astype(np.uint8).tobytes()
        bits, other = Bits(data, 315), OtherBits(data, 315)
        for width in random.integers(0, 40, 7).tolist():
            assert bits.bits(width) == other.bits(width)
            if width % 3 == 0:
                assert bits.gamma() == other.gamma()
            bits.note("part")
            other.note("part")
        assert [list(part) for part in bits.ledger] == other.ledger


def test_bits_that_are_missing_or_left_over_are_refused():
    bits = Bits(b"\xff", 7)
    assert bits.bits(6) == 63
    with pytest.raises(Refused, match="ends after 7"):
        bits.bits(2)
    with pytest.raises(Refused, match="ends after 6"):
        bits.finish()
    assert bits.bits(1) == 1
    bits.finish()
    with pytest.raises(Refused):
        Bits(b"\xff", 9)
    for zeros, is_read in ((40, True), (41, False)):
        bits = Bits(*packed("0" * zeros + "1" + "0" * zeros))
        if is_read:
            assert bits.gamma() == 1 << 40
        else:
            with pytest.raises(Refused, match="41 bits"):
                bits.gamma()


FORMS = {
    "usual_split": "usual split",
    "first_table": "first table",
    "table_with_biases": "another table",
    "split_normalised": "another split",
    "picks": "picks",
    "network": "network",
}


@pytest.mark.parametrize("name", FORMS)
def test_a_word_names_the_form_and_nothing_behind_it_is_read(name):
    message = read_message(read_container(write_file(*made(name))))
    assert message.form == FORMS[name]
    assert (message.question.loss, message.question.on) == ("wrong", "all")
    assert message.bits.ledger == [("form", message.bits.place)]


def words(bits: str, **changes):
    """Give a message of other bits, in a file that is otherwise of the first table."""
    data, count = packed(bits)
    file = read_container(edited(write_file(*made("first_table")), changes))
    code = type(file.header.message)(count, file.header.message.sha256, file.header.message.ledger)
    header = type(file.header)(**{**vars(file.header), "message": code})
    return read_message(type(file)(header, data, b"", file.sha256))


def test_another_loss_comes_once_and_in_front_of_a_form():
    message = words("1111110 000 010 10 01011 10")
    assert (message.form, message.question.loss, message.question.on) == (
        "first table",
        "class:1",
        "answered:0.5",
    )
    assert message.bits.ledger == [("form", 7), ("loss", 13), ("form", 2)]
    for bits in (
        "1111111",
        "1111110 000 1 0 1111110 000 1 0 10",
        "1111110 000 1 0 1111111",
        "1111110 101 0 10",
    ):
        with pytest.raises(Refused):
            words(bits)


def test_clusters_and_groups_that_are_not_there_are_refused():
    for bits in ("1111110 101 1111 00 10", "1111110 000 1 1111 01 10", "1111110 101 1111 10 10"):
        with pytest.raises(Refused, match="sample has no"):
            words(bits)
    groups = {"sample.groups": "0" * 64}
    assert words("1111110 101 1111 00 10", **groups).question.on == "each group"
    clusters = {"sample.order": "clusters", "sample.clusters": "0" * 64, "sample.copies": "independent"}
    assert words("10", **clusters).question.on == "one row a cluster"
    assert words("1111110 101 1111 10 10", **clusters).question.on == "any row of a cluster"
    with pytest.raises(Refused, match="clusters"):
        words("1111110 000 1 0 10", **clusters)


def test_ledger_claim_and_end_agree_with_the_header():
    data = write_file(*made("first_table"))
    file = read_container(data)
    finish_message(read_message(file), file.header)
    for changes in ({"message.ledger": [["forms", 2]]}, {"message.ledger": [["form", 1], ["form", 1]]}):
        other = read_container(edited(data, changes))
        with pytest.raises(Refused, match="ledger"):
            finish_message(read_message(other), other.header)
    for changes in ({"claim.loss": "class:1"}, {"claim.on": "each class"}):
        other = read_container(edited(data, changes))
        with pytest.raises(Refused, match="claim says"):
            finish_message(read_message(other), other.header)
    with pytest.raises(Refused, match="ends after 2"):
        finish_message(words("10 0"), file.header)
