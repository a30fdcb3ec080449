"""Attacks through sketched tensors (mode 13): a decoder proves what it decodes, in bounded time."""

import time

import cbound_writer as writer
import numpy as np
import pytest
from attack.crafting import (
    X,
    Y,
    accepted_by_both,
    behind,
    both,
    flipped,
    numbers,
    refused,
    refused_at_once,
    refused_by_both,
    sealed,
)

CHAIN = [["linear", 6, False], ["linear", 6, False], ["linear", 3, False]]  # the middle one is 6 x 6


def around(middle: writer.Tensor, operations=CHAIN, *, version=2) -> writer.Message:
    """The middle tensor between two of zeros."""
    first, last = writer.zero((6, 4)), writer.zero((3, 6))
    tensors = {"0.weight": first, "1.weight": middle, "2.weight": last}
    return writer.Message(operations, tensors, version=version)


def searched(middle: writer.Tensor) -> bytes:
    """A file of version 1: it has no witness, so that a decoder looks for the proof itself."""
    message = around(middle, version=1)
    return writer.write_first(message, writer.header(message, X, Y, errors=len(Y), classes=3))


def matrix(**entries: int) -> np.ndarray:
    """A 6 x 6 matrix by its non-zeros: ``rRcC=value``."""
    x = np.zeros((6, 6), int)
    for place, value in entries.items():
        x[int(place[1]), int(place[3])] = value
    return x


def sketched(x: np.ndarray, code=writer.dense, *, m=4, seed=1) -> writer.Tensor:
    y = writer.sketch_of(x, (m, m), t=2, seed=seed)
    return writer.sketched((6, 6), code(y, -3), t=2, x=x, seed=seed)


def sketch_alone(y: np.ndarray, *, seed=1) -> writer.Tensor:
    """A sketch whose matrix the writer does not know."""
    return writer.sketched((6, 6), writer.dense(y, -3), t=2, seed=seed)


TRUE = {
    "one": sketched(matrix(r0c0=-3)),
    "adaptive": sketched(matrix(r2c3=1), writer.adaptive),
    "enumerative": sketched(matrix(r5c5=2**18), writer.enumerative),
    "in a block": sketched(matrix(r1c4=7), writer.static),
    "as wide as the matrix": sketched(matrix(r0c0=1, r1c2=-2, r5c5=9), m=6, seed=0),
    "zero": writer.sketched((6, 6), writer.zero((4, 4)), t=2, x=matrix()),
}


@pytest.mark.parametrize("name", TRUE)
def test_the_messages_that_are_attacked_are_true(name):
    accepted_by_both(around(TRUE[name]))


@pytest.mark.parametrize("name", ["one", "as wide as the matrix", "zero"])
def test_without_a_witness_the_proof_is_found(name):
    """As files of version 1 ask for."""
    ours, theirs = both(searched(TRUE[name]))
    assert ours is not None
    assert ours == theirs == both(sealed(around(TRUE[name])))[0]


@pytest.mark.parametrize("name", ["one", "as wide as the matrix", "zero"])
def test_a_flipped_bit_never_gives_two_networks(name):
    """One program may find a proof that the other does not find; they never prove two matrices."""
    message = around(TRUE[name])
    for data in flipped(message, range(behind(message, 4), len(message.bits), 2)):
        ours, theirs = both(data)
        assert ours is None or theirs is None or ours == theirs


FORBIDDEN = {
    "more rows than the matrix": (numbers(13, 7), "m1 of rows of a sketch is 7"),
    "more columns than the matrix": (numbers(13, 4, 7), "m2 of columns of a sketch is 7"),
    "seventeen ones": (numbers(13, 4, 4, 17), "t of ones is 17"),
    "more ones than rows": (numbers(13, 2, 6, 3, 1, 2), "6 columns of 2 numbers with 3 ones"),
    "fewer different columns than there are, left": (numbers(13, 3, 6, 2, 1, 2), "6 columns of 3 numbers"),
    "fewer different columns than there are, right": (numbers(13, 6, 3, 2, 1, 2), "6 columns of 3 numbers"),
    "one different column": (numbers(13, 6, 6, 6, 1, 2), "6 columns of 6 numbers with 6 ones"),
    "a sketch in a sketch": (numbers(13, 4, 4, 2, 1, 13), "inner tensor has mode 13"),
    "a seed of 42 digits": (numbers(13, 4, 4, 2, 2**41), "more than 41 binary digits"),
    "weights beyond float32": (
        writer.sketched(
            (6, 6), writer.dense(writer.sketch_of(matrix(r0c0=9), (4, 4), t=2), 1000), t=2, x=matrix(r0c0=9)
        ),
        "too large for float32",
    ),
}


@pytest.mark.parametrize("name", FORBIDDEN)
def test_what_the_page_forbids(name):
    middle, because = FORBIDDEN[name]
    refused_by_both(sealed(around(middle)), because)


def test_a_sketch_that_no_sparse_matrix_has():
    refused_by_both(searched(sketch_alone(np.random.default_rng(0).integers(-99, 100, (4, 4)))), "proven")


def test_a_sketch_that_no_integer_matrix_has():
    """The elements of a sketch of t = 2 add up to a multiple of four."""
    refused_by_both(searched(sketch_alone(np.eye(4, dtype=int)[::-1] * [1, 0, 0, 0])), "proven")


def two_smallest() -> list[np.ndarray]:
    """Columns {0, 1} and {2, 3} add up to the same as {0, 2} and {1, 3}."""
    right = writer.sketch_columns(1, "sketch/right", 4, 6, 2)
    found = np.zeros((2, 6, 6), int)
    for x, pair in zip(found, (([0, 1], [2, 3]), ([0, 2], [1, 3])), strict=True):
        x[2, [right.index(rows) for rows in pair]] = 1
    return list(found)


def test_a_sketch_with_two_smallest_matrices():
    """The page does not choose."""
    sketches = [writer.sketch_of(x, (4, 4), t=2, seed=1) for x in two_smallest()]
    assert (sketches[0] == sketches[1]).all()
    refused_by_both(searched(sketch_alone(sketches[0])), "proven")


HUGE = {  # sizes of the middle tensor, what is coded of it, and why it is refused
    "work of the elements": (2**11 + 1, 2**12, numbers(13, 16, 16, 5, 1, 2), "multiplications"),
    "work of the drawing": (2**10, 2**12, numbers(13, 2**10, 2**12, 5, 1, 2), "multiplications"),
    "a high matrix": (2**13 + 1, 2**4, numbers(13, 2**13, 2**4, 1, 1, 2), "is 8193 x 16"),
    "a wide matrix": (2**4, 2**13 + 1, numbers(13, 2**4, 2**13, 1, 1, 2), "is 16 x 8193"),
    "columns that there are not": (2**11, 2**12, numbers(13, 8, 8, 5, 1, 2), "2048 columns of 8 numbers"),
}


@pytest.mark.parametrize("name", HUGE)
def test_huge_work_in_a_tiny_file_is_refused_at_once(name):
    height, width, middle, because = HUGE[name]
    operations = [["linear", width, False], ["linear", height, False], ["linear", 3, False]]
    refused_at_once(sealed(around(middle, operations)), because)


def test_many_sketches_share_one_limit():
    operations = [*[["linear", 512, False]] * 34, ["linear", 3, False]]
    tensors = {"0.weight": writer.zero(0), "34.weight": writer.zero(0)}
    tensors |= {f"{i}.weight": numbers(13, 64, 64, 3, 1, 2) for i in range(1, 34)}
    message = writer.Message(operations, dict(sorted(tensors.items(), key=lambda item: int(item[0][:-7]))))
    start = time.perf_counter()
    refused_by_both(sealed(message), "multiplications")
    assert time.perf_counter() - start < 5


def test_a_sketch_of_zeros_predicts_nothing():
    refused(sealed(around(TRUE["zero"]), errors=0), "makes 30 errors")
