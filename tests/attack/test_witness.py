"""Attacks through the witness: it proves the matrix behind a sketch, or the file is refused."""

import struct

import cbound_writer as writer
import numpy as np
import pytest
from attack.crafting import X, Y, both, refused_by_both
from attack.test_sketched_tensors import TRUE, around, matrix, sketched, two_smallest
from drawing import examples
from hypothesis import given
from hypothesis import strategies as st

MATRIX = matrix(r0c0=-3, r2c4=5)
MIDDLE = sketched(MATRIX, m=5)
MESSAGE = around(MIDDLE)
DUAL = writer.dual_of(MATRIX, (5, 5), t=2, seed=1)


def with_witness(witness: bytes, message=MESSAGE) -> bytes:
    fields = writer.header(message, X, Y, errors=len(Y), classes=3)
    return writer.write(message, fields, witness=witness)


def entries(places, values, dual=DUAL, *, count=None) -> bytes:
    count = len(places) if count is None else count
    kinds = zip(("<u4", "<i4", "<i8"), (places, values, dual), strict=True)
    return struct.pack("<I", count) + b"".join(
        np.asarray(part).astype(kind).tobytes() for kind, part in kinds
    )


PLACES, VALUES = np.flatnonzero(MATRIX), MATRIX.ravel()[np.flatnonzero(MATRIX)]
TRUE_WITNESS = MIDDLE.witness


def test_the_witness_that_is_attacked_is_true():
    assert entries(PLACES, VALUES) == TRUE_WITNESS
    ours, theirs = both(with_witness(TRUE_WITNESS))
    assert ours is not None
    assert ours == theirs


def altered(dual=DUAL, **changes: int) -> np.ndarray:
    """The dual with some of its elements changed: ``rRcC=value``."""
    dual = dual.copy()
    for place, value in changes.items():
        dual[int(place[1]), int(place[3])] += value
    return dual


other = matrix(r1c1=2)
FALSE = {
    "none": (b"", "needs more"),
    "a byte less": (TRUE_WITNESS[:-1], "needs more"),
    "half of it": (TRUE_WITNESS[: len(TRUE_WITNESS) // 2], "needs more"),
    "a byte more": (TRUE_WITNESS + b"\0", "needs"),
    "twice": (2 * TRUE_WITNESS, "needs"),
    "a count beyond the file": (entries(PLACES, VALUES, count=2**32 - 1), "needs more"),
    "a count of one more": (entries(PLACES, VALUES, count=3), "Witness"),
    "of another message": (
        TRUE["one"].witness + bytes(len(TRUE_WITNESS) - len(TRUE["one"].witness)),
        "sketch",
    ),
    "of another matrix": (
        writer.witness_of(other, writer.dual_of(other, (5, 5), t=2, seed=1)),
        "another sketch",
    ),
    "another value": (entries(PLACES, VALUES + np.array([0, 1])), "another sketch"),
    "another sign": (entries(PLACES, -VALUES), "another sketch"),
    "another place": (entries(PLACES + np.array([0, 1]), VALUES), "another sketch"),
    "places out of order": (entries(PLACES[::-1], VALUES[::-1]), "rising order"),
    "a place twice": (entries([*PLACES, PLACES[1]], [*VALUES[:1], 2, 3]), "rising order"),
    "a zero among the non-zeros": (entries([*PLACES, 35], [*VALUES, 0]), "rising order"),
    "a place outside": (entries([*PLACES, 36], [*VALUES, 1]), "rising order"),
    "a large value": (entries(PLACES, [VALUES[0], 2**31 - 1]), "another sketch"),
    "no dual": (entries(PLACES, VALUES, 0 * DUAL), "does not prove"),
    "the opposite dual": (entries(PLACES, VALUES, -DUAL), "does not prove"),
    "a dual that misses a sign": (entries(PLACES, VALUES, altered(r0c0=2**47, r1c1=2**47)), "does not prove"),
    "a dual that is too steep": (entries(PLACES, VALUES, 2 * DUAL), "does not prove"),
    "a dual that overflows": (entries(PLACES, VALUES, np.full((5, 5), -(2**63))), "does not prove"),
}


@pytest.mark.parametrize("name", FALSE)
def test_what_proves_nothing_is_refused(name):
    witness, because = FALSE[name]
    refused_by_both(with_witness(witness), because)


def test_a_message_without_sketches_has_no_witness():
    message = around(writer.zero((6, 6)))
    refused_by_both(with_witness(b"\0", message), "needs 0")


def test_a_sketch_with_two_smallest_matrices_has_no_proof():
    """Whichever of the two a file names, no dual is strict off both."""
    for x in two_smallest():
        sketch = writer.dense(writer.sketch_of(x, (4, 4), t=2, seed=1), -3)
        with pytest.raises(AssertionError):
            writer.dual_of(x, (4, 4), t=2, seed=1)
        message = around(writer.sketched((6, 6), sketch, t=2, seed=1))
        for dual in (np.zeros((4, 4), int), np.full((4, 4), 2**46)):
            refused_by_both(with_witness(writer.witness_of(x, dual), message), "does not prove")


@given(st.integers(0, len(TRUE_WITNESS) * 8 - 1))
@examples(60)
def test_a_flipped_bit_never_changes_the_network(bit):
    """The last bits of the dual do not matter; all else is refused."""
    data = bytearray(TRUE_WITNESS)
    data[bit // 8] ^= 1 << bit % 8
    expected, _ = both(with_witness(TRUE_WITNESS))
    assert all(found in (None, expected) for found in both(with_witness(bytes(data))))


def test_verification_never_searches(monkeypatch):
    def searching(*_given):
        raise AssertionError("a file with a witness was searched")

    monkeypatch.setattr("codebound_verify.networks.papers.random_tensors.recover", searching)
    monkeypatch.setattr("codebound_papers.guha23.sketch.codec.recover_integers", searching)
    ours, theirs = both(with_witness(TRUE_WITNESS))
    assert ours is not None
    assert ours == theirs
