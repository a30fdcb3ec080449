"""What learners of scikit-learn read of stored inputs: words by rank, gaps, and nothing of counted rows."""

import importlib.util

import numpy as np
import pandas as pd
import pytest

from codebound.known import views
from codebound.known.views import Codes, Frame, Standardised, flatten, view_for
from codebound.sample.load import as_dataset

TABLE = pd.DataFrame(
    {
        "size": [1.5, -0.0, np.nan, 2.0, 0.0, 9.0],
        "town": ["ulm", "bonn", "ulm", None, "rom", "oslo"],
        "code": ["7", "x", "7", "7", "x", "3"],
    }
)
SAMPLE = as_dataset((TABLE, np.array([0, 1, 0, 1, 0, 1])))
KNOWN = np.arange(4)


def test_words_are_ranks_of_the_known_share_and_strange_ones_are_missing():
    found = Codes.of(SAMPLE, KNOWN)(SAMPLE.x)
    assert found[:, 0].tolist()[:2] == [1.5, 0.0]
    assert np.isnan(found[2, 0])
    assert found[[0, 2], 1].tolist() == [0.0, 0.0]  # the commonest
    assert found[1, 1] == 1.0
    assert np.isnan(found[3:, 1]).all()  # a gap, and two towns that no known row has
    assert found[:5, 2].tolist() == [0.0, 1.0, 0.0, 0.0, 1.0]  # numbers among words are words
    assert np.isnan(found[5, 2])


def test_a_word_among_numbers_of_the_known_share_is_missing():
    sample = as_dataset((pd.DataFrame({"a": [1.0, 2.0, "x"], "b": ["u", "v", "u"]}), np.array([0, 1, 0])))
    assert np.isnan(Codes.of(sample, np.arange(2))(sample.x)[2, 0])


def test_counted_rows_change_no_view():
    other = SAMPLE.x.copy()
    other[4:] = SAMPLE.x[:2]
    rows = SAMPLE.x[:4]
    changed = Codes.of(as_dataset((TABLE.iloc[[0, 1, 2, 3, 0, 1]], SAMPLE.y)), KNOWN)
    np.testing.assert_array_equal(changed(rows), Codes.of(SAMPLE, KNOWN)(rows))


def test_a_frame_has_names_and_categories():
    frame = view_for(SAMPLE, KNOWN)(SAMPLE.x)
    assert list(frame.columns) == ["size", "town", "code"]
    assert [str(each) for each in frame.dtypes] == ["float64", "category", "category"]
    assert frame["town"].isna().tolist() == [False, False, False, True, True, True]
    assert frame["code"].cat.categories.tolist() == [0, 1]


def test_without_pandas_a_table_is_an_array(monkeypatch):
    monkeypatch.setattr(views, "find_spec", lambda name: None if name == "pandas" else importlib.util)
    codes = Codes.of(SAMPLE, KNOWN)
    np.testing.assert_array_equal(Frame(codes)(SAMPLE.x), codes(SAMPLE.x))


def test_standardised_columns_have_no_gaps():
    found = Standardised.of(SAMPLE, KNOWN)(SAMPLE.x)
    assert found.dtype == np.float32
    assert np.isfinite(found).all()
    assert found.shape == (6, 1 + 1 + 2 + 2)  # a number, its gap, two towns, two codes


@pytest.mark.parametrize("shape", [(3, 4), (3, 1, 2, 2)])
def test_other_inputs_are_rows_as_stored(shape):
    x = np.arange(12, dtype=np.uint8).reshape(shape)
    assert flatten(x).shape == (3, 4)
    assert flatten(x).dtype == np.uint8
    assert flatten(np.array([[1.0, np.nan]])).tolist() == [[1.0, 0.0]]
