"""The order of format 1.0 against that of the program of the tests, and what may change nothing."""

from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from certificate_counts import Sample as OtherSample
from certificate_counts import hash_of
from certificate_reader import Refused as NotAccepted

from codebound_verify.order import arrange, coded_share, count_shared, usual_share
from codebound_verify.refusal import Refused
from codebound_verify.sample import Data, cell


def arranged(x, y, *, t=0, order="rows", copies="any", salt="", clusters=None, groups=None, cells=False):
    named = [None if each is None else hash_of(np.asarray(each, np.int64)) for each in (clusters, groups)]
    sample = SimpleNamespace(order=order, copies=copies, salt=salt, clusters=named[0], groups=named[1])
    header = SimpleNamespace(sample=sample, known=SimpleNamespace(rows=t))
    return arrange(Data(x, np.asarray(y, np.int64), cells), header, clusters, groups)


def small_sample(random, kind):
    n = int(random.integers(4, 30))
    x = random.integers(0 if kind == np.uint8 else -1, 2, (n, int(random.integers(1, 3)))).astype(kind)
    if kind != np.uint8:
        x *= np.where(random.random(x.shape) < 0.5, -1, 1).astype(kind)  # zeros of both signs
    return x, random.integers(0, 2, n)


@pytest.mark.parametrize("order", ["rows", "clusters", "file"])
@pytest.mark.parametrize("kind", [np.uint8, np.float32, np.float64])
def test_the_order_is_that_of_another_program(order, kind):
    random, refused = np.random.default_rng(5), 0
    for trial in range(40):
        x, y = small_sample(random, kind)
        copies = ("independent", "any", "repeated")[0 if order == "clusters" else trial % 3]
        clusters = random.integers(0, len(y), len(y)) + 7 if order == "clusters" else None
        groups = random.integers(3, 5, len(y)) if trial % 2 else None
        t = int(random.integers(0, 3))
        told = {"order": order, "copies": copies, "clusters": clusters, "groups": groups}
        told["salt"] = "ab" * 32 if trial % 5 == 0 else ""
        wanted = OtherSample(x, y, **told)
        try:
            known, counted = wanted.split(t)
        except NotAccepted:
            refused += 1
            with pytest.raises(Refused):
                arranged(x, y, t=t, **told)
            continue
        found = arranged(x, y, t=t, **told)
        assert found.places.tolist() == known + counted
        assert found.known.tolist() == known
        assert found.counted.tolist() == sorted(counted)
        assert clusters is None or found.one_row.tolist() == wanted.one_row(t)
        same = found.inputs[:, None] == found.inputs
        assert (same == (x[:, None] == x).all(axis=2)).all()  # by value: 0.0 is -0.0
        assert found.units == (len(y) if clusters is None else len(np.unique(clusters)))
    assert refused < 20


def share(x, y, **options):
    found = arranged(x, y, **options)
    return [(x[i].tobytes(), int(y[i])) for i in found.known]


def test_writing_the_file_in_another_order_and_renumbering_clusters_change_nothing():
    random = np.random.default_rng(0)
    x, y, c = random.integers(0, 3, (60, 2)).astype(np.uint8), random.integers(0, 2, 60), np.arange(60) // 3
    other = random.permutation(60)
    for copies in ("any", "repeated"):
        assert share(x, y, t=20, copies=copies) == share(x[other], y[other], t=20, copies=copies)
    options = {"t": 7, "order": "clusters", "copies": "independent"}
    usual = share(x, y, clusters=c, **options)
    assert usual == share(x[other], y[other], clusters=c[other], **options)
    assert usual == share(x, y, clusters=1000 - c**2, **options)
    assert usual != share(x, y, clusters=c, salt="00" * 32, **options)


def test_the_known_share_grows_over_copies_of_its_last_row_alone():
    x = np.array([[3], [3], [3], [5], [5], [9]], np.uint8)
    y = np.array([0, 1, 0, 0, 0, 0])
    places = arranged(x, y, copies="repeated").places
    ends = np.cumsum([3 if value == 3 else 2 if value == 5 else 1 for value in dict.fromkeys(x[places, 0])])
    for t in range(6):
        grown = 0 if t == 0 else int(ends[np.searchsorted(ends, t)])
        if grown == 6:
            with pytest.raises(Refused, match="nothing is left"):
                arranged(x, y, t=t, copies="repeated")
            continue
        found = arranged(x, y, t=t, copies="repeated")
        assert len(found.known) == grown
        assert (
            len(arranged(x, y, t=t).known)
            == len(arranged(x, y, t=t, order="file", copies="repeated").known)
            == t
        )


def test_cells_are_equal_by_their_patterns():
    words = [cell(None), cell("a"), cell(" a "), cell("b"), cell(0.0), cell(-0.0), cell("")]
    found = arranged(np.array(words)[:, None], np.zeros(7), t=1, cells=True)
    assert len(set(found.inputs.tolist())) == 5
    assert found.inputs[1] == found.inputs[2]
    assert found.inputs[4] == found.inputs[5]


def test_usual_shares_never_leave_less_for_a_row_more():
    told = {1999: 999, 2000: 1000, 2500: 1500, 9999: 5999, 10_000: 6000, 50_000: 35_000, 75_000: 60_000}
    assert {n: usual_share(n, is_rule=False) for n in told} == told
    assert [usual_share(n, is_rule=True) for n in (1999, 10_000, 60_000)] == [999, 6000, 10_000]
    left = [n - usual_share(n, is_rule=False) for n in range(1, 80_000)]
    assert all(a <= b for a, b in pairwise(left))
    assert [coded_share(i, 1797) for i in (0, 1, 9, 10, 15)] == [898, 179, 1617, 100, 30_000]


def test_shared_inputs_are_counted_by_value_whatever_their_types():
    x = np.array([[0.0], [1.0]], np.float32)
    assert count_shared(x, np.array([[-0.0], [1], [1], [2]], np.float64)) == 3
    assert count_shared(x.astype(np.uint8), np.array([[-0.0], [0.5]], np.float32)) == 1
