"""Messages: exact inverse, the readings of two other programs, and what all of them refuse."""

from dataclasses import fields, replace
from types import SimpleNamespace

import certificate_reader
import numpy as np
import pytest
from code_writer import encoded, packed
from drawing import examples
from hypothesis import assume, given
from hypothesis import strategies as st

import codebound_verify.message
import codebound_verify.networks.network
from codebound.bits.plain_code import Bits
from codebound.known.messages import Options, Setting
from codebound.run.errors import CodeboundError, FormatError, UsageError
from codebound.run.tensor_files import float32_sha256
from codebound.sample.dataset import Scaling
from codebound_networks.chains.chain import Chain
from codebound_networks.chains.message import Message, decode
from codebound_networks.chains.operations import (
    AveragePool,
    Conv,
    Dictionary,
    GlobalAveragePool,
    Linear,
    LocalConv,
    MaxPool,
    NormalisedConv,
    Residual,
    Shifts,
)
from codebound_networks.codes.bell import Bell
from codebound_networks.codes.random_subspace import Subspace
from codebound_networks.codes.static import frequency_table
from codebound_networks.codes.tensors import Adaptive, Codebook, Dense, Enumerative, Raw, Static, Zero
from codebound_verify import Refused
from codebound_verify.sample import Data

INTEGERS = ("adaptive", "zero", "dense", "enumerative", "static", "bell")


@st.composite
def chains(draw) -> Chain:
    shape = draw(st.sampled_from([(1,), (5,), (3, 4), (1, 1, 1), (2, 4, 5), (3, 6, 6)]))
    small = st.integers(1, 4)
    image = st.one_of(
        st.builds(Conv, small, st.integers(1, 3), st.integers(1, 2), st.integers(0, 2), st.booleans()),
        st.builds(LocalConv, small, st.integers(1, 3), st.integers(1, 2), st.integers(0, 1), st.booleans()),
        st.builds(MaxPool, st.integers(1, 2)),
        st.builds(AveragePool, st.integers(1, 3)),
        st.just(GlobalAveragePool()),
        st.builds(Residual, small, st.booleans()),
        st.builds(NormalisedConv, st.sampled_from([1, 2, 8, 16]), st.sampled_from([1, 3, 7])),
    )
    operations = []
    if len(shape) == 3:
        operations += draw(st.lists(st.builds(Shifts, st.integers(1, 4)), max_size=1))
        features = st.builds(Dictionary, st.sampled_from([1, 3]), st.integers(1, 2))
        operations += draw(st.lists(features, max_size=1))
        operations += draw(st.lists(image, max_size=3))
    operations += draw(st.lists(st.builds(Linear, small, st.booleans()), max_size=2))
    try:
        return Chain(shape, (*operations, Linear(draw(st.integers(2, 4)), draw(st.booleans()))))
    except CodeboundError:
        assume(False)


CONSTANTS = st.floats(0.0625, 300.0, width=32)
SCALINGS = st.sampled_from([Scaling(1.0), Scaling(16.0), Scaling(255.0)]) | st.builds(
    lambda divisor, mean, std: Scaling(divisor, (mean,), (std,)), CONSTANTS, CONSTANTS, CONSTANTS
)


@st.composite
def tensor_codes(draw, shape, modes=(*INTEGERS, "codebook", "raw"), reach=900):
    mode = draw(st.sampled_from(modes))
    stream = np.random.default_rng(draw(st.integers(0, 2**32)))
    limit, step = draw(st.sampled_from([1, 2, 5])), draw(st.integers(-reach, reach))
    present = stream.random(shape) < draw(st.sampled_from([0.0, 0.3, 1.0]))
    levels = (stream.integers(-limit, limit + 1, shape) * present).astype(np.int32)
    match mode:
        case "zero":
            return Zero(shape)
        case "raw":
            return Raw(stream.normal(size=shape).astype(np.float32))
        case "codebook":
            table = stream.normal(size=draw(st.integers(1, 4))).astype(np.float32)
            return Codebook((stream.integers(0, len(table) + 1, shape) * present).astype(np.int32), table)
        case "bell":
            return Bell(levels, step, width=draw(st.integers(0, 63)))
        case "adaptive":
            flags = {"row_flags": draw(st.integers(0, 1)), "column_flags": draw(st.integers(0, 1))}
            kind = draw(st.integers(0, 3))
            return Adaptive(levels, step, limit, **flags, kind=kind, stride=draw(st.integers(1, 3)))
        case "static":
            table = frequency_table(np.bincount(levels.ravel() + limit, minlength=2 * limit + 1))
            return Static(levels, step, limit, table=table, lanes_log2=draw(st.integers(0, 3)))
    return {"dense": Dense, "enumerative": Enumerative}[mode](levels, step, limit)


@st.composite
def messages(draw) -> Message:
    chain = draw(chains())
    options = Options(
        Setting(chain.classes, draw(SCALINGS)),
        draw(st.none() | st.integers(-8000, 8000)),
        draw(st.booleans()),
    )
    if draw(st.integers(0, 3)) == 0:
        inner = draw(tensor_codes((draw(st.integers(1, 12)),), INTEGERS, reach=0))
        choices = draw(st.integers(0, 2)), draw(st.integers(-400, 400)), draw(st.booleans())
        return Message(options, chain, Subspace(inner, *choices, draw(st.integers(0, 2**41 - 2))))
    shapes = chain.tensor_shapes().items()
    return Message(options, chain, {name: draw(tensor_codes(shape)) for name, shape in shapes})


def in_third_program(bits: Bits, message: Message):
    """What the reader of tests/reference makes of the bits, or None where it knows no such network."""
    base = {"by": "", "of": "", "rows": 0, "sha256": ""} if message.options.has_base else None
    sample = {"input_shape": [*message.chain.input_shape], "rows": 2, "order": "rows"}
    known = {"base": base, "features": None, "tables": [], "rows": 0}
    try:
        return certificate_reader.decode(bits.data, bits.length, {"sample": sample, "known": known})
    except NotImplementedError:
        return None


def in_second_program(bits: Bits, message: Message, base=None):
    """What the verifier decodes from the bits, and its ledger: a header is made up around them."""
    shape, theta = message.chain.input_shape, message.options.theta_index
    made = None if base is None else SimpleNamespace(rows=0, sha256=float32_sha256(base))
    header = SimpleNamespace(
        known=SimpleNamespace(rows=0, base=made, features=None),
        sample=SimpleNamespace(
            input_shape=shape, classes=message.options.setting.classes, rows=2, order="rows"
        ),
        original=None if theta is None else SimpleNamespace(domain=(0.0, 1.0)),
        message=SimpleNamespace(bits=bits.length),
    )
    container = SimpleNamespace(header=header, message=bits.data, witness=message.witness())
    read = codebound_verify.message.read_message(container)
    x = 7919.0 * np.arange(2 * np.prod(shape), dtype=np.float32) + 104_729.0  # no scaling is one of its means
    data = Data(x.reshape(2, *shape), np.zeros(2, np.int64))
    network = codebound_verify.networks.network.read_network(read.bits, container, data, base)
    read.bits.finish()
    return network, tuple(read.bits.ledger)


@given(messages())
@examples(150)
def test_three_programs_agree_on_parts_and_numbers(message):
    shapes, stream = message.chain.tensor_shapes(), np.random.default_rng(0)
    base = {name: stream.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    base = base if message.options.has_base else None
    bits, ledger = message.encode()
    assert dict(ledger)["form"] == 6
    assert sum(spent for _, spent in ledger) == bits.length

    again = decode(bits, input_shape=message.chain.input_shape, witness=message.witness())
    assert again.parts == message.parts
    assert again.encode() == (bits, ledger)
    network, parts = in_second_program(bits, message, base)
    assert parts == ledger
    assert network.theta == message.theta
    own = message.weights(base)
    for found in (again.weights(base), network.tensors):
        assert found.keys() == own.keys()
        assert all(found[name].tobytes() == own[name].tobytes() for name in own)
    third = in_third_program(bits, message)
    if third is not None:
        assert [tuple(part) for part in third.ledger] == [*ledger]
        assert third.network["theta"] == message.options.theta_index
        for name, exact in third.network["tensors"].items():
            whole = exact + (0.0 if base is None else base[name].astype(np.float64))
            assert own[name].tobytes() == whole.astype(np.float32).tobytes()


@given(messages(), st.data())
@examples(60)
def test_a_changed_length_is_never_the_same_message(message, data):
    bits, _ = message.encode()
    more = str(bits) + data.draw(st.text("01", min_size=1, max_size=20))
    fewer = str(bits)[: data.draw(st.integers(0, bits.length - 1))]
    for text in (more, fewer):
        with pytest.raises(FormatError):
            decode(Bits(*packed(text or "0")), input_shape=message.chain.input_shape)


def test_a_message_is_read_behind_another_loss():
    chain = Chain((3,), (Linear(2, True),))
    bits, _ = Message(
        Options(Setting(chain.classes)), chain, {"0.weight": Zero((2, 3)), "0.bias": Zero((2,))}
    ).encode()
    behind = Bits(*packed("1111110" + "000" + "1" + "0" + str(bits)))
    assert decode(behind, input_shape=(3,), start=12).chain == chain


def test_a_base_is_added_in_float64_and_rounded_once():
    base = {"0.weight": np.array([[1.0, 1e8]], np.float32).repeat(2, 0)}
    code = Dense(np.array([[1, 1], [0, -1]], np.int32), -8 * 30, 1)  # 2^-30 vanishes beside 1 in float32
    message = Message(
        Options(Setting(2), has_base=True), Chain((2,), (Linear(2, False),)), {"0.weight": code}
    )
    assert (message.weights(base)["0.weight"] == base["0.weight"]).all()
    whole = replace(message, options=Options(message.options.setting))
    assert whole.weights()["0.weight"][0, 0] == np.float32(2.0**-30)
    for wrong in (None, {}, {"0.weight": base["0.weight"].astype(np.float64)}):
        with pytest.raises(FormatError, match="base"):
            message.weights(wrong)
    with pytest.raises(FormatError, match="leave out the base"):
        whole.weights(base)


def test_a_block_of_integers_is_in_the_ledger():
    q = np.arange(-1, 2, dtype=np.int32).repeat(20)
    static = Static(q, 0, 1, table=np.array([2**14, 2**15, 2**14]), lanes_log2=0)
    chain = Chain((2,), (Linear(2, False),))
    _, ledger = Message(
        Options(Setting(chain.classes)), chain, Subspace(static, 0, 0, zero_head=False, seed=0)
    ).encode()
    assert [part for part, _ in ledger][-4:] == ["subspace", "integers", "end", "block integers"]
    assert dict(ledger)["block integers"] >= 40


def signed(j: int) -> int:
    return 2 * j + 1 if j >= 0 else -2 * j


def described(operation, *, is_last=False) -> list:
    """An operation as symbols; the last width is not coded."""
    told: list = [operation.number]
    for each in fields(operation):
        value = getattr(operation, each.name)
        if each.name == "bias":
            told.append("01"[value])
        elif each.name in ("table", "kind"):
            told.append((value - 1, {"table": 7, "kind": 15}[each.name]))
        elif not (is_last and each.name == "out"):
            told.append(value + (each.name == "padding"))
    return told


def as_chain(*operations) -> list:
    told = [described(each, is_last=each is operations[-1]) for each in operations]
    return [len(operations), *(symbol for each in told for symbol in each)]


FRONT = [1, (0, 4), "0", "0", "0"]  # two classes, inputs as stored, tensors, no theta, no base
HALF = [*FRONT, "0", *as_chain(Linear(2, False))]
SUBSPACE = [1, (0, 4), "1", "0", "0", "0", *as_chain(Linear(2, False)), 3, (0, 3)]
INFINITE = [(0x7F80, 1 << 16), (0, 1 << 16)]
REFUSED = {
    "257 operations": ([*FRONT, "0", 257], "at most 256"),
    "operation 11": ([*FRONT, "0", 2, 11], "operation 11"),
    "features without an image": ([*FRONT, "0", *as_chain(Dictionary(1, 1), Linear(2, False))], "no network"),
    "views without an image": ([*FRONT, "0", *as_chain(Shifts(1), Linear(2, False))], "no network"),
    "a dictionary that there is not": ([*FRONT, "1", (0, 16), (5, 8), (0, 4), *[(0, 4)] * 9], "no network"),
    "a width of 2^16 + 1": ([*FRONT, "0", 2, 1, 2**16 + 1], "at most 65536"),
    "a last operation that is not linear": ([*FRONT, "0", 1, 3, 1], "last operation"),
    "a pool without an image": ([*FRONT, "0", *as_chain(MaxPool(1), Linear(2, False))], "no network"),
    "a number without end": (["0" * 60], "gamma code"),
    "theta beyond the grid": ([1, (0, 4), "0", "1", signed(8001)], "theta"),
    "2^16 + 1 classes": ([2**16], "at most 65536 classes"),
    "two constants for one channel": ([1, (3, 4), (1, 4), *[1.0] * 5], "scaling has 2 constants"),
    "a divisor of zero": ([1, (3, 4), (0, 4), 0.0, 0.0, 1.0], "positive"),
    "a divisor without end": ([1, (3, 4), (0, 4), *INFINITE, 0.0, 1.0], "NaN or infinite"),
    "mode 15": ([*HALF, 15], "no tensor code of mode 15"),
    "levels beyond 2^12 in mode 1": ([*HALF, 1, 1, 2**12 + 1], "at most 4,096"),
    "levels beyond 2^20 in mode 3": ([*HALF, 3, 1, 2**20 + 1], "at most 1,048,576"),
    "a step beyond the grid": ([*HALF, 3, signed(1001), 1], "a step lies between"),
    "a codebook of 257 values": ([*HALF, 5, 257], "at most 256 values"),
    "an infinite weight": ([*HALF, 6, *INFINITE], "NaN or infinite"),
    "frequencies of another sum": ([*HALF, 7, 1, 1, 1, 2**15, 1], "add up to 65536"),
    "2^20 + 1 dimensions": ([*SUBSPACE[:-2], 2**20 + 1, (0, 3)], "at most 1,048,576 dimensions"),
    "a step of a subspace": ([*SUBSPACE, signed(1001)], "a step lies between"),
    "a seed without end": ([*SUBSPACE, signed(0), "0", "0" * 60], "gamma code"),
    "floats inside": ([*SUBSPACE, signed(0), "0", 1, 6], "cannot have mode 6"),
    "a step of integers": ([*SUBSPACE, 1, "0", 1, 3, signed(1), 1, *[(1, 3)] * 3], "step 0. Got 1"),
    "a weight beyond float32": (
        [*SUBSPACE, signed(1000), "1", 1, 3, signed(0), 2**20, *[(2**21, 2**21 + 1)] * 3],
        "float32",
    ),
}
LIKE = Message(Options(Setting(2)), Chain((4,), (Linear(2, False),)), {"0.weight": Zero((2, 4))})


@pytest.mark.parametrize("name", REFUSED)
def test_what_describes_no_network_is_refused(name):
    steps, because = REFUSED[name]
    bits = Bits(*packed("111110" + encoded(*steps)))
    with pytest.raises(FormatError, match=because):
        decode(bits, input_shape=(4,)).weights()
    with pytest.raises(Refused):
        in_second_program(bits, LIKE)


@pytest.mark.parametrize("text", ["0", "11110" + "0" * 30, "1111110" + "1" * 30, "1111111", "11111"])
def test_other_forms_are_no_networks(text):
    with pytest.raises(FormatError):
        decode(Bits(*packed(text)), input_shape=(4,))


END = Linear(2, False)
HUGE = {
    "a result": ((1, 8, 9), (Conv(2**16, 1, 1, 0, False), MaxPool(8), END), "numbers in a result"),
    "padding": ((1, 8, 8), (Conv(1, 1, 2**12, 2**10, False), END), "numbers in a result"),
    "patches": ((1, 8, 8), (Conv(1, 99, 1, 400, False), END), "in the patches"),
    "local padding": ((1, 8, 8), (LocalConv(1, 1, 2**12, 2**10, False), END), "numbers in a result"),
    "local patches": ((1, 8, 8), (LocalConv(1, 99, 1, 400, False), END), "in the patches"),
    "local filters": ((1, 64, 64), (LocalConv(1024, 3, 1, 1, False), MaxPool(64), END), "2\\^25 elements"),
    "multiplications": (
        (32, 64, 64),
        (Conv(64, 3, 1, 1, False), Conv(512, 3, 1, 1, False), END),
        "multiplications",
    ),
    "padding of a residual": ((1, 1, 1_398_100), (Residual(1, False), END), "numbers in a result"),
    "a normalised window": ((1, 8, 8), (NormalisedConv(1, 1023), END), "in the patches"),
    "normalised padding": ((1, 8, 8), (NormalisedConv(1, 4095), END), "numbers in a result"),
    "features": ((8, 256, 256), (Dictionary(1, 256), END), "multiplications"),
    "views": ((1, 256, 256), (Shifts(2), Dictionary(1, 256), END), "multiplications"),
    "views of a large input": ((1, 2**11, 2**10 + 1), (Shifts(1), END), "numbers in a result"),
    "patches of views": (
        (1, 8, 8),
        (Shifts(1), Conv(1, 46, 1, 64, False), AveragePool(8), END),
        "in the patches",
    ),
    "pools": ((1, 900, 900), (*[MaxPool(1)] * 100, END), "multiplications"),
    "elements": (
        (2**12,),
        (Linear(2**13, False), Linear(2**12, False), Linear(2**3, False), END),
        "at most 67,108,864 elements",
    ),
    "a tensor": ((2**12,), (Linear(2**13 + 1, False), END), "2\\^25 elements"),
}


@pytest.mark.parametrize("name", HUGE)
def test_a_chain_beyond_the_limits_is_neither_written_nor_read(name):
    """docs/format.md, section 8.6; the verifier has the same limits."""
    shape, operations, because = HUGE[name]
    chain = Chain(shape, operations)
    message = Message(
        Options(Setting(chain.classes)),
        chain,
        {each: Zero(size) for each, size in chain.tensor_shapes().items()},
    )
    with pytest.raises(UsageError, match=because):
        message.encode()
    bits = Bits(*packed("111110" + encoded(*FRONT, "0", *as_chain(*operations), *[2] * len(message.codes))))
    with pytest.raises(FormatError, match=because):
        decode(bits, input_shape=shape)
    with pytest.raises(Refused, match=r"numbers|multiplications|elements"):
        in_second_program(bits, message)


@pytest.mark.parametrize(
    ("shape", "operations"),
    [
        ((1, 8, 8), (Conv(2**16, 1, 1, 0, False), MaxPool(8), END)),  # 2^22 numbers in a result
        ((1, 1, 1_398_099), (Residual(1, False), END)),
        ((1, 2**10, 2**11), (Shifts(1), MaxPool(2**10), END)),
        ((1, 256, 256), (Shifts(1), Dictionary(1, 256), END)),
    ],
)
def test_a_chain_at_the_limits_is_written_and_read(shape, operations):
    """The refusals above have teeth on the other side too."""
    chain = Chain(shape, operations)
    message = Message(
        Options(Setting(chain.classes)),
        chain,
        {each: Zero(size) for each, size in chain.tensor_shapes().items()},
    )
    bits, _ = message.encode()
    assert decode(bits, input_shape=shape).chain == chain
    in_second_program(bits, message)
