"""The file of dictionaries, and features of images in parts and in extremes; evaluation has the numbers."""

import hashlib
from pathlib import Path

import numpy as np
import pytest
import torch

import codebound_verify
from codebound_verify.learn import dictionaries
from codebound_verify.networks import operations
from codebound_verify.networks.chain import fit
from codebound_verify.networks.images import features
from codebound_verify.networks.operations import Operation
from codebound_verify.networks.rounding import Rounded
from codebound_verify.refusal import Refused

FILE = Path(codebound_verify.__file__).parent / "dictionaries.json"
LAST = Operation("linear", out=4)


def computed(number, pool, x) -> np.ndarray:
    return features(number, pool, Rounded(torch.from_numpy(x), torch.zeros(len(x)))).values.numpy()


@pytest.mark.parametrize("number", [1, 3])
@pytest.mark.parametrize(("shape", "pool"), [((1, 9, 7), 2), ((3, 6, 8), 3)])
def test_convolutions_are_computed_in_parts(number, shape, pool, monkeypatch):
    x = np.random.default_rng(0).normal(size=(4, *shape))
    wanted = computed(number, pool, x)
    assert wanted.shape == (4, shape[0] * 17, shape[1] // pool, shape[2] // pool)
    np.testing.assert_allclose(wanted.mean(axis=(1, 2, 3)), 0, atol=1e-12)
    for cached in (1, 1000):
        monkeypatch.setattr(operations, "CACHED", cached)
        np.testing.assert_allclose(computed(number, pool, x), wanted, rtol=1e-11, atol=1e-12)


def test_what_is_not_finite_stays_so():
    """Such an example is an error: lengths must not hide that a square overflows."""
    for value in (np.nan, np.inf, 1e200):
        x = np.zeros((2, 1, 4, 4))
        x[0, 0, 1, 1] = value
        found = computed(1, 2, x)
        assert not np.isfinite(found[0]).all()
        assert np.isfinite(found[1]).all()


def test_the_file_is_that_of_the_page_and_in_its_unit():
    page = Path(__file__).parents[4] / "docs/format.md"
    assert hashlib.sha256(FILE.read_bytes()).hexdigest() == dictionaries.SHA256
    assert dictionaries.SHA256 in page.read_text()
    for number in (1, 3):
        for table in dictionaries.tables(number):
            assert table.size % 2 == 1
            assert np.array_equal(table.filters * 4096, np.round(table.filters * 4096))


def test_another_file_is_refused(tmp_path, monkeypatch):
    changed = tmp_path / "dictionaries.json"
    changed.write_bytes(FILE.read_bytes().replace(b"1174", b"1175", 1))
    monkeypatch.setattr(dictionaries, "FILE", changed)
    dictionaries._read.cache_clear()
    with pytest.raises(Refused, match="damaged"):
        dictionaries.tables(1)
    monkeypatch.undo()
    assert dictionaries.tables(1)


@pytest.mark.parametrize(("kind", "count", "side"), [(1, 2, 331), (2, 5, 209), (3, 1, 468), (4, 5, 209)])
def test_the_multiplications_of_all_views_count(kind, count, side):
    """Table 1: 8 complex filters of 81 taps, 8 of 225; then 17 channels and 4 classes."""

    def work(side):
        return count * (2 * 8 * (81 + 225) * side**2 + 4 * 17 * (side // 9) ** 2)

    def chain(side):
        before = [Operation("views", views=kind), Operation("dictionary", table=1, pool=9)]
        return fit([*before, LAST], (1, side, side), 4)

    assert work(side) <= 2**30 < work(side + 1)
    assert chain(side).work == work(side)
    with pytest.raises(Refused, match="multiplications"):
        chain(side + 1)
