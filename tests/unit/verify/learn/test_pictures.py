"""Pictures and their copies, against a slow reading of the page one pixel at a time."""

import numpy as np
import picked_oracle as oracle
import pytest
from drawing import examples
from hypothesis import given
from hypothesis import strategies as st

from codebound_verify.learn import pictures


def drawn(shape, seed: int = 0) -> np.ndarray:
    """Random pictures, and among them dark, bright and sparse ones."""
    random = np.random.default_rng(seed)
    found = random.integers(0, 256, shape)
    found[0], found[1] = 0, 255
    found[2] *= random.random(shape[1:]) < 0.2
    return found.astype(np.uint8)


@pytest.mark.parametrize("shape", [(6, 1, 8, 8), (5, 3, 5, 7), (4, 1, 3, 12)])
@pytest.mark.parametrize(
    ("own", "slow"),
    [
        (pictures.straightened, oracle.straightened),
        (pictures.mirrored, oracle.mirrored),
        (lambda x: pictures.moved(x, 1, -1), lambda x: oracle.moved(x, 1, -1)),
        (lambda x: pictures.moved(x, 0, 1), lambda x: oracle.moved(x, 0, 1)),
        (lambda x: pictures.turned(x, 178), lambda x: oracle.turned(x, 178)),
        (lambda x: pictures.turned(x, -178), lambda x: oracle.turned(x, -178)),
        (lambda x: pictures.turned(x, 900), lambda x: oracle.turned(x, 900)),
    ],
)
def test_every_pixel(shape, own, slow):
    x = drawn(shape)
    assert own(x).tolist() == [slow(picture) for picture in x.tolist()]


def test_turning_by_nothing_changes_nothing():
    x = drawn((4, 1, 6, 5))
    assert (pictures.turned(x, 0) == x).all()


@pytest.mark.parametrize("number", [0, 2, 3, 4, 5, 6, 7])
def test_copies_and_their_order(number):
    x = drawn((3, 3, 6, 5))
    found = np.stack(pictures.copied(x, number), axis=1)
    assert found.tolist() == [oracle.copies(picture, number) for picture in x.tolist()]


@examples(100)
@given(st.floats(-1e300, 1e300), st.floats(1e-3, 1e3))
def test_levels(x, divisor):
    assert pictures.levels(np.array([x]), divisor).tolist() == [oracle.level(x, divisor)]


def test_all_stored_bytes_are_their_own_level():
    x = np.arange(256, dtype=np.uint8)
    assert (pictures.levels(x, 255.0) == x).all()
