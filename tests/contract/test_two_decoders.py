"""What codebound writes, codebound_verify reads: whole messages of any modes, to the same bits of float32."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from drawing import examples
from hypothesis import given, reject
from hypothesis import strategies as st
from worlds.messages import chains, codes, static_code, subspaces

from codebound.known.messages import Options, Setting
from codebound.run.errors import CodeboundError
from codebound.run.tensor_files import float32_sha256
from codebound.sample.dataset import Scaling
from codebound_networks.chains.chain import Chain
from codebound_networks.chains.message import Message
from codebound_networks.chains.operations import Dictionary, Linear, NormalisedConv, Shifts
from codebound_networks.codes.random_subspace import Subspace
from codebound_networks.codes.tensors import Dense
from codebound_papers.compress.codes import Filled, Filling, LowRank, Mixed, Projected, Ticket
from codebound_verify import Refused
from codebound_verify.header import Code, Header, Known, Made, Sample
from codebound_verify.message import Bits
from codebound_verify.networks.evaluation import evaluate, prepare
from codebound_verify.networks.network import read_network
from codebound_verify.networks.rounding import Rounded

SETTING = Setting(3, Scaling(16.0))


def decoded(message, base=None):
    """What the verifier makes of a message of codebound; the ledgers are the same."""
    written, ledger = message.encode()
    shape, made = message.chain.input_shape, base and Made("b", "other data", 0, float32_sha256(base))
    x = np.zeros((3, *shape), np.uint8)
    header = Header(
        sample=Sample(3, "0" * 64, shape, 3, "rows", "", "", "any", None, None),
        known=Known(0, (), None, made),
        message=Code(1, "0" * 64, ()),
        claim=None,
        original=None,
        declarations=(),
        made_by={},
        format={},
    )
    bits = Bits(written.data, written.length)
    assert bits.bits(6) == 0b111110
    bits.note("form")
    container = SimpleNamespace(header=header, witness=message.witness())
    network = read_network(bits, container, SimpleNamespace(x=x, y=np.zeros(3), is_cells=False), base)
    bits.finish()
    assert [tuple(entry) for entry in bits.ledger] == [tuple(entry) for entry in ledger]
    return network


def expect_the_same_bits(message, base=None):
    """Both programs decode the same numbers, or refuse those that float32 cannot hold."""
    try:
        expected = message.weights(base)
    except CodeboundError:
        with pytest.raises(Refused, match="too large"):
            decoded(message, base)
        reject()
    found = decoded(message, base)
    assert set(found.tensors) == set(expected)
    for name, values in expected.items():
        assert found.tensors[name].shape == values.shape
        assert found.tensors[name].tobytes() == values.tobytes(), name
    return found


def base_of(chain):
    random = np.random.default_rng(0)
    return {name: np.float32(random.normal(size=shape)) for name, shape in chain.tensor_shapes().items()}


@given(chains(), st.booleans(), st.data())
@examples(100)
def test_messages_of_any_modes(chain, has_base, data):
    tensors = {name: data.draw(codes(shape)) for name, shape in chain.tensor_shapes().items()}
    message = Message(Options(has_base=has_base, setting=SETTING), chain, tensors)
    expect_the_same_bits(message, base_of(chain) if has_base else None)


@given(chains(), subspaces(-200, -80), st.booleans())
@examples(50)
def test_chains_in_a_subspace_have_the_same_logits(chain, subspace, has_base):
    base = base_of(chain) if has_base else None
    message = Message(Options(has_base=has_base, setting=SETTING), chain, subspace)
    found = expect_the_same_bits(message, base)
    x = torch.from_numpy(np.random.default_rng(1).normal(size=(3, *chain.input_shape)))
    steps = list(zip(found.chain.operations, prepare(found.chain, found.tensors), strict=True))
    network = chain.build({name: torch.from_numpy(values) for name, values in found.tensors.items()})
    with torch.no_grad():
        own = evaluate(steps, Rounded(x, torch.zeros(3, dtype=torch.float64))).values
        torch.testing.assert_close(own, network.double()(x), rtol=1e-9, atol=1e-9)


def test_a_large_subspace():
    """Across the borders of chunks and of blocks, in a chain with every operation that has no state."""
    q = np.random.default_rng(0).integers(-2, 3, 3000).astype(np.int32)
    chain = Chain((3, 12, 12), (Shifts(2), Dictionary(3, 2), NormalisedConv(300, 5), Linear(3, True)))
    message = Message(
        Options(setting=SETTING), chain, Subspace(static_code(q, 0, 2, 4), 2, -21, zero_head=True, seed=5)
    )
    assert sum(values.size for values in expect_the_same_bits(message).tensors.values()) > 2**18


@pytest.mark.thorough
def test_larger_tensors():
    """Every mode across the borders of words, blocks and tiles."""
    random = np.random.default_rng(0)

    def dense(*sizes):
        return Dense(random.integers(-(2**20), 2**20, sizes).astype(np.int32), -200, 2**20)

    shape, long = (40, 2100), (3, 2**17 + 5)
    static = static_code(random.integers(-1, 2, long).astype(np.int32), -8, 1, 12)
    wide = {
        "signs": Projected(shape, dense(1, 37), by_rows=False, gaussian=False, seed=3),
        "sign rows": Projected(shape, dense(40, 37), by_rows=True, gaussian=False, seed=3),
        "gaussians": Projected(shape, dense(1, 37), by_rows=False, gaussian=True, seed=3),
        "gaussian rows": Projected(shape, dense(40, 37), by_rows=True, gaussian=True, seed=3),
        "low rank": LowRank(shape, dense(40, 19), dense(19, 2100)),
        "mixed": Mixed(shape, dense(50), mixes=60, seed=8),
    }
    last = [Ticket(static, kind=kind, seed=kind) for kind in range(3)]
    last.append(Filled(static, Filling(everywhere=False, step=-100, mean=-7, seed=11)))
    for code in wide.values():
        chain = Chain((2100,), (Linear(40, False), Linear(3, False)))
        tensors = {"0.weight": code, "1.weight": dense(3, 40)}
        assert expect_the_same_bits(Message(Options(setting=SETTING), chain, tensors))
    for code in last:
        chain = Chain((long[1],), (Linear(3, False),))
        assert expect_the_same_bits(Message(Options(setting=SETTING), chain, {"0.weight": code}))
