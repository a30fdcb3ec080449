"""What is stored, its hash, and cells."""

import re

import numpy as np
import pytest
from certificate_counts import cell as other_cell
from certificate_counts import hash_of
from certificate_reader import PAGE

from codebound.sample.columns import text_cells
from codebound_verify.refusal import Refused
from codebound_verify.sample import Data, as_labels, as_stored, cell, check_numbers, hash_arrays


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        ("u1", "uint8"),
        ("?", "float32"),
        ("i1", "float32"),
        ("u2", "float32"),
        ("f2", "float32"),
        (">f4", "float32"),
        ("i4", "float64"),
        ("u8", "float64"),
        (">f8", "float64"),
    ],
)
def test_numbers_become_one_of_three_types(given, stored):
    x = np.ones((2, 3, 4), given)
    found = as_stored(x)
    assert (found.dtype, found.shape) == (np.dtype(stored), (2, 1, 3, 4))
    assert hash_arrays(found) == hash_of(np.ones((2, 1, 3, 4), stored))


def test_inputs_that_are_no_numbers_or_too_large_are_refused():
    for value in (np.nan, np.inf, 1.1e300, -1.1e300):
        with pytest.raises(Refused):
            as_stored(np.array([[0.0], [value]]))
        with pytest.raises(Refused), np.errstate(over="ignore"):
            as_stored(np.array([[0.0], [value]]).astype(np.float32))
    as_stored(np.array([[1e300, 3e38]]))
    as_stored(np.array([[np.finfo(np.float32).max]], np.float32))
    for x in (np.zeros(3), np.zeros((0, 2)), np.zeros((2, 0)), np.zeros((2, 1), complex), np.array([["a"]])):
        with pytest.raises(Refused):
            as_stored(x)


def test_white_space_is_that_of_the_page():
    """Before normal form C, of which some code points are others."""
    named = re.search(r"str\.strip`: U\+([^)]*)\)", PAGE)[1].replace(",", " ").split()
    spans = [[int(end, 16) for end in each.split("-")] for each in named]
    white = {point for span in spans for point in range(span[0], span[-1] + 1)}
    assert white == {point for point in range(0x110000) if not chr(point).strip()}
    for point in [*white, 0x200B, 0xFEFF]:
        text = chr(point) + "a b" + chr(point)
        found = {cell(text).tobytes(), other_cell(text).tobytes(), text_cells([text]).tobytes()}
        assert len(found) == 1
        assert (found == {cell("a b").tobytes()}) == (point in white)


def test_cells_are_numbers_gaps_and_texts_and_nothing_else():
    values = [1, 2.5, None, "", " cafe\u0301 ", "caf\u00e9", "nan"]
    found = as_stored(np.array([values], object), is_cells=True)
    assert found.tobytes() == np.array([other_cell(value) for value in values]).tobytes()
    assert cell("caf\u00e9").tobytes() == cell(" cafe\u0301 ").tobytes() != cell("cafe").tobytes()
    data = Data(found, np.zeros(1, np.int64), True)
    assert (
        hash_arrays(data.x, data.y, is_cells=True)
        == hash_of(found, data.y, cells=True)
        != hash_of(found, data.y)
    )
    wrong = [0x7FF8 << 48 | 1, 0x7FFA << 48, 0xFFF8 << 48, 0x7FF0 << 48, 0x7FF1 << 48]
    for pattern in wrong:
        x = np.array([[pattern]], np.uint64).view(np.float64)
        with pytest.raises(Refused):
            as_stored(x, is_cells=True)
    for x in (
        np.zeros((2, 1), np.float32),
        np.zeros((2, 1, 1)),
        np.array([[b"a"]], object),
        np.array([[2e300]]),
    ):
        with pytest.raises(Refused):
            as_stored(x, is_cells=True)
    with pytest.raises(Refused):
        as_stored(found)


def test_labels_and_other_numbers_have_their_ranges():
    assert as_labels(np.array([0, 2**16 - 1], np.uint16), 2).dtype == np.int64
    for y in ([0, 2**16], [-1, 0], [0.0, 1.0], [0]):
        with pytest.raises(Refused):
            as_labels(np.array(y), 2)
    numbers = np.array([2**32 - 1, 0])
    assert check_numbers(numbers, hash_of(numbers), 2, "groups").tolist() == numbers.tolist()
    assert check_numbers(numbers, None, 2, "groups") is None
    for given in (numbers + 1, numbers[::-1], None):
        with pytest.raises(Refused, match="groups"):
            check_numbers(given, hash_of(numbers), 2, "groups")


def test_a_text_that_is_none_is_refused():
    with pytest.raises(Refused, match="no text"):
        as_stored(np.array([["a", "\ud800"]]), is_cells=True)
