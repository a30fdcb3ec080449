"""What a header can hold of texts and numbers, and what is refused before anything is computed."""

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from codebound.bounds.risk import check_delta
from codebound.known.score_tables import ScoreTable
from codebound.run.errors import DataError, UsageError
from codebound.sample.arrays import from_arrays
from codebound.sample.dataset import MAX_CHARACTERS, Made, integers, printable, whole
from codebound.sample.order import Design, arrange

SCORES = np.eye(2)[[0, 1, 1, 0]]


def test_names_that_were_made_here_fit_a_header():
    assert printable("Gr\xf6\xdfe\n~") == r"Gr\xf6\xdfe\n~"
    made = Made("\u4e2d" * MAX_CHARACTERS, "data", 0, "")
    assert (made.by[:12], len(made.by), made.of) == (r"\u4e2d\u4e2d", MAX_CHARACTERS, "data")


@pytest.mark.parametrize("text", ["Gr\xf6\xdfe", "x" * 401, "two\nlines", None])
def test_texts_of_a_user_are_refused(text):
    for make in (
        lambda: ScoreTable(SCORES, text, "data"),
        lambda: ScoreTable(SCORES, "somebody", text),
        lambda: Design(salt="ab" * 32, seal=text or "\xe9"),
    ):
        with pytest.raises(UsageError, match="printable ASCII"):
            make()


@pytest.mark.parametrize("picks", [[2, 1], [1, 1], [-1, 2], [1, 4]])
def test_picks_are_rising_places(picks):
    assert ScoreTable(SCORES.tolist(), "a", "b", np.int64(2), [0, 3]).arrays["picks"].dtype == np.int64
    with pytest.raises(DataError, match="rising places of rows, from 0 to 3"):
        ScoreTable(SCORES, "a", "b", picks=picks)


def test_numbers_become_those_of_python():
    assert type(whole("rows", np.int64(5))) is int
    assert type(ScoreTable(SCORES, "a", "b", rows=np.uint8(1)).rows) is int
    for other in (5.0, "5", None, np.float32(5)):
        with pytest.raises(UsageError, match="a whole number"):
            whole("rows", other)
    assert [type(check_delta(each)) for each in (np.float32(0.05), Fraction(1, 20))] == [float, float]
    for other in ("0.05", None, np.nan, 1, np.array([0.05])):
        with pytest.raises(UsageError, match="failure probability"):
            check_delta(other)


@pytest.mark.parametrize("of", [list, tuple, pd.Series, lambda each: np.array(each, np.int32)])
def test_clusters_and_groups_are_whatever_holds_integers(of):
    sample, numbers = from_arrays([[0.5], [1.5], [2.5]], [0, 1, 0], name="three"), [4, 4, 1]
    for design in (Design(groups=of(numbers)), Design("clusters", "independent", clusters=of(numbers))):
        found = arrange(sample, design).design
        given = found.groups if found.clusters is None else found.clusters
        assert (given.tolist(), given.dtype) == (numbers, np.int64)
    assert integers("picks", []).dtype == np.int64
    for other in ([0.5, 1.0], ["a", "b"], [[1], [2]], 3):
        with pytest.raises(DataError, match="must be integers"):
            Design(groups=other)
