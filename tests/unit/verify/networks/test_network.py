"""Messages of whole networks, one for each operation, against a third reader; and what is refused in them."""

import hashlib
import math

import certificate_reader
import network_reader
import numpy as np
import pytest
from code_writer import encoded, packed

from codebound_verify.networks.arithmetic import grid
from codebound_verify.networks.chain import fit
from codebound_verify.networks.operations import Operation
from codebound_verify.refusal import Refused
from codebound_verify.weights import tensors_sha256

RANDOM = np.random.default_rng(0)
FLAT = RANDOM.integers(0, 256, (20, 6)).astype(np.uint8)
IMAGES = RANDOM.integers(0, 256, (20, 3, 9, 8)).astype(np.uint8)
SETTING = [2, (1, 4)]  # classes - 1, divisor 255
OPTIONS = ["0", "0", "0"]  # tensors, no theta, no base


def dense(q, j=0) -> list:
    limit = max(1, int(np.abs(q).max(initial=1)))
    first = 2 * j + 1 if j >= 0 else -2 * j
    return [3, first, limit, *((int(value) + limit, 2 * limit + 1) for value in np.ravel(q))]


def tensors_of(shapes):
    """Random integers in tensors of shapes, and how they are written."""
    random = np.random.default_rng(1)
    values = {name: random.integers(-5, 6, shape) for name, shape in shapes.items()}
    return values, [step for value in values.values() for step in dense(value, -20)]


# id: the steps of operations before the last linear, the shapes of all tensors, and the input
CHAINS = {
    "1 linear": ([1, 4, "1"], {"0.weight": (4, 6), "0.bias": (4,), "1.weight": (3, 4)}, FLAT),
    "2 conv": (
        [2, 4, 3, 2, 2, "1"],
        {"0.weight": (4, 3, 3, 3), "0.bias": (4,), "1.weight": (3, 80)},
        IMAGES,
    ),
    "3 max pool": ([3, 2], {"1.weight": (3, 48)}, IMAGES),
    "4 average pool": ([4, 3], {"1.weight": (3, 18)}, IMAGES),
    "5 global average pool": ([5], {"1.weight": (3, 3)}, IMAGES),
    "6 residual": (
        [6, 5, "1"],
        {
            "0.a.weight": (5, 3, 3, 3),
            "0.a.bias": (5,),
            "0.b.weight": (5, 5, 3, 3),
            "0.b.bias": (5,),
            "1.weight": (3, 100),
        },
        IMAGES,
    ),
    "7 local conv": (
        [7, 2, 4, 3, 1, "1"],
        {"0.weight": (4, 2, 3, 4, 4), "0.bias": (2,), "1.weight": (3, 8)},
        IMAGES,
    ),
    "8 normalised conv": ([8, 2, 5], {"0.weight": (2, 3, 5, 5), "1.weight": (3, 144)}, IMAGES),
    "9 dictionary": ([9, (2, 7), 4], {"1.weight": (3, (16 * 3 + 3) * 4)}, IMAGES),
    "10 views": ([10, (1, 15)], {"1.weight": (3, 216)}, IMAGES),
}
UNKNOWN_TO_THE_THIRD = ("6", "7", "9", "10")


@pytest.mark.parametrize("name", CHAINS)
def test_operations(name, read):
    steps, shapes, x = CHAINS[name]
    values, coded = tensors_of(shapes)
    all_steps = [*SETTING, *OPTIONS, "0", 2, *steps, 1, "0", *coded]
    network, bits = read(*all_steps, x=x)
    assert network.tensors.keys() == shapes.keys()
    for key, value in values.items():
        np.testing.assert_array_equal(network.tensors[key], (value * grid(-20)).astype(np.float32))
    parts = ["form", "setting", "options", "architecture", *shapes, "end"]
    assert [part for part, _ in bits.ledger] == parts
    assert bits.ledger[0] == ("form", 6)
    if name.split()[0] not in UNKNOWN_TO_THE_THIRD:
        check_with_the_third(network, bits, all_steps, x)


def check_with_the_third(network, bits, steps, x, block=""):
    plain = certificate_reader.Bits(*packed("111110" + encoded(*steps) + block))
    plain.bits(6)
    plain.note("form")
    message = type("Message", (), {})()
    known = {"rows": 0, "tables": [], "base": None, "features": None}
    network_reader.read(plain, message, {"sample": {"input_shape": x.shape[1:]}, "known": known})
    assert [tuple(part) for part in plain.ledger] == bits.ledger
    for key, value in message.network["tensors"].items():
        np.testing.assert_array_equal(network.tensors[key], np.float32(value))
    assert message.network["scaling"][0] == network.scaling.divisor
    assert message.classes == len(network.classes)


def test_constants_of_a_scaling(read):
    constants = [2.0, 0.5, 1.0, -3.0, 1.5, 2.0, 4.0]
    steps = [2, (3, 4), (2, 4), *constants, *OPTIONS, "0", 2, 5, 1, "0", *dense(np.eye(3))]
    network, bits = read(*steps, x=IMAGES)
    assert network.scaling.divisor == 2.0
    assert network.scaling.mean == (0.5, 1.0, -3.0)
    assert network.scaling.std == (1.5, 2.0, 4.0)
    check_with_the_third(network, bits, steps, IMAGES)


LINEAR = ["0", 1, 1, "0"]


class TestSetting:
    """Classes and scaling."""

    def refuse(self, read, steps, why, x=IMAGES, **about):
        with pytest.raises(Refused, match=why):
            read(
                *steps, *OPTIONS, "0", 1, 1, "0", *dense(np.zeros((3, math.prod(x.shape[1:])))), x=x, **about
            )

    def test_another_number_of_classes(self, read):
        self.refuse(read, [3, (1, 4)], "4 classes")
        self.refuse(read, [2**16], "classes - 1")

    def test_constants(self, read):
        self.refuse(read, [2, (3, 4), (1, 4), 1.0, 0.0, 0.0, 1.0, 1.0], "2 means; an input has 3")
        self.refuse(read, [2, (3, 4), (1, 4), 1.0, 0.0, 0.0, 1.0, 1.0], "1 channels", x=FLAT)
        for divisor, std in ((0.0, 1.0), (-1.0, 1.0), (1.0, 0.0), (1.0, -2.0)):
            self.refuse(read, [2, (3, 4), (0, 4), divisor, 0.0, std], "not positive")

    def test_statistics_of_the_sample(self, read):
        shares = IMAGES / 255.0
        mean, std = float(np.float32(shares.mean())), float(np.float32(shares.std()))
        self.refuse(read, [2, (3, 4), (0, 4), 255.0, mean, 1.0], "mean .* is a statistic")
        self.refuse(read, [2, (3, 4), (0, 4), 255.0, 0.25, std], "std .* is a statistic")
        near = float(np.float32(shares.mean() + 0.9e-3 * shares.std()))
        self.refuse(read, [2, (3, 4), (0, 4), 255.0, near, 1.0], "mean .* is a statistic")

    def test_statistics_of_a_channel(self, read):
        shares = IMAGES / 255.0
        means = [0.3, float(np.float32(shares[:, 1].mean())), 0.2]
        self.refuse(read, [2, (3, 4), (2, 4), 255.0, *means, 1.0, 1.0, 1.0], "mean .* is a statistic")

    def test_constants_that_are_farther_away(self, read):
        shares = IMAGES / 255.0
        far = float(np.float32(shares.mean() + 1.1e-3 * shares.std()))
        steps = [2, (3, 4), (0, 4), 255.0, far, 1.0]
        read(*steps, *OPTIONS, "0", 1, 1, "0", *dense(np.zeros((3, 216))), x=IMAGES)

    def test_0_and_1_are_no_statistics(self, read):
        x = np.repeat(np.array([[-1.0], [1.0]]), 10, axis=0)
        x = np.hstack([x, 5 + x, np.full((20, 1), 7.0)])
        read(2, (0, 4), *OPTIONS, "0", 1, 1, "0", *dense(np.zeros((3, 3))), x=x)

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_a_sample_that_was_standardised(self, read, dtype):
        x = np.random.default_rng(3).normal(size=(50, 4))
        x = ((x - x.mean(0)) / x.std(0)).astype(dtype)
        x[:, 2] = 7  # a position that does not vary
        self.refuse(read, [2, (0, 4)], "standardised", x=x)
        x[:, 0] += 1.1e-3 * 1000
        read(2, (0, 4), *OPTIONS, "0", 1, 1, "0", *dense(np.zeros((3, 4))), x=x)

    def test_deviations_of_n_less_1(self, read):
        x = np.random.default_rng(3).normal(size=(50, 4))
        self.refuse(read, [2, (0, 4)], "standardised", x=(x - x.mean(0)) / x.std(0, ddof=1))

    def test_cells(self, read):
        self.refuse(read, [2, (0, 4)], "cells", x=FLAT.astype(float), is_cells=True)


class TestBase:
    """Differences to a base, and what is known."""

    weight = np.arange(18, dtype=np.float32).reshape(3, 6)
    steps = (*SETTING, "0", "0", "1", "0", 1, 1, "0", *dense(np.eye(3, 6), -8))

    def base(self, rows=0):
        return (rows, tensors_sha256({"0.weight": self.weight}))

    def test_accepted(self, read, header):
        network, _ = read(
            *self.steps, x=FLAT, base={"0.weight": self.weight}, header=header((6,), 20, base=self.base())
        )
        np.testing.assert_array_equal(network.tensors["0.weight"], self.weight + np.eye(3, 6) / 2)

    def test_refused(self, read, header):
        made = header((6,), 20, base=self.base())
        other = {"0.weight": self.weight + 1}
        for base, why in ((None, "its base"), (other, "SHA-256"), ({}, "SHA-256")):
            with pytest.raises(Refused, match=why):
                read(*self.steps, x=FLAT, base=base, header=made)

    def test_it_is_there_exactly_if_the_header_has_one(self, read, header):
        with pytest.raises(Refused, match="have to agree"):
            read(*self.steps, x=FLAT)
        without = [*SETTING, *OPTIONS, *LINEAR, *dense(np.eye(3, 6))]
        with pytest.raises(Refused, match="have to agree"):
            read(*without, x=FLAT, base={"0.weight": self.weight}, header=header((6,), 20, base=self.base()))

    def test_it_has_every_tensor(self, read, header):
        for tensors, why in (
            ({"1.weight": self.weight}, "no tensor"),
            ({"0.weight": self.weight.T}, "shape"),
        ):
            made = header((6,), 20, base=(0, tensors_sha256(tensors)))
            with pytest.raises(Refused, match=why):
                read(*self.steps, x=FLAT, base=tensors, header=made)

    def test_known_rows_are_those_of_base_and_features(self, read, header):
        base = {"0.weight": self.weight}
        read(
            *self.steps, x=FLAT, base=base, header=header((6,), 20, base=self.base(7), features=(3, "0" * 64))
        )
        made = header((6,), 20, base=self.base(3), features=(7, "0" * 64))
        read(*self.steps, x=FLAT, base=base, header=made)
        for known in (0, 3, 8):
            made = header((6,), 20, base=self.base(7), features=(3, "0" * 64), known=known)
            with pytest.raises(Refused, match="it is 7"):
                read(*self.steps, x=FLAT, base=base, header=made)

    def test_an_element_that_is_not_finite(self, read, header):
        weight = self.weight.copy()
        weight[0, 0] = np.inf
        made = header((6,), 20, base=(0, tensors_sha256({"0.weight": weight})))
        with pytest.raises(Refused, match="finite"):
            read(*self.steps, x=FLAT, base={"0.weight": weight}, header=made)


def test_theta_belongs_to_a_domain(read):
    with pytest.raises(Refused, match="margin theta"):
        read(*SETTING, "0", "1", 17, "0", *LINEAR, *dense(np.zeros((3, 6))), x=FLAT)


def stack(views=0, dictionary=None, first=0, stages=((0, 0, 0),), end=0) -> list:
    """Steps of a stack: of each stage growth behind the first, convolutions, window, pool."""
    steps = ["1", (views, 16)]
    steps += [(dictionary[0], 8), (dictionary[1] - 1, 4)] if dictionary else [(0, 8)]
    steps += [(len(stages) - 1, 4), (first, 8)]
    for place, (*growth, convs, window, pool) in enumerate(stages):
        steps += [(growth[0], 3)] if place else []
        steps += [(convs, 3), (window, 3), (pool, 3)]
    return [*steps, (end, 4)]


def conv(out, kernel):
    return Operation("normalised conv", out=out, kernel=kernel)


class TestStacks:
    """Chains by a grid."""

    def test_all_choices(self, read):
        steps = stack(4, (3, 2), 1, [(1, 0, 1), (2, 0, 2, 2), (0, 2, 1, 0)], 1)
        pool = Operation("average pool", kernel=2)
        operations = [
            Operation("views", views=4),
            Operation("dictionary", table=3, pool=2),
            *[conv(16, 1)] * 2,
            Operation("max pool", kernel=2),
            conv(32, 5),
            pool,
            *[conv(16, 3)] * 3,
            pool,
            Operation("linear", out=3),
        ]
        x = RANDOM.integers(0, 256, (3, 1, 24, 24)).astype(np.uint8)
        chain = fit(operations, (1, 24, 24), 3)
        zeros = [2] * len(chain.layout())
        network, _ = read(*SETTING, *OPTIONS, *steps, *zeros, x=x)
        assert network.chain == chain

    @pytest.mark.parametrize("end", [0, 1, 2, 3])
    def test_ends(self, read, end):
        last = [[], [Operation("average pool", kernel=2)], [Operation("average pool", kernel=4)]]
        last.append([Operation("global average pool")])
        network, _ = read(*SETTING, *OPTIONS, *stack(first=3, end=end), 2, 2, x=IMAGES)
        assert network.chain.operations == (conv(32, 1), *last[end], Operation("linear", out=3))

    @pytest.mark.parametrize(
        ("steps", "why"),
        [
            (stack(5), "views"),
            (stack(15), "views"),
            (stack(0, (2, 1)), "no such dictionary"),
            (stack(0, (7, 1)), "no such dictionary"),
        ],
    )
    def test_reserved(self, read, steps, why):
        with pytest.raises(Refused, match=why):
            read(*SETTING, *OPTIONS, *steps, 2, 2, x=IMAGES)


class TestSubspace:
    """Tensors that are all made of the same integers."""

    q = np.array([3, -1, 0, 2, 1])
    seed, step = 4, -6

    def outputs(self, name, count):
        key = np.frombuffer(hashlib.sha256(f"codebound/{self.seed}/{name}".encode()).digest()[:16], "<u8")
        return [int(word) for word in np.random.Philox(key=key, counter=0).random_raw(count)]

    def expected(self, shapes, t, head, has_base=False):
        """The page, element by element."""
        total, entries = sum(math.prod(shape) for _, shape in shapes), 1 << t
        words, starts = self.outputs("hash", total * entries), self.outputs("start", total)
        found, number = {}, 0
        for name, shape in shapes:
            values = []
            m = int(math.log2(math.prod(shape[1:])) / 2) if len(shape) > 1 else 0
            for _ in range(math.prod(shape)):
                some = words[number * entries : (number + 1) * entries]
                total = sum((-1 if w % 2 else 1) * int(self.q[(w >> 32) * len(self.q) >> 32]) for w in some)
                start = bin(starts[number]).count("1") - 32
                if len(shape) == 1 or has_base or (head and name == shapes[-2][0]):
                    start = 0
                values.append((start / 4 + total * grid(self.step)) * 0.5**m)
                number += 1
            found[name] = np.reshape(values, shape)
        return found

    def steps(self, t, head, base="0"):
        integers = dense(self.q)
        options = ["1", "0", base, "0", 2, 1, 4, "1", 1, "1"]  # a chain of two linears with biases
        return [*SETTING, *options, 5, (t, 3), -2 * self.step, str(head), self.seed + 1, *integers]

    shapes = (("0.weight", (4, 6)), ("0.bias", (4,)), ("1.weight", (3, 4)), ("1.bias", (3,)))

    @pytest.mark.parametrize("t", [0, 1, 2])
    @pytest.mark.parametrize("head", [0, 1])
    def test_elements(self, read, t, head):
        network, bits = read(*self.steps(t, head), x=FLAT)
        for name, values in self.expected(self.shapes, t, head).items():
            np.testing.assert_array_equal(network.tensors[name], values.astype(np.float32))
        parts = ["form", "setting", "options", "architecture", "subspace", "integers", "end"]
        assert [part for part, _ in bits.ledger] == parts

    def test_with_a_base(self, read, header):
        base = {name: np.ones(shape, np.float32) for name, shape in self.shapes}
        made = header((6,), 20, base=(0, tensors_sha256(base)))
        network, _ = read(*self.steps(1, 0, "1"), x=FLAT, base=base, header=made)
        for name, values in self.expected(self.shapes, 1, 0, has_base=True).items():
            np.testing.assert_array_equal(network.tensors[name], (1 + values).astype(np.float32))

    def test_refused(self, read):
        front = [*SETTING, "1", "0", "0", *LINEAR]
        for steps, why in (
            ([2**20 + 1], "size d"),
            ([5, (0, 3), 1, "0", 1, *dense(self.q, 1)], "must be 0"),
            ([5, (0, 3), 2 * 1001 + 1], "index of a step"),
            ([5, (0, 3), 1, "0", 1, 6], "inner tensor has mode 6"),
        ):
            with pytest.raises(Refused, match=why):
                read(*front, *steps, x=FLAT)


def test_blocks_of_several_tensors(read):
    q = [np.array([[1, 1, 0, 1, 1, 1]] * 4), np.array([[1, 0, 1, 1]] * 3)]
    steps, blocks = [], ""
    for each in q:
        table, block = static(each)
        steps, blocks = [*steps, *table], blocks + block
    all_steps = [*SETTING, *OPTIONS, "0", 2, 1, 4, "0", 1, "0", *steps]
    network, bits = read(*all_steps, x=FLAT, block=blocks)
    for name, each in zip(("0.weight", "1.weight"), q, strict=True):
        np.testing.assert_array_equal(network.tensors[name], each)
    assert [part for part, _ in bits.ledger][-3:] == ["end", "block 0.weight", "block 1.weight"]
    check_with_the_third(network, bits, all_steps, FLAT, blocks)
    with pytest.raises(Refused, match="ends after"):
        read(*all_steps, x=FLAT, block=blocks + "0")
    with pytest.raises(Refused, match="inside a block"):
        read(*all_steps, x=FLAT, block=blocks[:-1])


def static(q):
    """Zeros and ones, of which a zero has the frequency 1, in one lane."""
    state, words = 1 << 24, []
    for value in reversed(np.ravel(q)):
        freq, cum = (65535, 1) if value else (1, 0)
        if state >= freq << 24:
            words.append(state & 0xFFFF)
            state >>= 16
        state = (state // freq << 16) + state % freq + cum
    table = [7, 1, 1, 1, 2, 65536, (0, 13)]
    return table, f"{state:040b}" + "".join(f"{word:016b}" for word in reversed(words))


def test_a_witness_that_nobody_asks_for(read):
    with pytest.raises(Refused, match="Witness"):
        read(*SETTING, *OPTIONS, *LINEAR, *dense(np.zeros((3, 6))), x=FLAT, witness=b"\0")


def test_weights_that_are_handed_over(read):
    network, _ = read(*SETTING, *OPTIONS, *LINEAR, *dense(np.eye(3, 6)), x=FLAT)
    network.check_weights({"0.weight": np.eye(3, 6, dtype=np.float32)})
    for given, why in (
        ({}, "not of both"),
        ({"0.weight": np.zeros((3, 6), np.float32)}, "not the tensor"),
        ({"0.weight": np.eye(3, 6, dtype=np.float32), "1.bias": np.zeros(3, np.float32)}, "not of both"),
    ):
        with pytest.raises(Refused, match=why):
            network.check_weights(given)


LIMITS = {
    "an operation 11": ([1, 11], (3, 9, 8), "no operation 11"),
    "too many operations": ([257], (3, 9, 8), "number of operations"),
    "a size": ([2, 1, 2**16 + 1], (6,), "out is 65537"),
    "padding": ([2, 2, 1, 1, 1, 2**16 + 2], (3, 9, 8), "padding is"),
    "a last operation that is no linear": ([1, 5], (3, 9, 8), "must be linear"),
    "a conv at the end": ([1, 2, 1, 1, 1, "0"], (3, 9, 8), "must be linear"),
    "a conv behind a linear": ([3, 1, 4, "0", 2, 1, 1, 1, 1, "0", 1, "0"], (3, 9, 8), "needs an image"),
    "a pool larger than its image": ([2, 3, 9, 1, "0"], (3, 9, 8), "larger than its image"),
    "an even window": ([2, 8, 4, 2, 1, "0"], (3, 9, 8), "must be odd"),
    "a residual that shrinks": ([2, 6, 2, "0", 1, "0"], (3, 9, 8), "cannot have fewer"),
    "dictionary 2": ([2, 9, (1, 7), 1, 1, "0"], (3, 9, 8), "no such dictionary"),
    "a dictionary behind a conv": (
        [3, 2, 3, 1, 1, 1, "0", 9, (0, 7), 1, 1, "0"],
        (3, 9, 8),
        "must be the first",
    ),
    "views behind a conv": ([3, 2, 3, 1, 1, 1, "0", 10, (0, 15), 1, "0"], (3, 9, 8), "must be the first"),
    "views 5": ([2, 10, (4, 15), 1, "0"], (3, 9, 8), "kinds are"),
    "views of no image": ([2, 10, (0, 15), 1, "0"], (6,), "needs an image"),
    "an output": ([2, 2, 2**13, 1, 1, 1, "0", 1, "0"], (1, 32, 32), "numbers out of one"),
    "a padded input": ([2, 2, 1, 1, 2**16, 1025, "0", 1, "0"], (1, 9, 8), "numbers out of one"),
    "a padded input of a residual": ([2, 6, 2, "0", 1, "0"], (2, 2047, 1023), "numbers out of one"),
    "outputs of all views": (
        [3, 10, (1, 15), 2, 16, 1, 1, 1, "0", 1, "0"],
        (1, 256, 256),
        "numbers out of one",
    ),
    "patches": ([2, 2, 1, 33, 1, 1, "0", 1, "0"], (32, 65, 65), "numbers in patches"),
    "patches of all views": (
        [3, 10, (0, 15), 2, 1, 33, 1, 1, "0", 1, "0"],
        (16, 65, 65),
        "numbers in patches",
    ),
    "multiplications": ([2, 2, 64, 3, 1, 2, "0", 1, "0"], (64, 200, 200), "multiplications"),
    "multiplications of all views": (
        [4, 10, (1, 15), *[2, 64, 3, 1, 2, "0"] * 2, 1, "0"],
        (16, 100, 100),
        "multiplications",
    ),
    "multiplications of a residual": ([2, 6, 32, "0", 1, "0"], (32, 256, 256), "multiplications"),
    "multiplications of pools": ([18, *[3, 1] * 17, 1, "0"], (1, 2048, 2048), "multiplications"),
    "multiplications of a dictionary": ([2, 9, (2, 7), 16, 1, "0"], (1, 560, 560), "multiplications"),
    "a tensor": ([1, 1, "0"], (2**24,), "multiplications|elements"),
    "elements": ([3, 1, 2**13, "0", 1, 2**13, "0", 1, "0"], (2**11,), "elements"),
    "elements of a tensor": ([2, 1, 2**15, "0", 1, "0"], (2**11,), "elements"),
}


@pytest.mark.parametrize("name", LIMITS)
def test_limits(name, read, header):
    """Everything is refused from the shape alone, before any tensor is read."""
    steps, shape, why = LIMITS[name]
    with pytest.raises(Refused, match=why):
        read(*SETTING, *OPTIONS, "0", *steps, x=FLAT, header=header(shape, 20))


ALLOWED = {
    "an output": ([2, 2, 2**12, 1, 1, 1, "0", 1, "0"], (1, 32, 32)),
    "outputs of all views": ([3, 10, (0, 15), 2, 32, 1, 1, 1, "0", 1, "0"], (1, 256, 256)),
    "multiplications of all views": ([4, 10, (2, 15), *[2, 64, 3, 1, 2, "0"] * 2, 1, "0"], (16, 100, 100)),
    "multiplications of pools": ([16, *[3, 1] * 15, 1, "0"], (1, 2048, 2048)),
}


@pytest.mark.parametrize("name", ALLOWED)
def test_what_the_limits_allow(name, read, header):
    """A little less goes on to the tensors, where these messages end."""
    steps, shape = ALLOWED[name]
    with pytest.raises(Refused, match=r"ends inside|no tensor mode|elements"):
        read(*SETTING, *OPTIONS, "0", *steps, 15, x=FLAT, header=header(shape, 20))


def test_the_work_of_counting(read, header):
    steps = [*SETTING, *OPTIONS, "0", 2, 1, 1023, "0", 1, "0"]  # (6 + 3) 1023 multiplications
    with pytest.raises(Refused, match="all rows take"):
        read(*steps, 2, 2, x=FLAT, header=header((2**13,), 2**24))
    read(*SETTING, *OPTIONS, *LINEAR, 2, x=FLAT, header=header((6,), 2**32))


def test_the_message_ends_inside_its_code_word(read):
    with pytest.raises(Refused, match="ends inside its code word"):
        read(*SETTING, *OPTIONS, *LINEAR, 6, x=FLAT)
