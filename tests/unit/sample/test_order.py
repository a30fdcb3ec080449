"""The order of rows, the known share and copies, against the page written out with bytes, row by row."""

import hashlib
from itertools import pairwise

import numpy as np
import pytest
from certificate_counts import Sample as OnPage
from hypothesis import given
from hypothesis import strategies as st

from codebound.run.errors import DataError, UsageError
from codebound.sample.arrays import from_arrays
from codebound.sample.columns import text_cells
from codebound.sample.dataset import Sample
from codebound.sample.order import SHARES, Design, arrange, coded_share, usual_share

SALT = "5a" * 32
DTYPES = ("uint8", "float32", "float64", "cells")


def sample_of(values, labels, dtype="float64"):
    """Few different inputs of two columns, with 0.0 and -0.0, gaps and words."""
    if dtype == "cells":
        kinds = np.concatenate([[0.0, -0.0, 1.5, np.nan], text_cells(["red", "blue"])])
        x = np.stack([kinds[np.array(values) % 6], np.zeros(len(values))], axis=1)
    else:
        kinds = np.array([0.0, -0.0, 1.0, 2.0, 3.0, 4.0])
        x = np.stack([kinds[np.array(values) % 6], np.ones(len(values))], axis=1)
        x = (abs(x) if dtype == "uint8" else x).astype(dtype)
    return Sample("t", "train", x, np.array(labels), 3, is_cells=dtype == "cells")


def on_page(sample, design=None):
    """The same sample for the program of the tests, which goes by the page."""
    design = design or Design()
    names = ("order", "salt", "copies", "clusters", "groups")
    return OnPage(sample.x, sample.y, **{name: getattr(design, name) for name in names})


ROWS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 2), st.integers(0, 4)), min_size=1, max_size=14)


@given(ROWS, st.sampled_from(DTYPES), st.booleans(), st.booleans())
def test_rows_are_sorted_by_their_keys(rows, dtype, is_salted, has_groups):
    values, labels, groups = zip(*rows, strict=True)
    sample, numbers = sample_of(values, labels, dtype), np.array(groups) if has_groups else None
    design = Design(groups=numbers, **({"salt": SALT, "seal": "s"} if is_salted else {}))
    found, wanted = arrange(sample, design), on_page(sample, design)
    inputs = wanted.inputs
    assert [bytes(each) for each in found.keys] == wanted.keys
    assert found.places.tolist() == sorted(range(sample.n), key=wanted.keys.__getitem__)
    pairs = [(i, j) for i in range(sample.n) for j in range(sample.n)]
    assert all((found.inputs[i] == found.inputs[j]) == (inputs[i] == inputs[j]) for i, j in pairs)
    for t in range(sample.n + 1):
        known, counted = found.split(t)
        assert (known.tolist(), counted.tolist()) == (found.places[:t].tolist(), sorted(found.places[t:]))


@given(ROWS, st.randoms(use_true_random=False), st.sampled_from(["rows", "clusters"]))
def test_another_order_of_the_file_changes_nothing(rows, random, order):
    values, labels, others = map(np.array, zip(*rows, strict=True))
    shuffled = np.array(random.sample(range(len(rows)), len(rows)))
    renamed = np.array(random.sample(range(5), 5))

    def content(places, numbers):
        """Rows in the order, sizes of all shares, and the rows that are chosen behind each."""
        sample = sample_of(values[places], labels[places])
        rows = list(zip(sample.x[:, 0].tolist(), sample.y.tolist(), strict=True))
        if order == "rows":
            found = arrange(sample, Design(groups=numbers[places]))
            return [(rows[i], others[places][i]) for i in found.places]
        found = arrange(sample, Design(order="clusters", copies="independent", clusters=numbers[places]))
        cuts = [found.split(t) for t in range(found.units)]
        chosen = [sorted(rows[i] for i in found.one_row(counted)) for _, counted in cuts]
        return [rows[i] for i in found.places], [len(known) for known, _ in cuts], chosen

    numbers = others if order == "rows" else renamed[others]
    assert content(np.arange(len(rows)), others) == content(shuffled, numbers)


@given(ROWS, st.booleans())
def test_clusters_are_sorted_by_the_keys_of_their_rows(rows, is_salted):
    values, labels, clusters = zip(*rows, strict=True)
    sample, salted = sample_of(values, labels), {"salt": SALT, "seal": "s"} if is_salted else {}
    design = Design(order="clusters", copies="independent", clusters=np.array(clusters), **salted)
    found, wanted = arrange(sample, design), on_page(sample, design)
    blocks = wanted.blocks
    assert found.places.tolist() == [i for _, block in blocks for i in block]
    assert [bytes(each) for each in found.cluster_keys] == [each for each, _ in blocks]
    assert found.units == len(blocks)
    for t in range(len(blocks) + 1):
        known, counted = found.split(t)
        assert known.tolist() == [i for _, block in blocks[:t] for i in block]
        assert found.one_row(counted).tolist() == wanted.one_row(t)


def test_the_chosen_row_is_not_that_of_the_smallest_key_in_every_cluster():
    """With a key of the row alone clusters that share rows would choose the same one."""
    n = 60
    sample = sample_of(np.tile([2, 3, 4], n // 3), np.zeros(n, int))
    design = Design(order="clusters", copies="independent", clusters=np.repeat(np.arange(n // 3), 3))
    found = arrange(sample, design)
    chosen = sample.x[found.one_row(np.arange(n)), 0]
    assert set(chosen) == {1.0, 2.0, 3.0}


@given(ROWS, st.sampled_from(["rows", "file"]))
def test_a_share_of_repeated_rows_grows_to_the_end_of_an_input(rows, order):
    values, labels, _ = zip(*rows, strict=True)
    sample, design = sample_of(values, labels), Design(order=order, copies="repeated")
    found, wanted = arrange(sample, design), on_page(sample, design)
    inputs = wanted.inputs
    assert found.places.tolist() == wanted.split(0)[1]
    for t in range(sample.n + 1):
        known, counted = found.split(t)
        assert len(known) == found.cut(t) >= t
        if order == "rows":
            assert not {inputs[i] for i in known} & {inputs[i] for i in counted}
            before = {inputs[i] for i in known[:t]}
            assert {inputs[i] for i in known} == before
        else:
            assert len(known) == t


def test_copies_share_nothing_that_a_seed_or_a_salt_could_move_alone():
    sample = sample_of(range(12), [0] * 12)
    plain, salted = (arrange(sample, Design(**each)) for each in ({}, {"salt": SALT, "seal": "s"}))
    assert plain.places.tolist() != salted.places.tolist()


@pytest.mark.parametrize(
    "options",
    [
        {"order": "random"},
        {"copies": "some"},
        {"order": "clusters"},
        {"clusters": np.zeros(2, int)},
        {"clusters": np.zeros(2, int), "order": "clusters"},
        {"salt": SALT},
        {"seal": "s"},
        {"salt": "5A" * 32, "seal": "s"},
    ],
)
def test_designs_that_say_two_things_are_refused(options):
    with pytest.raises(UsageError):
        Design(**options)


@pytest.mark.parametrize(
    "numbers", [np.zeros(3, int), np.zeros(2), np.array([0, -1]), np.array([0, 1 << 32])]
)
def test_numbers_of_groups_are_one_for_each_row(numbers):
    with pytest.raises(DataError, match="groups"):
        arrange(sample_of([0, 1], [0, 0]), Design(groups=numbers))


def test_the_record_is_what_a_header_has():
    design = Design(order="clusters", copies="independent", clusters=np.array([3, 0]))
    content = b"int64|2|" + (3).to_bytes(8, "little") + bytes(8)
    assert design.as_record() == {
        "order": "clusters",
        "copies": "independent",
        "salt": "",
        "seal": "",
        "clusters": hashlib.sha256(content).hexdigest(),
        "groups": None,
    }


@pytest.mark.parametrize(
    ("n", "is_rule", "t"),
    [
        (1, True, 0),
        (1999, True, 999),
        (2000, True, 1000),
        (2500, True, 1500),
        (9999, False, 5999),
        (10_000, False, 6000),
        (49_999, True, 10_000),
        (49_999, False, 34_999),
        (50_000, False, 35_000),
        (80_000, False, 64_000),
        (1 << 32, True, 10_000),
    ],
)
def test_the_usual_share(n, is_rule, t):
    assert usual_share(n, is_rule=is_rule) == t


def test_a_row_more_never_counts_for_less():
    for is_rule in (True, False):
        counted = [n - usual_share(n, is_rule=is_rule) for n in range(1, 90_000)]
        assert all(a <= b for a, b in pairwise(counted))


def test_coded_shares():
    assert [coded_share(i, 1999) for i in range(16)] == [
        999,
        *(i * 1999 // 10 for i in range(1, 10)),
        *SHARES,
    ]


def test_a_share_of_more_rows_than_there_are_is_refused():
    found = arrange(from_arrays(np.zeros((3, 1)), [0, 0, 1], name="t"), Design())
    with pytest.raises(UsageError, match="4 of 3"):
        found.split(4)
    with pytest.raises(UsageError, match="clusters"):
        found.one_row(np.arange(3))
