"""Attacks through subspaces (scheme 2) and through normalised convolutions, dictionaries and views."""

import copy

import cbound_writer as writer
import numpy as np
import pytest
from attack.crafting import (
    N,
    X,
    Y,
    accepted_by_both,
    agree_on_every_flipped_bit,
    behind,
    both,
    code,
    drawn,
    refused,
    refused_at_once,
    refused_by_both,
    sealed,
)

from codebound_verify import decode_network, verify

LAST = (1, "0")  # linear without bias; its outputs are the classes
IMAGES = ((10, 2), (9, 1, 1), (8, 2, 3), LAST)  # views, dictionary, normalised convolution


def symbols(operation: tuple) -> tuple:
    """An operation as it is written: the kind of views and the dictionary are chosen among so many."""
    if operation[0] == 10:
        return (10, (operation[1] - 1, 15))
    if operation[0] == 9:
        return (9, (operation[1] - 1, 7), operation[2])
    return operation


def message(operations, *tensors: tuple[str, tuple], method=2, options=("0", "0", "0")) -> writer.Message:
    """A message of literal symbols; ``tensors`` are the parts of the ledger after the architecture."""
    coder, ledger = writer.Coder(), []
    architecture = (1, len(operations), *(value for operation in operations for value in symbols(operation)))
    setting = ("setting", (2, (2, 4)))  # three classes, divided by 16
    parts = [setting, ("method", (method,)), ("options", options), ("architecture", architecture), *tensors]
    for name, values in parts:
        before = coder.shifts
        for value in values:
            code(coder, "integers", value)
        ledger.append([name, coder.shifts - before])
    word = coder.end()
    result = writer.Message(None, {})
    result.bits = word + "".join(bits for _, bits in coder.blocks)
    blocks = [[f"block {name}", len(bits)] for name, bits in coder.blocks]
    result.ledger = [*ledger, ["end", len(word) - coder.shifts], *blocks]
    return result


def signed(j: int) -> int:
    return 2 * j + 1 if j >= 0 else -2 * j


def subspace(q: writer.Tensor, *, d=None, t=1, j=-9, head="1", seed=3) -> list[tuple[str, tuple]]:
    """The two parts of section 5.4."""
    return [("subspace", (d or q.q.size, (t, 3), signed(j), head, seed + 1)), ("integers", (q,))]


TRUE = {
    "adaptive": message(IMAGES, *subspace(writer.adaptive(drawn(9)))),
    "dense": message([LAST], *subspace(writer.dense(drawn(5)), t=0, head="0", seed=2**41 - 2)),
    "enumerative": message([(10, 1), LAST], *subspace(writer.enumerative(drawn(7)), t=2)),
    "static": message([(8, 3, 1), LAST], *subspace(writer.static(drawn(12), lanes_log=1), j=-1)),
    "zero": message([(9, 3, 2), LAST], *subspace(writer.zero((4,)), head="0")),
    "tensors of scheme 1": message(
        IMAGES,
        ("2.weight", (writer.dense(drawn(2, 17, 3, 3), -9),)),
        ("3.weight", (writer.dense(drawn(3, 8)),)),
        method=1,
    ),
}


@pytest.mark.parametrize("name", TRUE)
def test_the_messages_that_are_attacked_are_true(name):
    accepted_by_both(TRUE[name])


@pytest.mark.few(1)
@pytest.mark.parametrize("name", TRUE)
def test_any_flipped_bit_is_the_same_to_both_programs(name):
    start = 1 + behind(TRUE[name], 3)  # options have to agree with the header
    agree_on_every_flipped_bit(TRUE[name], range(start, min(len(TRUE[name].bits), 200)))


ONES = writer.dense(np.ones(4, int))
FORBIDDEN = {
    "an unknown scheme": (message([LAST], ("a", (1,)), method=5), "scheme 5 is unknown"),
    "d": (message([LAST], ("subspace", (2**20 + 1,))), "the size d of a subspace is 1048577"),
    "the step": (message([LAST], *subspace(ONES, j=1001)), "exponent 1001"),
    "a negative step": (message([LAST], *subspace(ONES, j=-1001)), "exponent -1001"),
    "a seed of 42 digits": (message([LAST], *subspace(ONES, seed=2**41 - 1)), "more than 41 binary digits"),
    "a step of the integers": (
        message([LAST], *subspace(writer.dense(np.ones(4, int), 1))),
        "step of exponent 1; it must be 0",
    ),
    "a step of a block": (
        message([LAST], *subspace(writer.static(np.ones(4, int), -1, lanes_log=0))),
        "step of exponent -1; it must be 0",
    ),
    "a codebook inside": (message([LAST], *subspace(writer.codebook([1.0], [0, 0]), d=2)), "has mode 5"),
    "raw numbers inside": (message([LAST], *subspace(writer.raw([1.0, 2.0]), d=2)), "has mode 6"),
    "a projection inside": (message([LAST], ("subspace", (2, (0, 3), 1, "0", 1, 8))), "has mode 8"),
    "a subspace that ends": (message([LAST], ("subspace", (2, (0, 3), 1))), "Message: "),
    "integers that are not there": (
        message([LAST], ("subspace", (2**12, (0, 3), 1, "0", 1, 3, 1, 9))),
        "ends",
    ),
    "weights beyond float32": (
        message([LAST], *subspace(writer.dense(np.full(4, 2**20)), t=0, j=1000)),
        "too large for float32. The tensor is 0.weight",
    ),
    "an operation that is not there": (message([(11, 1), LAST]), "no operation 11"),
    **{
        f"views of kind {kind}": (message([(10, kind), LAST], *subspace(ONES)), f"has kind {kind}; kinds are")
        for kind in (5, 15)
    },
    "views after a pool": (message([(3, 1), (10, 1), LAST], *subspace(ONES)), "must be the first operation"),
    "views of views": (message([(10, 1), (10, 1), LAST], *subspace(ONES)), "must be the first operation"),
    "views of a dictionary": (message([(9, 1, 1), (10, 1), LAST], *subspace(ONES)), "must be the first"),
    "views at the end": (message([(1, 3, "0"), (10, 1)], *subspace(ONES)), "last operation must be linear"),
    "nothing but a dictionary": (message([(9, 1, 1)], *subspace(ONES)), "last operation must be linear"),
    "dictionary 2": (message([(9, 2, 1), LAST], *subspace(ONES)), "no such dictionary"),
    "a number above all": (message([(9, 1, 2**16 + 1), LAST], *subspace(ONES)), "pool is 65537"),
    "a dictionary after a convolution": (
        message([(8, 1, 1), (9, 1, 1), LAST], *subspace(ONES)),
        "or come right after views",
    ),
    "two dictionaries": (message([(9, 1, 1), (9, 3, 1), LAST], *subspace(ONES)), "or come right after views"),
    "a window above the image": (message([(9, 1, 3), LAST], *subspace(ONES)), "window of 3"),
    "an even kernel": (message([(8, 1, 2), LAST], *subspace(ONES)), "it must be odd"),
    "a normalised convolution at the end": (message([(8, 3)], *subspace(ONES)), "last operation must be"),
    "a normalised convolution after a linear": (
        message([(1, 4, "0"), (8, 1, 1), LAST], *subspace(ONES)),
        "needs an image",
    ),
    "padding": (message([(8, 1, 2**12 - 1), LAST], *subspace(ONES)), "numbers out of one example"),
    "channels": (message([(8, 2**16, 1), (8, 2**16, 1), LAST], *subspace(ONES)), "multiplications"),
}


@pytest.mark.parametrize("name", FORBIDDEN)
def test_what_the_page_forbids(name):
    found, because = FORBIDDEN[name]
    refused_by_both(sealed(found), because)


@pytest.mark.parametrize("operation", [(9, 1, 1), (10, 1), (10, 2), (8, 1, 1)])
def test_vectors_are_no_images(operation):
    x = X.reshape(N, 4)
    refused_by_both(sealed(message([operation, LAST], *subspace(ONES)), x), "needs an image", x)


@pytest.mark.parametrize("operation", [(9, 1, 1), (10, 1), (8, 1, 1)])
def test_a_bounded_domain_allows_none_of_the_operations(operation):
    """C-12a, with an original network that has the very tensors of g."""
    found = message([operation, LAST], *subspace(ONES), options=("0", "1", signed(0), "0"))
    g = decode_network(sealed(message([operation, LAST], *subspace(ONES))))[1]
    extra = {"input_low": 0, "input_high": 16, "subject_sha256": writer.tensors_hash(g)}
    data = sealed(found, statement="C-12a", subject="f", extra=extra)
    refused(data, "which this statement does not allow", subject_weights=g)


@pytest.mark.parametrize("entry", [["normalised conv", 1, 1], ["dictionary", 1, 1], ["views", 1]])
def test_the_original_network_has_none_of_the_operations(entry):
    """C-12b, with a chain of f that names one."""
    f = {"1.weight": np.zeros((3, 4), np.float32)}
    extra = {
        "disagreements": N,
        "n_unlabelled": N,
        "unlabelled_sha256": writer.sample_hash(X, np.zeros(N, np.int64)),
        "subject_sha256": writer.tensors_hash(f),
        "subject_chain": [entry, ["linear", 3, False]],
        "delta_risk": 0.025,
        "delta_disagreement": 0.025,
    }
    forms = {"bound": 1.0, "kl": 1.0, "hoeffding": 1.0}
    data = sealed(TRUE["dense"], statement="C-12b", subject="f", extra=extra, forms=forms)
    verdict = verify(data, X, Y, subject_weights=f, unlabelled=X)
    assert len(verdict.reasons) == 1
    assert "is no operation" in verdict.reasons[0]


class TestBlock:
    """The block of the integers stands behind the code word."""

    def file(self, change=lambda block: block, name="block integers") -> bytes:
        found = copy.deepcopy(TRUE["static"])
        start = len(found.bits) - found.ledger[-1][1]
        found.bits = found.bits[:start] + change(found.bits[start:])
        found.ledger[-1] = [name, len(found.bits) - start]
        return sealed(found)

    @pytest.mark.parametrize(
        "change",
        [
            lambda block: "",
            lambda block: block[:-1],
            lambda block: block + "0" * 16,
            lambda block: "1" + block,
            lambda block: "0" * 40 + block[40:],
        ],
        ids=["missing", "a bit short", "a word more", "shifted", "a low state"],
    )
    def test_other_blocks(self, change):
        refused_by_both(self.file(change), "Message: ")

    def test_another_name_in_the_ledger(self):
        assert verify(self.file(), X, Y).is_accepted
        refused(self.file(name="block 1.weight"), "for 'block integers'")


def test_every_field_of_a_subspace_makes_another_network():
    """What is paid for is what is counted: no field is without effect."""
    tensor = writer.dense(drawn(5))
    fields = [{}, {"t": 0}, {"t": 2}, {"j": -8}, {"head": "0"}, {"seed": 4}]
    networks = [both(sealed(message(IMAGES, *subspace(tensor, **each))))[0] for each in fields]
    assert len({tuple(weights.values()) for weights in networks}) == len(fields)


def test_integers_that_predict_nothing():
    """A network of a few bits with all logits equal errs on every example, whatever is claimed."""
    found = message(IMAGES, *subspace(writer.zero((2**20,))))
    assert len(found.bits) < 120
    refused(sealed(found, errors=0), "makes 30 errors")


HUGE = {  # a few bytes that ask for more than there may be
    "2^26 and more weights": ([(1, 2**13, "0"), (1, 2**12, "0"), (1, 2**13, "0"), LAST], (4, 4), "elements"),
    "integers": ([LAST], (2**20, (0, 3), 1, "0", 1, 3, 1, 2**20 + 1), "largest element L"),
    "the largest integers": ([LAST], (2**40, (0, 3)), "the size d"),
    "multiplications of views": ([(10, 2), *[(8, 64, 101)] * 3, LAST], (4, 4), "multiplications"),
    "those of straightened views": ([(10, 4), *[(8, 64, 101)] * 3, LAST], (4, 4), "multiplications"),
}


@pytest.mark.parametrize("name", HUGE)
def test_huge_work_in_a_tiny_file_is_refused_at_once(name):
    operations, values, because = HUGE[name]
    refused_at_once(sealed(message(operations, ("subspace", values))), because)


@pytest.mark.parametrize(
    ("shape", "operations", "because"),
    [
        ((1, 480, 480), [(9, 1, 4), LAST], "multiplications"),
        ((1, 220, 220), [(10, 2), (9, 1, 4), LAST], "multiplications"),
        ((9, 200, 200), [(9, 3, 4), LAST], "multiplications"),
        ((1, 480, 600), [(9, 1, 1), LAST], "numbers out of one example"),
        ((3, 1200, 1200), [(10, 1), LAST], "numbers out of one example"),
        ((3, 1200, 1200), [(10, 1), (9, 3, 2**10), LAST], "numbers out of one example"),
    ],
)
def test_large_images_are_refused_at_once(shape, operations, because):
    x, y = np.zeros((2, *shape), np.uint8), np.zeros(2, np.int64)
    refused_at_once(sealed(message(operations, *subspace(ONES)), x, y), because, x, y)
