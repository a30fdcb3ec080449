"""What codebound writes, codebound_verify reads: whole messages of any modes, to the same bits of float32."""

import math

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
from worlds.messages import STACKS, chain_of_stack, chains, codes, subspaces

from codebound.bits.messages import Options
from codebound.bits.setting import Setting
from codebound.run.errors import CodeboundError
from codebound.sample.dataset import Scaling
from codebound_networks.chains.chain import Chain
from codebound_networks.chains.message import Message
from codebound_networks.chains.operations import (
    AveragePool,
    Conv,
    Dictionary,
    Linear,
    LocalConv,
    NormalisedConv,
    Shifts,
)
from codebound_networks.codes.random_subspace import Subspace
from codebound_networks.codes.static import frequency_table
from codebound_networks.codes.tensors import Dense, Raw, Static, Zero
from codebound_papers.compress.codes import Filled, Filling, LowRank, Mixed, Projected, Ticket
from codebound_papers.guha23.sketch.codec import Sketched, solved
from codebound_verify import Refused
from codebound_verify.container import read
from codebound_verify.message import Message as TheirMessage
from codebound_verify.networks.chain import parse_chain
from codebound_verify.networks.network import decode

SHAPES = arrays.array_shapes(min_dims=0, max_dims=5, max_side=4) | st.sampled_from([(3, 130), (2, 65, 2)])
X, Y = writer.clusters(3)
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


@given(st.lists(SHAPES, max_size=4), subspaces(), st.booleans(), st.data())
@examples(200)
def test_tensors_in_a_subspace(shapes, subspace, has_base, data):
    layout = tuple((f"t{i}", shape) for i, shape in enumerate(shapes))
    with any_tensors(layout) as chain:
        message = Message(Options(has_base=has_base, setting=SETTING), chain, subspace)
        expect_the_same_bits(message, data.draw(bases(layout)) if has_base else None)


@given(chains(), subspaces(-200, -80), st.booleans())
@examples(150)
def test_chains_in_a_subspace(chain, subspace, has_base):
    """The same bits of the tensors, and the same logits."""
    random = np.random.default_rng(0)
    base = {name: np.float32(random.normal(size=shape)) for name, shape in chain.tensor_shapes().items()}
    message = Message(Options(has_base=has_base, setting=SETTING), chain, subspace)
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


@given(STACKS)
def test_stacks(stack):
    """Every point of the grid that fits is the same chain to both, and costs no more than that point."""
    chain = chain_of_stack(stack)
    message = Message(Options(setting=SETTING), chain, Subspace(Zero((4,)), 0, -9, True, 0))
    try:
        network = decoded(message, None, np.zeros((3, *chain.input_shape)))
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
    assert dict(parse_chain(entries, (1, 2, 2), 3).layout()) == chain.tensor_shapes()
    weights = {name: Raw(np.ones(shape, np.float32)) for name, shape in chain.tensor_shapes().items()}
    weights["0.weight"] = Mixed((9, 3, 1, 2, 2), Dense(np.int32([1, -2]), 0, 2), mixes=3, seed=1)
    message = Message(Options(setting=SETTING), chain, weights)
    network = decoded(message, None)
    assert network.chain.operations[0].kind == "local conv"
    for name, values in message.weights().items():
        assert network.tensors[name].tobytes() == values.tobytes()
