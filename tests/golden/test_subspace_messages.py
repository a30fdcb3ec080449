"""Frozen bytes of messages of scheme 2, and of what they decode to, from the literal writer."""

import cbound_writer as reference
import numpy as np
import pytest

from codebound.bits.bitstring import Bits
from codebound.bits.messages import Options
from codebound.bits.setting import Setting
from codebound_networks.chains.chain import Chain
from codebound_networks.chains.message import Message, decode
from codebound_networks.chains.operations import Dictionary, Linear, NormalisedConv, Shifts
from codebound_networks.codes.random_subspace import Subspace
from codebound_networks.codes.tensors import Adaptive, Dense, Static

Z = np.array([3, -1, 0, 2, -3], dtype=np.int32)
F = [4096, 2048, 16384, 20480, 8192, 6144, 8192]

# name: the chain, ours, the literal writer's, the bits ("length:hex"), the float32 values (big-endian hex)
GOLDEN = {
    "a linear layer": (
        Chain((4,), (Linear(2, True),)),
        Subspace(Dense(Z, 0, 3), entries_log2=0, step=-21, zero_head=False, seed=0),
        reference.Subspace(reference.dense(Z), 0, -21, False, 0),
        "52:43ca0387d45c50",
        "3efc7f21bf14bfdbbee97fb63f61c06fbebc7f21be25fed7be52ff6cbda5fed7bef8fe42bef8fe42",
    ),
    "a head that starts at zero, four entries": (
        Chain((4,), (Linear(2, False), Linear(2, False))),
        Subspace(Adaptive(Z, 0, 3), entries_log2=2, step=-3, zero_head=True, seed=41),
        reference.Subspace(reference.adaptive(Z), 2, -3, True, 41),
        "70:42a916f01c903eb0e4",
        "bf05672abfb2b395bff2b395bf22b395becace543fc2b395befa98d6401b607a40c5672a00000000bfc5672ac0940d60",
    ),
    "a block, and operations without tensors": (
        Chain((1, 2, 2), (Shifts(2), Dictionary(3, 1), NormalisedConv(1, 1), Linear(2, False))),
        Subspace(
            Static(Z, 0, 3, table=np.array(F), lanes_log2=1), entries_log2=1, step=5, zero_head=False, seed=6
        ),
        reference.Subspace(reference.static(Z, table=F, lanes_log=1), 1, 5, False, 6),
        "343:4241424a140b62f7ecc6789b3b7b7d03adcaabe78030c43dc8a4d2600dc47b24ac033337d0000055566000",
        (
            "3fc5672abf9c0d60bf681abfbf12b395bfdd672ac00c0d60bee000003ffd672abf45672a3ec5672a3f25672a"
            "bfb5672a400b607abfc40d60bfe81abfbe400000bf22b3953ff81abfbf000000c0980d60c0140d6040340d60"
            "c02d672a404c0d604076c0f4"
        ),
    ),
}


def values_of(tensors: dict[str, np.ndarray]) -> str:
    return "".join(values.astype(">f4").tobytes().hex() for values in tensors.values())


@pytest.mark.parametrize("name", GOLDEN)
def test_golden_bytes(name):
    chain, ours, theirs, pinned, values = GOLDEN[name]
    literal = reference.Message(chain.describe(), theirs, version=1)
    assert f"{len(literal.bits)}:{literal.packed().hex()}" == pinned
    assert values_of(theirs.values(chain.tensor_shapes())) == values
    bits, _ = Message(Options(), chain, ours).encode()
    assert str(bits) == "100" + literal.bits  # two classes, inputs as stored; then as in version 1


@pytest.mark.parametrize("name", GOLDEN)
def test_the_frozen_bytes_decode_to_the_frozen_values(name):
    chain, ours, _, pinned, values = GOLDEN[name]
    length, _, octets = pinned.partition(":")
    message = decode(
        Bits(bytes.fromhex(octets), int(length)), input_shape=chain.input_shape, known=Setting(chain.classes)
    )
    assert message.chain == chain
    assert values_of(message.weights()) == values
    found = message.codes
    assert isinstance(found, Subspace)
    assert (found.entries_log2, found.step, found.zero_head, found.seed) == (
        ours.entries_log2,
        ours.step,
        ours.zero_head,
        ours.seed,
    )
    assert found.inner.levels.tolist() == Z.tolist()
