"""What codebound writes, codebound_verify reads: whole messages of any modes, to the same bits of float32."""

import math
from dataclasses import replace

import cbound_writer as writer
import numpy as np
import pytest
import torch
from any_tensors import any_tensors
from drawing import examples
from hypothesis import given, reject
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from worlds.literal import forward

from codebound.bits.options import Options
from codebound.bits.setting import Setting
from codebound.run.errors import CodeboundError
from codebound.sample.dataset import Scaling
from codebound_networks.chains.chain import Chain
from codebound_networks.chains.message import Message
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
from codebound_papers.compress.codes import Filled, Filling, LowRank, Mixed, Projected, Ticket
from codebound_papers.guha23.sketch.code import Sketched
from codebound_papers.guha23.sketch.codec import solved
from codebound_verify import Refused
from codebound_verify.container import read
from codebound_verify.message import Message as TheirMessage
from codebound_verify.networks.chain import described_chain
from codebound_verify.networks.network import decode

SHAPES = arrays.array_shapes(min_dims=0, max_dims=5, max_side=4) | st.sampled_from([(3, 130), (2, 65, 2)])
SEEDS = st.integers(0, 9) | st.integers(0, 2**41 - 2)
STEPS = st.integers(-300, 300)
X, Y = writer.clusters(3)


@st.composite
def integers(draw, shape):
    """A code that may stand inside another."""
    mode = draw(st.sampled_from([1, 2, 3, 4, 7, 14]))
    if mode == 2:
        return Zero(shape)
    limits = {1: [1, 5, 300], 7: [1, 5, 300], 14: [1, 5, 255]}
    limit = draw(st.sampled_from(limits.get(mode, [1, 5, 2**20])))
    q = draw(arrays.arrays(np.int32, shape, elements=st.integers(-limit, limit), fill=st.just(0)))
    step = draw(STEPS)
    if mode == 1:
        flags = draw(st.tuples(*[st.integers(0, 1)] * 2))
        kind = draw(st.integers(0, 3))
        return Adaptive(q, step, limit, row_flags=flags[0], column_flags=flags[1], kind=kind, stride=2)
    if mode == 7:
        table = frequency_table(np.bincount(q.ravel() + limit, minlength=2 * limit + 1))
        return Static(q, step, limit, table=table, lanes_log2=draw(st.integers(0, 6)))
    if mode == 14:
        return Bell(q, step, width=draw(st.integers(0, 63)))
    return {3: Dense, 4: Enumerative}[mode](q, step, limit)


@st.composite
def codes(draw, shape):
    """A code of any mode."""
    rows = shape[0] if len(shape) > 1 else 1
    columns = math.prod(shape) // rows
    size, seed = draw(st.integers(1, 9)), draw(SEEDS)
    some = [12] * (len(shape) > 1) + [13]
    mode = draw(st.sampled_from(["plain", "codebook", "raw", 8, 9, 10, 11, *some]))
    floats = st.floats(-100, 100, width=32)
    if mode == "plain":
        return draw(integers(shape))
    if mode == "codebook":
        index = draw(arrays.arrays(np.int32, shape, elements=st.integers(0, size)))
        return Codebook(index, draw(arrays.arrays(np.float32, size, elements=floats)))
    if mode == "raw":
        return Raw(draw(arrays.arrays(np.float32, shape, elements=floats)))
    if mode == 8:
        by_rows, gaussian = draw(st.booleans()), draw(st.booleans())
        z = draw(integers((rows if by_rows else 1, size)))
        return Projected(shape, z, by_rows=by_rows, gaussian=gaussian, seed=seed)
    if mode == 9:
        rank = min(size, rows, columns)
        return LowRank(shape, draw(integers((rows, rank))), draw(integers((rank, columns))))
    if mode == 10:
        means = st.integers(-(2**20), 2**20)
        fillings = st.builds(Filling, everywhere=st.booleans(), step=STEPS, mean=means, seed=st.just(seed))
        return Filled(draw(integers(shape)), draw(st.none() | fillings))
    if mode == 11:
        return Ticket(draw(integers(shape)), kind=draw(st.integers(0, 2)), seed=seed)
    if mode == 13:  # as wide as the matrix, with one in a column: every sketch has one matrix
        return solved(Sketched(shape, draw(integers((rows, columns))), degree=1, seed=seed))
    return Mixed(shape, draw(integers((size,))), mixes=draw(st.integers(1, 5)), seed=seed)


SETTING = Setting(3, Scaling(16.0))  # of the literal writer


def decoded(message: Message, base, x=X):
    """What the verifier makes of a message of codebound, in a file of the literal writer."""
    bits, ledger = message.encode()
    file = writer.Message(None, {})
    file.bits, file.ledger = str(bits), [list(entry) for entry in ledger]
    names = {} if base is None else {"base": {"name": "b", "sha256": "0" * 64}}
    fields = writer.header(file, x, Y, errors=3, classes=3, **names)
    certificate = read(writer.write(file, fields, witness=message.witness()))
    message = TheirMessage(certificate)
    network = decode(message, base)
    assert [list(entry) for entry in message.ledger] == file.ledger
    return network


@st.composite
def bases(draw, layout):
    """Tensors that decoded ones are differences to."""
    elements = st.floats(-9, 9, width=32)
    return {name: draw(arrays.arrays(np.float32, shape, elements=elements)) for name, shape in layout}


def expect_the_same_bits(message: Message, base) -> None:
    """Both programs decode the same numbers, or refuse those that float32 cannot hold."""
    try:
        expected = message.weights(base)
    except CodeboundError:
        with pytest.raises(Refused, match="too large"):
            decoded(message, base)
        return
    found = decoded(message, base).tensors
    assert list(found) == list(expected)
    for name, values in expected.items():
        assert found[name].shape == values.shape
        assert found[name].tobytes() == values.tobytes()


@pytest.mark.thorough
@given(st.lists(SHAPES, min_size=1, max_size=4), st.booleans(), st.data())
@examples(300)
def test_messages_of_any_modes(shapes, has_base, data):
    layout = tuple((f"t{i}", shape) for i, shape in enumerate(shapes))
    tensors = {name: data.draw(codes(shape)) for name, shape in layout}
    with any_tensors(layout) as chain:
        message = Message(Options(has_base=has_base, setting=SETTING), chain, tensors)
        expect_the_same_bits(message, data.draw(bases(layout)) if has_base else None)


@st.composite
def subspaces(draw):
    """Integers in any mode, with step 0."""
    q = draw(integers((draw(st.integers(1, 40)),)))
    if not isinstance(q, Zero):
        q = replace(q, step=0)
    entries, step = draw(st.integers(0, 2)), draw(st.integers(-1000, 1000))
    return Subspace(q, entries, step, zero_head=draw(st.booleans()), seed=draw(SEEDS))


@given(st.lists(SHAPES, max_size=4), subspaces(), st.booleans(), st.data())
@examples(200)
def test_tensors_in_a_subspace(shapes, subspace, has_base, data):
    layout = tuple((f"t{i}", shape) for i, shape in enumerate(shapes))
    with any_tensors(layout) as chain:
        message = Message(Options(has_base=has_base, setting=SETTING), chain, subspace)
        expect_the_same_bits(message, data.draw(bases(layout)) if has_base else None)


ON_IMAGES = (
    st.builds(Conv, st.integers(1, 3), st.integers(1, 2), st.integers(1, 2), st.integers(0, 1), st.booleans())
    | st.builds(LocalConv, st.integers(1, 2), st.integers(1, 2), st.just(1), st.integers(0, 1), st.booleans())
    | st.builds(NormalisedConv, st.integers(1, 3), st.sampled_from([1, 3, 5]))
    | st.builds(MaxPool, st.integers(1, 2))
    | st.builds(AveragePool, st.integers(1, 2))
    | st.builds(Residual, st.integers(3, 51), st.booleans())
    | st.just(GlobalAveragePool())
)


@st.composite
def chains(draw):
    """Chains that may have views, a dictionary and normalised convolutions."""
    operations = [
        *draw(st.lists(st.builds(Shifts, st.integers(1, 4)), max_size=1)),
        *draw(st.lists(st.builds(Dictionary, st.sampled_from([1, 3]), st.integers(1, 2)), max_size=1)),
        *draw(st.lists(ON_IMAGES, max_size=2)),
        *draw(st.lists(st.builds(Linear, st.integers(1, 4), st.booleans()), max_size=1)),
        Linear(3, draw(st.booleans())),
    ]
    channels = draw(st.integers(1, 3))
    try:
        return Chain((channels, 3, 4), tuple(operations))
    except CodeboundError:
        reject()


@given(chains(), subspaces(), st.integers(-200, -80), st.booleans())
@examples(150)
def test_chains_in_a_subspace(chain, subspace, step, has_base):
    """The same bits of the tensors, and the same logits."""
    random = np.random.default_rng(0)
    base = {name: np.float32(random.normal(size=shape)) for name, shape in chain.tensor_shapes().items()}
    message = Message(Options(has_base=has_base, setting=SETTING), chain, replace(subspace, step=step))
    x = random.normal(size=(3, *chain.input_shape))
    network = decoded(message, base if has_base else None, x)
    tensors = message.weights(base if has_base else None)
    assert {name: values.tobytes() for name, values in network.tensors.items()} == {
        name: values.tobytes() for name, values in tensors.items()
    }
    own = [{} for _ in chain.operations]
    for name, values in tensors.items():
        position, kind = name.split(".", 1)
        own[int(position)][kind] = torch.from_numpy(values)
    x = torch.from_numpy(x)
    with torch.no_grad():
        logits = chain.build({name: torch.from_numpy(values) for name, values in tensors.items()}).double()(x)
        torch.testing.assert_close(forward(network.chain, own, x), logits, rtol=1e-9, atol=1e-9)


STAGES = st.builds(
    writer.Stage, st.integers(0, 2), st.integers(1, 3), st.integers(0, 2), st.sampled_from([0, 0, 1, 2])
)
STACKS = st.builds(
    writer.Stack,
    v=st.integers(0, 4),
    t=st.sampled_from([0, 1, 3]),
    p=st.integers(1, 4),
    i=st.integers(0, 7),
    stages=st.lists(STAGES, min_size=1, max_size=4).map(tuple),
    e=st.integers(0, 3),
)
KINDS = {
    "views": Shifts,
    "dictionary": Dictionary,
    "normalised conv": NormalisedConv,
    "max pool": MaxPool,
    "average pool": AveragePool,
    "global average pool": GlobalAveragePool,
    "linear": Linear,
}


@given(STACKS)
def test_stacks(stack):
    """Every point of the grid that fits is the same chain to both, and costs no more than that point."""
    input_shape = (1, 9, 10)
    operations = tuple(KINDS[kind](*sizes) for kind, *sizes in stack.chain(3))
    try:
        message = Message(
            Options(setting=SETTING), Chain(input_shape, operations), Subspace(Zero((4,)), 0, -9, True, 0)
        )
        network = decoded(message, None, np.zeros((3, *input_shape)))
    except CodeboundError:
        reject()
    assert network.chain.layout() == tuple(message.chain.tensor_shapes().items())
    literal = writer.Message(stack, writer.Subspace(writer.zero((4,)), 0, -9, True, 0))
    assert len(str(message.encode()[0])) <= len(literal.bits) + 1  # some have several points of the grid


def test_a_large_subspace():
    """Across the borders of chunks and of blocks, in a chain with every operation that has no state."""
    q = np.random.default_rng(0).integers(-2, 3, 3000).astype(np.int32)
    static = Static(q, 0, 2, table=frequency_table(np.bincount(q + 2)), lanes_log2=4)
    chain = Chain((3, 12, 12), (Shifts(2), Dictionary(3, 2), NormalisedConv(300, 5), Linear(3, True)))
    message = Message(Options(setting=SETTING), chain, Subspace(static, 2, -21, zero_head=True, seed=5))
    network = decoded(message, None, x=np.zeros((3, 3, 12, 12), np.uint8))
    expected = message.weights()
    assert sum(values.size for values in expected.values()) > 2**18
    assert set(network.tensors) == set(expected)
    for name, values in expected.items():
        assert network.tensors[name].tobytes() == values.tobytes(), name


@pytest.mark.thorough
def test_larger_tensors():
    """Every mode across the borders of words, blocks and tiles."""
    random = np.random.default_rng(0)
    shape, long = (40, 3, 700), (3, 2**17 + 5)

    def dense(*sizes):
        return Dense(random.integers(-(2**20), 2**20, sizes).astype(np.int32), -200, 2**20)

    q = random.integers(-1, 2, long).astype(np.int32)
    static = Static(q, -8, 1, table=frequency_table(np.bincount(q.ravel() + 1)), lanes_log2=12)
    found = {
        "signs": Projected(shape, dense(1, 37), by_rows=False, gaussian=False, seed=3),
        "sign rows": Projected(shape, dense(40, 37), by_rows=True, gaussian=False, seed=3),
        "gaussians": Projected(shape, dense(1, 37), by_rows=False, gaussian=True, seed=3),
        "gaussian rows": Projected(shape, dense(40, 37), by_rows=True, gaussian=True, seed=3),
        "low rank": LowRank(shape, dense(40, 19), dense(19, 2100)),
        "mixed": Mixed(shape, dense(50), mixes=60, seed=8),
        **{f"ticket {kind}": Ticket(static, kind=kind, seed=kind) for kind in range(3)},
        "filled": Filled(static, Filling(everywhere=False, step=-100, mean=-7, seed=11)),
    }
    with any_tensors({name: code.shape for name, code in found.items()}) as chain:
        message = Message(Options(setting=SETTING), chain, found)
        expected = message.weights()
        for name, values in decoded(message, None).tensors.items():
            assert values.tobytes() == expected[name].tobytes(), name


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("shape", "sizes", "ones", "count", "limit"),
    [
        ((40, 40), (26, 26), 5, 80, 3),
        ((30, 10, 3, 3), (22, 40), 4, 60, 100),
        ((100, 100), (62, 62), 5, 900, 3),
        ((120, 70), (50, 40), 6, 150, 15),
        ((9, 1), (9, 1), 1, 5, 5),
        ((20, 50), (16, 36), 4, 20, 2**12),
    ],
)
def test_sketched_tensors(shape, sizes, ones, count, limit):
    """Two solvers and two proofs, one matrix; some have a smaller one than that which was planted."""
    random = np.random.default_rng(0)
    for seed in range(3):
        x = np.zeros((shape[0], math.prod(shape[1:])), int)
        where = random.choice(x.size, count, replace=False)
        x.ravel()[where] = random.choice([-1, 1], count) * random.integers(1, limit + 1, count)
        y = writer.sketch_of(x, sizes, t=ones, seed=seed).astype(np.int32)
        code = Sketched(shape, Dense(y, -20, max(1, int(np.abs(y).max()))), degree=ones, seed=seed)
        with any_tensors({"w": shape}) as chain:
            message = Message(Options(setting=SETTING), chain, {"w": solved(code)})
            expected = message.weights()["w"]
            assert decoded(message, None).tensors["w"].tobytes() == expected.tobytes()
        assert np.mean((expected != 0) == (x.reshape(shape) != 0)) > 0.95


def test_chains_with_local_convolutions_have_the_same_tensors():
    chain = Chain(
        (1, 2, 2), (LocalConv(3, 2, 1, 1, True), AveragePool(2), Conv(2, 1, 1, 0, True), Linear(3, True))
    )
    entries = [
        ["local conv", 3, 2, 1, 1, True],
        ["average pool", 2],
        ["conv", 2, 1, 1, 0, True],
        ["linear", 3, True],
    ]
    assert dict(described_chain(entries, (1, 2, 2), 3).layout()) == chain.tensor_shapes()
    weights = {name: Raw(np.ones(shape, np.float32)) for name, shape in chain.tensor_shapes().items()}
    weights["0.weight"] = Mixed((9, 3, 1, 2, 2), Dense(np.int32([1, -2]), 0, 2), mixes=3, seed=1)
    message = Message(Options(setting=SETTING), chain, weights)
    network = decoded(message, None)
    assert network.chain.operations[0].kind == "local conv"
    for name, values in message.weights().items():
        assert network.tensors[name].tobytes() == values.tobytes()
