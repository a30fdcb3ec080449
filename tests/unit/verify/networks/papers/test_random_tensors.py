"""Modes 8 to 12 in small parts and at their limits; test_tensors has their numbers."""

import itertools

import numpy as np
import pytest
from code_writer import encoded, packed
from drawing import examples
from hypothesis import given
from hypothesis import strategies as st

from codebound_verify.message import Bits
from codebound_verify.networks.arithmetic import Decoder, Witness
from codebound_verify.networks.papers import random_tensors
from codebound_verify.networks.papers.random_tensors import RightFactor, product
from codebound_verify.networks.tensors import read_tensor, to_float32
from codebound_verify.refusal import Refused


def decoder_of(*steps) -> Decoder:
    return Decoder(Bits(*packed(encoded(*steps))), Witness(b""))


def dense(*shape, limit=2**20, seed=0) -> list:
    """An inner tensor of mode 3, with a step of 1."""
    values = np.random.default_rng(seed).integers(0, 2 * limit + 1, shape).ravel()
    return [3, 1, limit, *((int(value), 2 * limit + 1) for value in values)]


LARGER = {  # tensors with more elements than the smallest tiles and blocks
    "projected": ([8, "00", 6, 1, *dense(1, 6)], (5, 3, 71)),
    "projected rows": ([8, "10", 6, 2, *dense(5, 6)], (5, 3, 71)),
    "gaussian": ([8, "01", 6, 3, *dense(1, 6)], (5, 3, 71)),
    "gaussian rows": ([8, "11", 6, 4, *dense(5, 6)], (5, 3, 71)),
    "low rank": ([9, 4, *dense(5, 4), *dense(4, 213, seed=1)], (5, 3, 71)),
    "filled": ([10, *dense(3, 99, limit=1), "10", 6, 81, 9], (3, 99)),
    "filled everywhere": ([10, *dense(3, 99, limit=1), "11", 6, 81, 9], (3, 99)),
    **{f"ticket {kind}": ([11, (kind, 3), 1, *dense(3, 99)], (3, 99)) for kind in range(3)},
    "mixed": ([12, 5, 7, 5, *dense(5)], (5, 3, 71)),
}


@pytest.mark.parametrize("name", LARGER)
def test_borders_of_tiles_and_blocks_change_nothing(name, monkeypatch):
    steps, shape = LARGER[name]

    def read():
        recipe = read_tensor(decoder_of(*steps), shape)
        return to_float32(recipe.make(*recipe.parts), shape, None)

    expected = read()
    assert len(np.unique(expected)) > 2
    for tile, block in itertools.product((64, 128, 300), (1, 10, 40)):
        monkeypatch.setattr(random_tensors, "TILE", tile)
        monkeypatch.setattr(random_tensors, "BLOCK", block)
        assert read().tobytes() == expected.tobytes()


@given(st.integers(1, 2**20), st.integers(1, 40), st.integers(1, 2**12))
@examples(50)
def test_products_are_exact_up_to_the_largest_sums(largest, rows, terms):
    """All terms of one sign and as large as they can be, then one of them smaller by one."""
    left = np.full((rows, terms), largest, np.int32)
    left[:, -1] -= 1
    right = RightFactor(2**20, lambda first, stop, _: np.full((stop - first, 3), 2**20, np.int32))
    assert set(product(left, right, 3).ravel()) == {(largest * terms - 1) * 2**20}


def test_sums_that_float32_cannot_hold_are_made_in_float64(monkeypatch):
    """Teeth: with a wrong limit of float32 the same sums come out wrong."""
    left = np.full((1, 3), 2**20 - 1, np.int32)
    right = RightFactor(2**20, lambda first, stop, _: np.full((stop - first, 1), 2**20 - 1, np.int32))
    exact = 3 * (2**20 - 1) ** 2
    assert product(left, right, 1)[0, 0] == exact
    monkeypatch.setattr(random_tensors, "EXACT32", 2**60)
    assert product(left, right, 1)[0, 0] != exact


def test_an_integer_has_no_minus_zero():
    recipe = read_tensor(decoder_of(11, (0, 3), 1, 2), (200,))
    assert not np.signbit(to_float32(recipe.make(*recipe.parts), (200,), None)).any()


AT_THE_LIMIT = {  # numbers and shape of a tensor that takes all the work there may be
    "projected": ((8, "00", 2**11, 1, 2), (2**10, 2**15)),
    "gaussian": ((8, "11", 2**14, 1, 2), (2**10 - 16, 2**12)),
    "low rank": ((9, 2**11, 2, 2), (2**12, 2**13)),
    "mixed": ((12, 2**11, 2**9, 1, 2), (2**10, 2**15 - 2**13)),
    "block": ((7, 1, 1, 1, 2**16 + 1, 1, (0, 13)), (2**23,)),
}
MORE = {
    "projected": (8, "00", 1, 1, 2),
    "low rank": (9, 1, 2, 2),
    "filled": (10, 2),
    "ticket": (11,),
    "mixed": (12, 1, 1, 1, 2),
}


@pytest.mark.few(10)
@pytest.mark.parametrize("first", AT_THE_LIMIT)
@pytest.mark.parametrize("second", MORE)
def test_work_is_limited_before_it_is_done(first, second):
    values, shape = AT_THE_LIMIT[first]
    decoder = decoder_of(*values, *MORE[second])
    read_tensor(decoder, shape)
    with pytest.raises(Refused, match="multiplications that make its tensors are more than 68719476736"):
        read_tensor(decoder, (1, 1))
