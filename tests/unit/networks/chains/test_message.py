"""Messages: exact inverse, the ledger of both programs, and the bits of a second, literal writer."""

from dataclasses import replace

import cbound_writer as reference
import numpy as np
import pytest
from drawing import examples
from hypothesis import assume, given
from hypothesis import strategies as st

import codebound_verify.container
import codebound_verify.header
import codebound_verify.message
import codebound_verify.networks.network
from codebound.bits.bitstring import Bits
from codebound.bits.messages import Options
from codebound.bits.setting import Setting
from codebound.run.errors import CodeboundError, FormatError, UsageError
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
from codebound_networks.codes.random_subspace import Subspace
from codebound_networks.codes.static import frequency_table
from codebound_networks.codes.tensors import (
    Adaptive,
    Codebook,
    Dense,
    Enumerative,
    Raw,
    Static,
    Zero,
    matrix_shape,
)
from codebound_papers.compress.codes import Filled, Filling, LowRank, Mixed, Projected, Ticket


@st.composite
def chains(draw) -> Chain:
    shape = draw(st.sampled_from([(1,), (5,), (1, 1, 1), (2, 4, 5), (3, 6, 6)]))
    small = st.integers(1, 4)
    image = st.one_of(
        st.builds(Conv, small, st.integers(1, 3), st.integers(1, 2), st.integers(0, 2), st.booleans()),
        st.builds(LocalConv, small, st.integers(1, 3), st.integers(1, 2), st.integers(0, 1), st.booleans()),
        st.builds(MaxPool, st.integers(1, 2)),
        st.builds(AveragePool, st.integers(1, 3)),
        st.just(GlobalAveragePool()),
        st.builds(Residual, small, st.booleans()),
        st.builds(NormalisedConv, small, st.sampled_from([1, 3, 7])),
    )
    operations = []
    if len(shape) == 3:
        operations += draw(st.lists(st.builds(Shifts, st.integers(1, 2)), max_size=1))
        features = st.builds(Dictionary, st.sampled_from([1, 3]), st.integers(1, 2))
        operations += draw(st.lists(features, max_size=1))
        operations += draw(st.lists(image, max_size=3))
    operations += draw(st.lists(st.builds(Linear, small, st.booleans()), max_size=2))
    try:
        return Chain(shape, (*operations, Linear(draw(st.integers(2, 4)), draw(st.booleans()))))
    except CodeboundError:
        assume(False)


OPTIONS = st.builds(
    Options,
    tenths=st.none() | st.integers(1, 9),
    theta_index=st.none() | st.integers(-8000, 8000),
    has_base=st.booleans(),
)
CONSTANTS = st.floats(0.0625, 300.0, width=32)
SCALINGS = st.sampled_from([Scaling(1.0), Scaling(16.0), Scaling(255.0)]) | st.builds(
    lambda divisor, mean, std: Scaling(divisor, (mean,), (std,)), CONSTANTS, CONSTANTS, CONSTANTS
)
INNER = ("adaptive", "zero", "dense", "enumerative", "static")
HELPED = ("projected", "low rank", "filled", "ticket", "mixed")


@st.composite
def tensor_codes(draw, shape):
    """A tensor in a random mode, as codebound and as the literal writer describe it."""
    mode = draw(st.sampled_from((*INNER, "codebook", "raw", *HELPED)))
    if mode == "mixed" and len(shape) < 2:
        mode = "ticket"
    return draw(helped_codes(shape, mode) if mode in HELPED else plain_codes(shape, mode))


def inner(shape):
    """Integers in a mode that may be inside others."""
    return st.sampled_from(INNER).flatmap(lambda mode: plain_codes(shape, mode, reach=400))


@st.composite
def helped_codes(draw, shape, mode):
    seed = draw(st.integers(0, 9))
    rows, columns = matrix_shape(shape)
    if mode == "projected":
        by_rows, gaussian = draw(st.booleans()), draw(st.booleans())
        ours, theirs = draw(inner((rows if by_rows else 1, draw(st.integers(1, 4)))))
        return (
            Projected(shape, ours, by_rows=by_rows, gaussian=gaussian, seed=seed),
            reference.projected(shape, theirs, rows=by_rows, gaussian=gaussian, seed=seed),
        )
    if mode == "low rank":
        rank = draw(st.integers(1, min(rows, columns, 3)))
        left, right = draw(inner((rows, rank))), draw(inner((rank, columns)))
        return LowRank(shape, left[0], right[0]), reference.low_rank(shape, left[1], right[1])
    if mode == "mixed":
        mixes = draw(st.integers(1, 3))
        ours, theirs = draw(inner((draw(st.integers(1, 4)),)))
        return Mixed(shape, ours, mixes, seed), reference.mixed(shape, theirs, mixes=mixes, seed=seed)
    ours, theirs = draw(inner(shape))
    if mode == "ticket":
        kind = draw(st.integers(0, 2))
        return Ticket(ours, kind, seed), reference.ticket(theirs, kind=kind, seed=seed)
    if draw(st.booleans()):
        return Filled(ours, None), reference.filled(theirs)
    fill = draw(st.booleans()), draw(st.integers(-400, 400)), draw(st.integers(-(2**20), 2**20)), seed
    return Filled(ours, Filling(*fill)), reference.filled(theirs, reference.Fill(*fill))


@st.composite
def plain_codes(draw, shape, mode, *, reach=1000):
    stream = np.random.default_rng(draw(st.integers(0, 2**32)))
    limit, step = draw(st.integers(1, 5)), draw(st.integers(-reach, min(reach, 900)))
    present = stream.random(shape) < draw(st.sampled_from([0.0, 0.3, 1.0]))
    levels = (stream.integers(-limit, limit + 1, shape) * present).astype(np.int32)
    if mode == "zero":
        return Zero(shape), reference.zero(shape)
    if mode == "raw":
        values = stream.normal(size=shape).astype(np.float32)
        return Raw(values), reference.raw(values)
    if mode == "codebook":
        table = stream.normal(size=draw(st.integers(1, 4))).astype(np.float32)
        indices = (stream.integers(0, len(table) + 1, shape) * present).astype(np.int32)
        return Codebook(indices, table), reference.codebook(table, indices - 1)
    if mode == "dense":
        return Dense(levels, step, limit), reference.dense(levels, step, limit=limit)
    if mode == "enumerative":
        return Enumerative(levels, step, limit), reference.enumerative(levels, step, limit=limit)
    if mode == "adaptive":
        rows, columns, kind = draw(st.booleans()), draw(st.booleans()), draw(st.integers(0, 3))
        stride = draw(st.integers(1, 3)) if kind == 3 else 1
        ours = Adaptive(
            levels, step, limit, row_flags=int(rows), column_flags=int(columns), kind=kind, stride=stride
        )
        theirs = reference.adaptive(
            levels, step, limit=limit, rows=rows, columns=columns, kind=kind, stride=stride
        )
        return ours, theirs
    table = frequency_table(np.bincount(levels.ravel() + limit, minlength=2 * limit + 1))
    lanes = draw(st.integers(0, 3))
    ours = Static(levels, step, limit, table=table, lanes_log2=lanes)
    return ours, reference.static(levels, step, limit=limit, lanes_log=lanes, table=table.tolist())


@st.composite
def subspaces(draw):
    """A subspace by codebound and by the literal writer."""
    mode, size = draw(st.sampled_from(INNER)), draw(st.integers(1, 12))
    ours, theirs = draw(plain_codes((size,), mode, reach=0))
    choices = draw(st.integers(0, 2)), draw(st.integers(-400, 400)), draw(st.booleans())
    seed = draw(st.integers(0, 9) | st.integers(0, 2**41 - 2))
    return Subspace(ours, *choices, seed), reference.Subspace(theirs, *choices, seed)


def literal(scaling: Scaling) -> dict:
    return {"divisor": scaling.divisor, "mean": list(scaling.mean), "std": list(scaling.std)}


@st.composite
def messages(draw):
    """A message by codebound and by the literal writer."""
    chain, scaling = draw(chains()), draw(SCALINGS)
    options = replace(draw(OPTIONS), setting=Setting(chain.classes, scaling))
    if draw(st.integers(0, 3)) == 0:
        ours, theirs = draw(subspaces())
        return Message(options, chain, ours), reference.Message(
            chain.describe(),
            theirs,
            split=options.tenths,
            theta=options.theta_index,
            has_base=options.has_base,
            scaling=literal(scaling),
        )
    pairs = {name: draw(tensor_codes(shape)) for name, shape in chain.tensor_shapes().items()}
    ours = Message(options, chain, {name: pair[0] for name, pair in pairs.items()})
    theirs = reference.Message(
        chain.describe(),
        {name: pair[1] for name, pair in pairs.items()},
        split=options.tenths,
        theta=options.theta_index,
        has_base=options.has_base,
        scaling=literal(scaling),
    )
    return ours, theirs


def verifier_network(bits: Bits, ours: Message):
    """What the verifier decodes from the bits: a header is made up around them."""
    options, chain = ours.options, ours.chain
    named = codebound_verify.header.Named("base", "0" * 64) if options.has_base else None
    statement = "C-10" if options.tenths else "C-2" if options.theta_index is None else "C-12a"
    fields = {
        "statement": statement,
        "base": named,
        "architecture": None,
        "code_bits": bits.length,
        "input_shape": chain.input_shape,
        "classes": chain.classes,
        "version": codebound_verify.versions.VERSIONS[2],
        "loss": codebound_verify.header.WRONG,
        "scaling": codebound_verify.header.Scaling(
            ours.setting.scaling.divisor, ours.setting.scaling.mean, ours.setting.scaling.std
        ),
    }
    everything = codebound_verify.header.Header.__dataclass_fields__
    header = codebound_verify.header.Header(**{name: fields.get(name) for name in everything})
    certificate = codebound_verify.container.Certificate(header, bits.data)
    base = {name: np.zeros(shape, np.float32) for name, shape in chain.tensor_shapes().items()}
    message = codebound_verify.message.Message(certificate)
    network = codebound_verify.networks.network.decode(message, base if options.has_base else None)
    return network, message.ledger


@given(messages())
@examples(120)
def test_three_programs_agree_on_every_bit(pair):
    """codebound writes what the literal writer writes; it and the verifier read what both wrote."""
    ours, theirs = pair
    assume(ours.options.tenths is None or ours.options.theta_index is None)  # no statement has both
    bits, ledger = ours.encode()
    assert str(bits) == theirs.bits
    assert [list(entry) for entry in ledger] == theirs.ledger
    assert sum(spent for _, spent in ledger) == bits.length

    again = decode(bits, input_shape=ours.chain.input_shape)
    assert again.options == ours.options
    assert again.chain == ours.chain
    network, their_ledger = verifier_network(bits, ours)
    assert tuple(their_ledger) == tuple(ledger)
    shapes, has_base = ours.chain.tensor_shapes(), ours.options.has_base
    base = {name: np.zeros(shape, np.float32) for name, shape in shapes.items()} if has_base else None
    if isinstance(theirs.tensors, reference.Subspace):
        exact = theirs.tensors.values(shapes, has_base=has_base)
    else:
        exact = {name: tensor.values for name, tensor in theirs.tensors.items()}
    decoded = again.weights(base)
    for name, weights in ours.weights(base).items():
        assert decoded[name].tobytes() == weights.tobytes()
        assert network.tensors[name].tobytes() == weights.tobytes()
        np.testing.assert_array_equal(weights, exact[name].astype(np.float32).reshape(weights.shape))


@given(messages(), st.data())
@examples(60)
def test_a_changed_length_is_never_the_same_message(pair, data):
    ours, _ = pair
    bits, _ = ours.encode()
    known = {"input_shape": ours.chain.input_shape}
    more = str(bits) + data.draw(st.text("01", min_size=1, max_size=20))
    fewer = str(bits)[: data.draw(st.integers(0, bits.length - 1))]
    for text in (more, fewer):
        with pytest.raises(FormatError):
            decode(Bits(reference.pack_bits(text), len(text)), **known)


def test_an_architecture_that_is_code_of_others_is_refused():
    message = reference.Message(None, {"a": reference.zero((2, 3))})
    with pytest.raises(FormatError, match=r"code of others \(a factory\), which this program does not run"):
        decode(Bits(message.packed(), len(message.bits)), input_shape=(3,))


def test_a_base_is_added_in_float64_and_rounded_once():
    base = {"0.weight": np.array([[1.0, 1e8]], np.float32).repeat(2, 0)}
    code = Dense(np.array([[1, 1], [0, -1]], np.int32), -8 * 30, 1)  # 2^-30 vanishes beside 1 in float32
    message = Message(Options(has_base=True), Chain((2,), (Linear(2, False),)), {"0.weight": code})
    assert (message.weights(base)["0.weight"] == base["0.weight"]).all()
    whole = replace(message, options=Options())
    assert whole.weights()["0.weight"][0, 0] == np.float32(2.0**-30)


def test_a_block_of_integers_is_in_the_ledger():
    q = np.arange(-1, 2, dtype=np.int32).repeat(20)
    static = Static(q, 0, 1, table=np.array([2**14, 2**15, 2**14]), lanes_log2=0)
    chain = Chain((2,), (Linear(2, False),))
    bits, ledger = Message(Options(), chain, Subspace(static, 0, 0, zero_head=False, seed=0)).encode()
    assert [part for part, _ in ledger][-2:] == ["end", "block integers"]
    assert dict(ledger)["block integers"] >= 40
    assert sum(spent for _, spent in ledger) == bits.length
    again = decode(bits, input_shape=(2,)).codes
    assert isinstance(again, Subspace)
    assert (again.inner.levels == q).all()


def subspace_bits(*steps) -> str:
    """A message of scheme 2 for one linear layer, from the methods of the literal coder after the head."""
    coder = reference.Coder()
    reference.write_setting(coder, 2, reference.AS_STORED)
    coder.gamma(2)
    for _ in range(3):  # no options
        coder.bit(0)
    reference.write_chain(coder, [["linear", 2, False]])
    for name, *arguments in steps:
        getattr(coder, name)(*arguments)
    return coder.end()


SMALL = (("gamma", 3), ("uniform", 0, 3))
HOSTILE = {
    "2^20 + 1 dimensions": ((("gamma", 2**20 + 1),), "at most 1,048,576 dimensions"),
    "a step beyond the grid": ((*SMALL, ("signed", 1001)), "a step lies between"),
    "a seed without end": ((*SMALL, ("signed", 0), ("bit", 0), *[("bit", 0)] * 60), "gamma code"),
    "floats": ((*SMALL, ("signed", 0), ("bit", 0), ("gamma", 1), ("gamma", 6)), "cannot have mode 6"),
    "a step of the integers": (
        (
            *SMALL,
            ("signed", 0),
            ("bit", 0),
            ("gamma", 1),
            ("gamma", 3),
            ("signed", 1),
            ("gamma", 1),
            *[("uniform", 1, 3)] * 3,
        ),
        "step 0. Got 1",
    ),
    "a value beyond float32": (
        (
            *SMALL,
            ("signed", 1000),
            ("bit", 1),
            ("gamma", 1),
            ("gamma", 3),
            ("signed", 0),
            ("gamma", 2**20),
            *[("uniform", 2**21, 2**21 + 1)] * 3,
        ),
        "float32",
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_subspaces_are_refused(name):
    steps, because = HOSTILE[name]
    text = subspace_bits(*steps)
    with pytest.raises(FormatError, match=because):
        decode(Bits(reference.pack_bits(text), len(text)), input_shape=(4,)).weights()


def header_bits(*numbers: int, options: str = "000") -> str:
    """The beginning of a message: method, options, then gamma codes."""
    return begun(*numbers, options=options).end()


def begun(*numbers: int, options: str = "000"):
    coder = reference.Coder()
    reference.write_setting(coder, 2, reference.AS_STORED)
    coder.gamma(1)
    for bit in options:
        coder.bit(int(bit))
    for number in numbers:
        coder.gamma(number)
    return coder


def chain_bits(*operations: list) -> str:
    coder = begun()
    reference.write_chain(coder, list(operations))
    return coder.end()


REFUSED = {
    "scheme 3": ("100011", "names a rule"),
    "scheme 5": ("10000101", "scheme 5"),
    "architecture 4": (header_bits(4), "architecture 4"),
    "257 operations": (header_bits(1, 257), "at most 256"),
    "operation 11": (header_bits(1, 2, 11), "operation 11"),
    "features without an image": (
        chain_bits(["dictionary", 1, 1], ["linear", 2, False]),
        "describes no network",
    ),
    "views without an image": (
        chain_bits(["views", 1], ["linear", 2, False]),
        "describes no network",
    ),
    "a width of 2^16 + 1": (header_bits(1, 2, 1, 2**16 + 1), "at most 65536"),
    "a last operation that is not linear": (header_bits(1, 1, 3, 1), "last operation"),
    "a pool without an image": (header_bits(1, 2, 3, 1, 1, 1), "describes no network"),
    "a number without end": ("1001000" + "0" * 60, "gamma code"),
    "theta beyond the grid": ("100101" + "0" * 14 + "1" + "0" * 40, "theta"),
    "nothing": ("", "gamma code"),
    "2^16 + 1 classes": ("0" * 16 + "1" + "0" * 20, "at most 65536 classes"),
    "two constants for one channel": ("111" + "01" + "01000010" * 20, "scaling has 2 constants"),
    "a divisor of zero": ("111" + "00" + "0" * 32 + "01000010" * 8, "positive"),
    "a divisor without end": ("111" + "00" + "0" + "1" * 31 + "0" * 70, "NaN or infinite"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_describes_no_network_is_refused(name):
    text, because = REFUSED[name]
    text += "0" * 8 * bool(text)
    with pytest.raises(FormatError, match=because):
        decode(Bits(reference.pack_bits(text), len(text)), input_shape=(4,))


HUGE = {
    "a result": (
        (1, 8, 9),
        (Conv(2**16, 1, 1, 0, False), MaxPool(8), Linear(2, False)),
        "numbers in a result",
    ),
    "padding": ((1, 8, 8), (Conv(1, 1, 2**12, 2**10, False), Linear(2, False)), "numbers in a result"),
    "patches": ((1, 8, 8), (Conv(1, 99, 1, 400, False), Linear(2, False)), "in the patches"),
    "local padding": (
        (1, 8, 8),
        (LocalConv(1, 1, 2**12, 2**10, False), Linear(2, False)),
        "numbers in a result",
    ),
    "local patches": ((1, 8, 8), (LocalConv(1, 99, 1, 400, False), Linear(2, False)), "in the patches"),
    "local filters": (
        (1, 64, 64),
        (LocalConv(1024, 3, 1, 1, False), MaxPool(64), Linear(2, False)),
        "2\\^25 elements",
    ),
    "multiplications": (
        (32, 64, 64),
        (Conv(64, 3, 1, 1, False), Conv(512, 3, 1, 1, False), Linear(2, False)),
        "multiplications",
    ),
    "a normalised window": (
        (1, 8, 8),
        (
            NormalisedConv(
                1,
                1023,
            ),
            Linear(2, False),
        ),
        "in the patches",
    ),
    "normalised padding": ((1, 8, 8), (NormalisedConv(1, 4095), Linear(2, False)), "numbers in a result"),
    "features": ((8, 256, 256), (Dictionary(1, 256), Linear(2, False)), "multiplications"),
    "views": (
        (1, 256, 256),
        (Shifts(2), Dictionary(1, 256), Linear(2, False)),
        "multiplications",
    ),
    "views of a large input": ((1, 2**12, 2**10 + 1), (Shifts(1), Linear(2, False)), "numbers in a result"),
    "pools": ((1, 900, 900), (*[MaxPool(1)] * 100, Linear(2, False)), "multiplications"),
    "elements": (
        (2**12,),
        (Linear(2**13, False), Linear(2**12, False), Linear(2**3, False), Linear(2, False)),
        "at most 67,108,864 elements",
    ),
    "a tensor": ((2**12,), (Linear(2**13 + 1, False), Linear(2, False)), "2\\^25 elements"),
}


@pytest.mark.parametrize("name", HUGE)
def test_a_chain_beyond_the_limits_is_neither_written_nor_read(name):
    """docs/format.md, section 5.1; the verifier has the same limits."""
    shape, operations, because = HUGE[name]
    chain = Chain(shape, operations)
    zeros = {each: Zero(size) for each, size in chain.tensor_shapes().items()}
    with pytest.raises(UsageError, match=because):
        Message(Options(), chain, zeros).encode()
    described = reference.Message(
        chain.describe(), {each: reference.zero(0) for each in zeros}, scaling=reference.AS_STORED
    )
    bits = Bits(described.packed(), len(described.bits))
    with pytest.raises(FormatError, match=because):
        decode(bits, input_shape=chain.input_shape)
    with pytest.raises(codebound_verify.Refused, match=r"numbers|multiplications|elements"):
        verifier_network(bits, Message(Options(), chain, {}))


def test_fewer_views_are_below_the_limit():
    for views in ((), (Shifts(1),)):
        chain = Chain((1, 256, 256), (*views, Dictionary(1, 256), Linear(2, False)))
        zeros = {each: Zero(size) for each, size in chain.tensor_shapes().items()}
        bits, _ = Message(Options(), chain, zeros).encode()
        assert decode(bits, input_shape=(1, 256, 256)).chain == chain
        verifier_network(bits, Message(Options(), chain, {}))


def test_a_chain_at_the_limits_is_written_and_read():
    """The refusals above have teeth on the other side too: 2^22 numbers in a result are allowed."""
    chain = Chain((1, 8, 8), (Conv(2**16, 1, 1, 0, False), MaxPool(8), Linear(2, False)))
    zeros = {each: Zero(size) for each, size in chain.tensor_shapes().items()}
    bits, _ = Message(Options(), chain, zeros).encode()
    assert decode(bits, input_shape=(1, 8, 8)).chain == chain
    assert verifier_network(bits, Message(Options(), chain, {}))[0].chain.widest() == 2**22
