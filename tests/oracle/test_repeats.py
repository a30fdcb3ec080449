"""Copies and contradictions in both programs, against their definition, example by example."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from codebound.sample.caveats import count_copies
from codebound.sample.dataset import Dataset
from codebound_verify import sample
from codebound_verify.sample import count_repeats

EXAMPLES = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 2)), min_size=1, max_size=40)


def by_definition(examples: list[tuple[int, int]]) -> tuple[int, int]:
    copies = contradictions = 0
    for at, (value, label) in enumerate(examples):
        before = [other for seen, other in examples[:at] if seen == value]
        copies += label in before
        contradictions += bool(before) and label not in before
    return copies, contradictions


def arrays(examples: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    values, labels = np.array(examples).T
    return np.stack([values, 7 * values], axis=1).astype(np.float32), labels.astype(np.int64)


@given(EXAMPLES)
def test_both_programs_count_what_the_page_says(examples):
    x, y = arrays(examples)
    written = count_copies(Dataset("t", "train", x, y, 3), allow_copies=True)
    checked = count_repeats(x, y)
    assert (written.copies, written.contradictions) == by_definition(examples)
    assert (checked.copies, checked.contradictions) == by_definition(examples)


@given(st.lists(st.tuples(st.sampled_from([0.0, -0.0, 1.0]), st.integers(0, 2)), min_size=1, max_size=40))
def test_both_programs_count_equal_numbers_beside_equal_bytes(examples):
    """The page states copies byte for byte; what decides is how many are equal."""
    x, y = arrays(examples)
    stored = [(np.float32(value).tobytes(), label) for value, label in examples]
    written = count_copies(Dataset("t", "train", x, y, 3), allow_copies=True)
    for found in (written, count_repeats(x, y), count_repeats(x.astype(np.float64), y)):
        assert (found.copies, found.contradictions) == by_definition(stored)
        assert found.equal == by_definition(examples)[0]


def test_rows_whose_hashes_begin_alike_are_told_apart(monkeypatch: pytest.MonkeyPatch):
    """All rows are candidates then; the whole hash decides."""
    examples = [(value % 13, value % 2) for value in range(60)]
    x, y = arrays(examples)
    whole = sample._keys
    monkeypatch.setattr(sample, "_keys", lambda *given: (b"\0" * 8 + key for key in whole(*given)))
    found = count_repeats(x, y)
    assert (found.copies, found.contradictions) == by_definition(examples)
