"""Codes with helpers: what the page refuses is refused, by the writer too, before anything is computed."""

import tracemalloc

import cbound_writer as reference
import numpy as np
import pytest

from codebound.bits.plain_code import Bits
from codebound.run.errors import FormatError, UsageError
from codebound_networks.codes.modes import decode_tensors, encode_tensors
from codebound_networks.codes.tensors import Adaptive, Codebook, Dense, Raw, Static, Zero
from codebound_papers.compress.codes import Filled, Filling, LowRank, Mixed, Projected, Ticket


def written(*steps) -> Bits:
    """A message from the methods of the literal coder and their arguments: ``("gamma", 8), ...``."""
    coder = reference.Coder()
    for name, *values in steps:
        getattr(coder, name)(*values)
    bits = coder.end()
    return Bits(reference.pack_bits(bits), len(bits))


def projected_zero(count, *, rows=0):
    """The steps of a projected tensor of mode 8 whose integers are all zero."""
    return ("gamma", 8), ("bit", rows), ("bit", 0), ("gamma", count), ("gamma", 1), ("gamma", 2)


SEED, DENSE = ("gamma", 1), (("gamma", 3), ("signed", 0), ("gamma", 1))
ADAPTIVE = ("gamma", 1), ("signed", 0), ("gamma", 129), ("bit", 0), ("bit", 0), ("uniform", 0, 4)
SQUARE = (2**12, 2**12)
REFUSED = {
    "too many projections": ([SQUARE], projected_zero(2**16 + 1), "at most 65,536 projections"),
    "too much work": ([SQUARE], projected_zero(2**12 + 1), "products to decode"),
    "too much work together": ([SQUARE] * 2, (*projected_zero(2100), *projected_zero(2100)), "products"),
    "a large inner tensor": ([(2**20, 1)], projected_zero(2**5 + 1, rows=1), "2\\^25 elements"),
    "large inner tensors": ([(2**20, 1)] * 3, projected_zero(2**5, rows=1) * 3, "inner tensors of a message"),
    "a long inner tensor in the code word": (
        [(2**12, 2**12 + 1)],
        (("gamma", 11), ("uniform", 0, 3), SEED, *DENSE),
        "static",
    ),
    "a rank beyond the sizes": ([(3, 2, 2)], (("gamma", 9), ("gamma", 4)), "rank of a 3 x 4 matrix"),
    "a rank beyond 2^12": ([(2**12 + 1, 2**12 + 1)], (("gamma", 9), ("gamma", 2**12 + 1)), "rank"),
    "steps that add up to more than 1000": (
        [(1, 1)],
        (("gamma", 9), ("gamma", 1)) + 2 * (("gamma", 3), ("signed", 501), ("gamma", 1), ("uniform", 1, 3)),
        "add up",
    ),
    "steps that add up to less than -1000": (
        [(1, 1)],
        (("gamma", 9), ("gamma", 1)) + 2 * (("gamma", 3), ("signed", -501), ("gamma", 1), ("uniform", 1, 3)),
        "add up",
    ),
    "a filling of a huge step": (
        [(1,)],
        (("gamma", 10), ("gamma", 2), ("bit", 1), ("bit", 0), ("signed", 1001), ("signed", 0)),
        "a step lies",
    ),
    "a filling of a huge mean": (
        [(1,)],
        (("gamma", 10), ("gamma", 2), ("bit", 1), ("bit", 0), ("signed", 0), ("signed", 2**20 + 1)),
        "mean of a filling",
    ),
    "mixed without locations": ([(3,)], (("gamma", 12),), "locations"),
    "a large basis": ([(1, 1)], (("gamma", 12), ("gamma", 2**12 + 1), ("gamma", 1)), "at most 4096"),
    "many mixtures": ([(1, 1)], (("gamma", 12), ("gamma", 1), ("gamma", 2**12 + 1)), "at most 4096"),
    "mixtures beyond 2^53": (
        [(1, 1)],
        (("gamma", 12), ("gamma", 2**12), ("gamma", 2**12), SEED, *ADAPTIVE),
        "beyond 2\\^53",
    ),
    "much mixing": ([(2**13, 1)], (("gamma", 12), ("gamma", 2**12), ("gamma", 2**12), SEED), "products"),
    **{
        f"an inner tensor of mode {mode}": (
            [(2,)],
            (("gamma", 11), ("uniform", 0, 3), SEED, ("gamma", mode)),
            f"cannot have mode {mode}",
        )
        for mode in (5, 6, 8, 9, 10, 11, 12, 13)
    },
    "a seed without end": ([(2,)], (("gamma", 11), ("uniform", 0, 3), *[("bit", 0)] * 60), "gamma code"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_hostile_messages_are_refused_before_anything_is_allocated(name):
    shapes, steps, because = REFUSED[name]
    bits = written(*steps)
    tracemalloc.start()
    try:
        with pytest.raises(FormatError, match=because):
            decode_tensors(bits, shapes)
        assert tracemalloc.get_traced_memory()[1] < 2**27  # a blank tensor of the code word, at most
    finally:
        tracemalloc.stop()


def levels(*shape):
    return np.ones(shape, dtype=np.int32)


UNWRITABLE = {
    "projections": lambda: Projected((2,), Zero((1, 2**16 + 1)), by_rows=False, gaussian=False, seed=0),
    "work": lambda: Projected(SQUARE, Zero((1, 2**13)), by_rows=False, gaussian=False, seed=0),
    "seed": lambda: Ticket(Zero((2,)), kind=0, seed=-1),
    "long seed": lambda: Ticket(Zero((2,)), kind=0, seed=2**41),
    "kind": lambda: Ticket(Zero((2,)), kind=3, seed=0),
    "rank": lambda: LowRank((1, 2), Zero((1, 2)), Zero((2, 2))),
    "steps": lambda: LowRank((1, 1), Dense(levels(1, 1), 600, 1), Dense(levels(1, 1), 600, 1)),
    "filling step": lambda: Filled(Zero((2,)), Filling(everywhere=True, step=-1001, mean=0, seed=0)),
    "filling mean": lambda: Filled(Zero((2,)), Filling(everywhere=True, step=0, mean=-(2**21), seed=0)),
    "basis": lambda: Mixed((2, 2), Zero((2**12 + 1,)), mixes=1, seed=0),
    "mixes": lambda: Mixed((2, 2), Zero((2,)), mixes=0, seed=0),
    "sums": lambda: Mixed((2, 2), Adaptive(levels(2**11), 0, 2**12), mixes=2**12, seed=0),
    "locations": lambda: Mixed((2,), Zero((2,)), mixes=1, seed=0),
    "vectors": lambda: Projected((3, 4), Zero((4, 2)), by_rows=True, gaussian=False, seed=0),
    "a vector": lambda: Projected((3, 4), Zero((1,)), by_rows=False, gaussian=False, seed=0),
    "factors": lambda: LowRank((3, 4), Zero((3, 2)), Zero((3, 4))),
    "a matrix of mixtures": lambda: Mixed((3, 4), Zero((1, 2)), mixes=1, seed=0),
    "floats inside": lambda: Filled(Raw(np.ones(2, dtype=np.float32)), None),
    "a codebook inside": lambda: Ticket(
        Codebook(np.zeros(2, dtype=np.int32), np.ones(1, dtype=np.float32)), kind=0, seed=0
    ),
    "a helper inside": lambda: Filled(Filled(Zero((2,)), None), None),
}


@pytest.mark.parametrize("name", UNWRITABLE)
def test_what_the_format_does_not_allow_is_not_written(name):
    with pytest.raises(UsageError) as caught:
        encode_tensors([UNWRITABLE[name]()])
    assert len(str(caught.value)) > 20


def spike(limit):
    """A table in which 1 has all the frequency."""
    table = np.zeros(2 * limit + 1, dtype=np.int64)
    table[limit + 1] = 2**16
    return table


@pytest.mark.thorough
def test_sums_at_the_limit_are_written_and_read():
    """The refusals have teeth on the other side: 2^10 k b^2 L = 2^53 is allowed."""
    assert 2**10 * 2**12 * (2**11) ** 2 * 2**9 == 2**53
    code = Mixed((1, 3), Static(levels(2**11), 0, 2**9, table=spike(2**9)), mixes=2**12, seed=0)
    (decoded,) = decode_tensors(encode_tensors([code]), [(1, 3)])
    assert decoded.weights().tobytes() == code.weights().tobytes()


def test_mixtures_are_exact_up_to_their_limit():
    z = np.random.default_rng(0).integers(-(2**12), 2**12 + 1, 300).astype(np.int32)
    code = Mixed((2, 5), Adaptive(z, 0, 2**12), mixes=40, seed=9)
    expected = reference.mixed((2, 5), reference.adaptive(z, limit=2**12), mixes=40, seed=9)
    assert np.abs(expected.values).max() > 2**24
    assert code.values().tobytes() == expected.values.tobytes()


def test_products_of_factors_are_exact():
    rng = np.random.default_rng(0)
    left, right = (rng.integers(2**20 - 9, 2**20 + 1, (99, 99)).astype(np.int32) for _ in range(2))
    code = LowRank((99, 99), Dense(left, 0, 2**20), Dense(right, 0, 2**20))
    expected = left.astype(object) @ right.astype(object)
    assert code.values().astype(np.int64).tolist() == expected.tolist()
    assert int(expected.max()) > 2**46


def test_groups_of_locations_change_no_bit(monkeypatch):
    z = np.arange(-3, 4, dtype=np.int32)
    code = Mixed((7, 2, 3), Dense(z, -5, 3), mixes=3, seed=2)
    expected = reference.mixed((7, 2, 3), reference.dense(z, -5), mixes=3, seed=2).values
    for group in (1, 42, 63, 1 << 20):
        monkeypatch.setattr("codebound_papers.compress.codes._GROUP", group)
        assert code.values().tobytes() == expected.tobytes()


def test_a_filling_is_a_gaussian_of_64_steps():
    code = Filled(Zero((100, 300)), Filling(everywhere=False, step=-48, mean=64, seed=1))
    assert abs(code.values().mean() - 1.0) < 0.03
    assert abs(code.values().std() - 1.0) < 0.02


def test_a_projected_difference_has_a_base():
    """K-MP0 is K-MP on the difference to a base, added before the one rounding."""
    code = Projected((2, 3), Dense(np.array([[1, -2]], np.int32), -8 * 30, 2), False, False, seed=4)
    base = np.ones((2, 3), dtype=np.float32)
    assert (code.weights(base=base) == base).all()
    assert code.weights().any()
