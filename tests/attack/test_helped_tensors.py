"""Attacks through tensors that are made of random numbers (modes 8 to 12), and through local convolutions."""

import time

import cbound_writer as writer
import numpy as np
import pytest
from attack.crafting import (
    LINEAR,
    WIDE,
    N,
    X,
    Y,
    accepted_by_both,
    agree_on_every_flipped_bit,
    behind,
    drawn,
    numbers,
    refused,
    refused_at_once,
    refused_by_both,
    sealed,
)

from codebound_verify import decode_network, verify


def linear(weight: writer.Tensor) -> writer.Message:
    """A linear classifier with this weight, 3 x 4."""
    return writer.Message(LINEAR, {"0.weight": weight})


TRUE = {
    "projected": writer.projected((3, 4), writer.adaptive(drawn(1, 9), -8), seed=5),
    "projected rows": writer.projected(
        (3, 4), writer.static(drawn(3, 9), -8, lanes_log=0), rows=True, seed=2**41 - 2
    ),
    "gaussian": writer.projected((3, 4), writer.enumerative(drawn(1, 9), -9), gaussian=True),
    "low rank": writer.low_rank(
        (3, 4), writer.static(drawn(3, 2), -400, lanes_log=0), writer.static(drawn(2, 4), 380)
    ),
    "filled": writer.filled(writer.dense(drawn(3, 4, limit=1), 2), writer.Fill(False, -9, 3, 1)),
    "filled everywhere": writer.filled(
        writer.static(drawn(3, 4), lanes_log=0), writer.Fill(True, -9, -70, 0)
    ),
    "not filled": writer.filled(writer.adaptive(drawn(3, 4), -3)),
    "signs": writer.ticket(writer.dense(drawn(3, 4), -3), kind=0),
    "popcounts": writer.ticket(writer.static(drawn(3, 4), -20, lanes_log=0), kind=1, seed=3),
    "uniform": writer.ticket(writer.enumerative(drawn(3, 4), -99), kind=2, seed=4),
    "mixed": writer.mixed((3, 4), writer.dense(drawn(6), -70), mixes=5, seed=9),
    "mixed zeros": writer.mixed((3, 4), writer.zero((6,)), mixes=5),
}


@pytest.mark.few(5)
@pytest.mark.parametrize("name", TRUE)
def test_the_messages_that_are_attacked_are_true(name):
    accepted_by_both(linear(TRUE[name]))


@pytest.mark.few(4)
@pytest.mark.parametrize("name", TRUE)
def test_fewer_errors_than_the_network_makes(name):
    logits = X.reshape(N, 4) / 16 @ TRUE[name].values.astype(np.float32).astype(float).T
    errors = writer.count(logits, Y)
    for stated in (errors, errors - 1):
        data = sealed(linear(TRUE[name]), errors=stated)
        assert verify(data, X, Y).is_accepted == (stated == errors)


@pytest.mark.few(1)
@pytest.mark.parametrize("name", TRUE)
def test_any_flipped_bit_is_the_same_to_both_programs(name):
    message = linear(TRUE[name])
    agree_on_every_flipped_bit(message, range(behind(message, 3), len(message.bits)))


ONES = writer.dense(np.ones((3, 1), int), 600)
FORBIDDEN = {
    "k of a projection": (numbers(8, "0", "0", 2**16 + 1), "k of random vectors"),
    "a projection in a projection": (numbers(8, "0", "0", 1, 1, 8), "inner tensor has mode 8"),
    "a codebook in a low rank": (numbers(9, 1, 5, 1), "inner tensor has mode 5"),
    "raw numbers in a filled": (numbers(10, 6), "inner tensor has mode 6"),
    "a mixture in a mixture": (numbers(12, 1, 1, 1, 12, 1, 1, 1), "inner tensor has mode 12"),
    "an inner mode that is not there": (numbers(12, 1, 1, 1, 99), "inner tensor has mode 99"),
    "an outer mode that is not there": (numbers(15), "no tensor mode 15"),
    "an inner step": (numbers(8, "0", "0", 1, 1, 3, 2 * 1001), "exponent -1001"),
    "an inner limit": (numbers(8, "0", "0", 1, 1, 1, 1, 2**12 + 1), "largest element L"),
    "an inner table": (numbers(8, "0", "0", 1, 1, 7, 1, 1, 1, 2**16, 1), "add up to 65535"),
    "a rank above the sides": (numbers(9, 4), "the rank r is 4"),
    "steps that add up to 1001": (
        numbers(9, 1, ONES, writer.dense(np.ones((1, 4), int), 401)),
        "exponent 1001",
    ),
    "the step of a filling": (numbers(10, 2, "1", "0", 2 * 1001 + 1), "exponent 1001"),
    "the mean of a filling": (numbers(10, 2, "1", "0", 1, 2 * (2**20 + 1)), "mean of a filling"),
    "b of a mixture": (numbers(12, 2**12 + 1), "b of basis rows"),
    "k of a mixture": (numbers(12, 1, 2**12 + 1), "k of rows of C"),
    "sums of a mixture": (numbers(12, 2**12, 2**12, 1, writer.dense(np.full(2**12, 129))), "at most 2^53"),
    "a seed of 42 digits": (numbers(11, (0, 3), 2**41), "more than 41 binary digits"),
    "weights beyond float32": (
        writer.ticket(writer.dense(np.full((3, 4), 2**20), 900), kind=2),
        "too large for float32",
    ),
    "a filling beyond float32": (
        writer.filled(writer.zero((3, 4)), writer.Fill(True, 1000, 2**20, 0)),
        "too large for float32",
    ),
}


@pytest.mark.parametrize("name", FORBIDDEN)
def test_what_the_page_forbids(name):
    weight, because = FORBIDDEN[name]
    refused_by_both(sealed(linear(weight)), because)


def test_a_mixture_of_a_vector():
    tensors = {"0.weight": writer.zero(0), "0.bias": numbers(12, 1, 1, 1, 2)}
    refused_by_both(sealed(writer.Message([["linear", 3, True]], tensors)), "two sizes or more")


class TestBlocks:
    """Blocks of inner tensors stand behind the code word, in the order of the message."""

    def file(self, change=lambda blocks: blocks, ledger=lambda entries: entries) -> bytes:
        last = writer.ticket(writer.static(drawn(3, 3, seed=1)))
        message = writer.Message(LINEAR * 2, {"0.weight": TRUE["low rank"], "1.weight": last})
        end = sum(bits for name, bits in message.ledger if not name.startswith("block"))
        blocks, start = [], end
        for _, bits in message.ledger[-3:]:
            blocks.append(message.bits[start : start + bits])
            start += bits
        assert start == len(message.bits)
        message.bits = message.bits[:end] + "".join(change(blocks))
        message.ledger = ledger(message.ledger)
        fields = writer.header(message, X, Y, errors=N, classes=3)
        short = len(message.bits) - sum(bits for _, bits in message.ledger)
        fields["ledger"][-1][1] += short
        return writer.write(message, fields)

    def test_true(self):
        assert verify(self.file(), X, Y).reasons == ()

    @pytest.mark.parametrize(
        "change",
        [
            lambda blocks: blocks[:2],
            lambda blocks: [*blocks[:2], blocks[2][:-1]],
            lambda blocks: [*blocks[:2], blocks[2][:80]],
            lambda blocks: [*blocks, "0" * 16],
            lambda blocks: [blocks[0], blocks[2], blocks[1]],
            lambda blocks: ["1", *blocks],
        ],
        ids=["one missing", "a bit short", "no words", "a word more", "swapped", "shifted"],
    )
    def test_other_blocks(self, change):
        refused_by_both(self.file(change), "Message: ")

    def test_another_name_in_the_ledger(self):
        def renamed(entries):
            return [*entries[:-2], ["block 1.weight", entries[-2][1]], entries[-1]]

        refused(self.file(ledger=renamed), "for 'block 0.weight'")

    def test_one_entry_for_two_blocks(self):
        def joined(entries):
            return [*entries[:-3], ["block 0.weight", entries[-3][1] + entries[-2][1]], entries[-1]]

        refused(self.file(ledger=joined), "parts")


HUGE = {  # a few bytes that ask for more than there may be
    "work of a projection": (numbers(8, "0", "0", 2**11 + 1, 1, 2), "multiplications"),
    "work of gaussians": (numbers(8, "0", "1", 2**16, 1, 2), "multiplications"),
    "work of a low rank": (numbers(9, 2**12, 2, 2), "the rank r is"),
    "work of a mixture": (numbers(12, 2**12, 1, 1, 2), "multiplications"),
    "mixtures of a mixture": (numbers(12, 2**11, 2**12, 1, 2), "multiplications"),
    "zeros in a projection": (numbers(8, "1", "0", 2**11, 1, 2), "inner tensor has 67108864 elements"),
    "a block in a projection": (numbers(8, "1", "0", 2**11, 1, 7), "inner tensor has 67108864 elements"),
    "dense numbers in a projection": (numbers(8, "1", "0", 2**9 + 1, 1, 3, 1, 1), "inside its code word"),
    "dense numbers that are filled": (numbers(10, 3, 1, 1), "inside its code word"),
    "dense numbers of a ticket": (numbers(11, (0, 3), 1, 3, 1, 1), "inside its code word"),
}


@pytest.mark.parametrize("name", HUGE)
def test_huge_work_in_a_tiny_file_is_refused_at_once(name):
    weight, because = HUGE[name]
    message = writer.Message(WIDE, {"0.weight": writer.zero(0), "1.weight": weight})
    refused_at_once(sealed(message), because)


def test_many_tensors_share_their_limits():
    """Each is allowed; together they are not, and no sum is begun before the last one is read."""
    operations = [*[["linear", 512, False]] * 34, ["linear", 3, False]]
    tensors = {f"{i}.weight": numbers(8, "0", "0", 2**13, 1, 2) for i in range(34)}
    start = time.perf_counter()
    refused_by_both(sealed(writer.Message(operations, tensors)), "multiplications")
    assert time.perf_counter() - start < 5
    tensors = {f"{i}.weight": numbers(8, "1", "0", 2**16, 1, 2) for i in range(4)}
    refused_by_both(sealed(writer.Message(operations, tensors)), "inner tensors are more than 67108864")


def test_another_seed_is_another_network():
    """A seed is part of the message: what is counted is the network of the seed that is paid for."""
    found = set()
    for seed in range(20):
        tensor = writer.projected((3, 4), writer.dense(drawn(1, 9)), seed=seed)
        data = sealed(linear(tensor))
        assert verify(data, X, Y).is_accepted
        found.add(decode_network(data)[1]["0.weight"].tobytes())
    assert len(found) == 20
    bits = [len(linear(numbers(11, (0, 3), seed + 1, 2)).bits) for seed in (0, 1, 2**20)]
    assert bits[0] < bits[1] < bits[2]


@pytest.mark.parametrize("mode", [8, 9, 11, 12])
def test_zeros_inside_predict_nothing(mode):
    """A network of a few bits with all logits equal errs on every example, whatever is claimed."""
    start = {8: (8, "0", "0", 7, 1, 2), 9: (9, 2, 2, 2), 11: (11, (0, 3), 1, 2), 12: (12, 3, 2, 1, 2)}[mode]
    refused(sealed(linear(numbers(*start)), errors=0), "makes 30 errors")


LOCAL = [["local conv", 2, 2, 1, 1, True], ["max pool", 2], ["linear", 3, False]]


def test_a_local_convolution_is_counted_as_it_is_defined():
    weight, bias, last = drawn(9, 2, 1, 2, 2), drawn(2, seed=1), drawn(3, 2, seed=2)
    tensors = {
        "0.weight": writer.dense(weight),
        "0.bias": writer.dense(bias),
        "2.weight": writer.dense(last),
    }
    message = writer.Message(LOCAL, tensors)
    padded = np.pad(X[:, 0] / 16, ((0, 0), (1, 1), (1, 1)))
    hidden = np.empty((N, 2, 3, 3))
    for t in range(9):
        i, j = divmod(t, 3)
        hidden[:, :, i, j] = np.einsum("nab,oab->no", padded[:, i : i + 2, j : j + 2], weight[t, :, 0]) + bias
    pooled = np.maximum(hidden, 0)[:, :, :2, :2].max(axis=(2, 3))
    errors = writer.count(pooled @ last.T, Y)
    assert 0 < errors < N
    for stated in (errors, errors - 1):
        data = sealed(message, errors=stated)
        assert verify(data, X, Y).is_accepted == (stated == errors)


@pytest.mark.parametrize(
    ("operation", "because"),
    [
        (["local conv", 1, 4, 1, 0, False], "larger than its image"),
        (["local conv", 2**16 + 1, 1, 1, 0, False], "out is 65537"),
        (["local conv", 1, 1, 1, 1500, False], "numbers out of one example"),
        (["local conv", 1, 1, 2**13, 2**13, False], "numbers out of one example"),
        (["local conv", 1, 50, 1, 100, False], "in patches"),
        (["local conv", 35, 5, 1, 100, False], "a tensor has 34303500 elements"),
        (["local conv", 100, 25, 1, 100, False], "multiplications"),
    ],
)
def test_local_convolutions_that_are_too_large(operation, because):
    tensors = {"0.weight": writer.zero(0), "1.weight": writer.zero(0)}
    refused_by_both(sealed(writer.Message([operation, *LINEAR], tensors)), because)
