"""Frozen bytes of every code of a tensor, and of what it decodes to."""

import numpy as np
import pytest

from codebound.bits.plain_code import Bits
from codebound_networks.codes.modes import decode_tensors, encode_tensors
from codebound_networks.codes.tensors import Adaptive, Codebook, Dense, Enumerative, Raw, Static, Zero
from codebound_papers.compress.codes import Filled, Filling, LowRank, Mixed, Projected, Ticket
from codebound_papers.guha23.sketch.codec import Sketched, solved

Q = np.array([[0, 2, 0, -1], [0, 0, 0, 0], [1, 0, -2, 0]], dtype=np.int32)
F = [8192, 8192, 40000, 4096, 5056]
Z = np.array([[3, -1, 0, 2, -3]], dtype=np.int32)
U, V = Q[:, :2].copy(), Q[[0, 2]]
X = np.zeros((5, 6), dtype=np.int64)
X[0, 1], X[3, 4], X[4, 0] = 2, -1, 1
Y = np.array([[0, -1, -1, 0], [2, 0, 0, 2], [2, 0, 1, 3], [0, -1, 0, 1]], dtype=np.int32)
Y3 = np.array([[-1, 0, 0, 0, -1], [-1, 3, 1, 2, -1], [0, 1, 1, 0, 0], [0, 2, 0, 2, 0]], dtype=np.int32)
TABLE = np.array([-0.5, 0.75, 3.0], dtype=np.float32)
INDEX = np.array([[0, 3, 0], [1, 0, 2]], dtype=np.int32)
VALUES = np.array([1.0, -0.0, 3.5e38 / 2], dtype=np.float32)
F3 = [0, 0, 9000, 30000, 9000, 9000, 8536]

# name: the code, the bits ("length:hex"), the float32 values (big-endian hex)
GOLDEN = {
    "adaptive": (
        Adaptive(Q, -21, 2, row_flags=1, column_flags=1, kind=3, stride=2),
        "47:82a5cfa3eef6",
        "000000003ea5fed700000000be25fed7000000000000000000000000000000003e25fed700000000bea5fed700000000",
    ),
    "zero": (Zero((3, 4)), "3:40", 12 * "00000000"),
    "dense": (
        Dense(Q, -21, 2),
        "46:60a94a0906d0",
        "000000003ea5fed700000000be25fed7000000000000000000000000000000003e25fed700000000bea5fed700000000",
    ),
    "enumerative": (
        Enumerative(Q, 5, 2),
        "36:20b4b31690",
        "000000004045672a00000000bfc5672a000000000000000000000000000000003fc5672a00000000c045672a00000000",
    ),
    "codebook": (
        Codebook(INDEX, TABLE),
        "117:2bbf0000003f400000404000007828",
        "000000004040000000000000bf000000000000003f400000",
    ),
    "raw": (Raw(VALUES), "101:31fc00000400000003f81d3e30", "3f800000800000007f03a7c6"),
    "static": (
        Static(Q, -21, 2, table=np.array(F), lanes_log2=1),
        "239:382a4000800400100080009c410008008004f0460734badd0005d71de100",
        "000000003ea5fed700000000be25fed7000000000000000000000000000000003e25fed700000000bea5fed700000000",
    ),
    "projected, one vector of signs": (
        Projected((3, 4), Dense(Z, -21, 3), by_rows=False, gaussian=False, seed=0),
        "47:1016c153e8a8",
        "be25fed73e25fed7bf913efcbfbabeb2bef8fe42be25fed73f913efc3e25fed73f4f7e8d3f913efc3f913efcbe25fed7",
    ),
    "projected, Gaussian rows": (
        Projected((3, 2, 2), Static(Q, 5, 2, table=np.array(F), lanes_log2=1), True, True, 41),
        "260:1190151c5a000400200080040004e2080040040027823039a5d6e8002eb8ef0800",
        "c1140d6040940d604145672a40c5672a0000000000000000000000000000000041140d6041140d60c145672a41140d60",
    ),
    "low rank": (
        LowRank((3, 2, 2), Enumerative(U, -30, 2), Adaptive(V, 9, 2, kind=1)),
        "81:12880f12e360145266e380",
        "3ea5fed700000000bf25fed70000000000000000000000000000000000000000000000003ea5fed700000000be25fed7",
    ),
    "low rank, two blocks": (
        LowRank(
            (3, 4),
            Static(U, 0, 2, table=np.array(F), lanes_log2=0),
            Static(V, 1, 2, table=np.array(F), lanes_log2=1),
        ),
        (
            "429:128f4000800400100080009c410008008004f04123b13d89ec3f200253b3289e276764c25595082eb6fc98"
            "000abcdb9c0008b387de00"
        ),
        "400b95c200000000c08b95c2000000000000000000000000000000000000000000000000400b95c200000000bf8b95c2",
    ),
    "filled with nothing": (
        Filled(Dense(Q, -21, 2), None),
        "54:14c15294120d9c",
        "000000003ea5fed700000000be25fed7000000000000000000000000000000003e25fed700000000bea5fed700000000",
    ),
    "filled where zero": (
        Filled(Dense(Q, -21, 2), Filling(everywhere=False, step=-77, mean=-5, seed=3)),
        "82:14c15294120da320e03ec0",
        "bbcf7e8d3ea5fed7bcd9de7abe25fed73e1f82e3bddc7676bdb2f6c0bcd9de7a3e25fed7be17baf1bea5fed7bdb2f6c0",
    ),
    "filled everywhere": (
        Filled(Dense(Q, -21, 2), Filling(everywhere=True, step=-70, mean=0, seed=0)),
        "72:14c15294120da78652",
        "bd1837f03e92f7d93e6453e8bdb3c5bebde453e83e1837f0bde453e8000000003e8c1466bd9837f0beb905d5be8530f2",
    ),
    "ticket of signs": (
        Ticket(Dense(Q, -21, 2), kind=0, seed=0),
        "55:16758dc3585798",
        "000000003ea5fed700000000be25fed7000000000000000000000000000000003e25fed7000000003ea5fed700000000",
    ),
    "ticket of Gaussians": (
        Ticket(Adaptive(Q, 3, 2), kind=1, seed=6),
        "51:16d3456745ba60",
        "000000004178fe4200000000c0a5fed700000000000000000000000000000000c0cf7e8d00000000c0a5fed700000000",
    ),
    "ticket of odd integers": (
        Ticket(Dense(Q, -130, 2), kind=2, seed=1),
        "63:1788015b18ada930",
        "000000003dae89df000000003f3ebaa7000000000000000000000000000000003f5086a100000000bfa304d900000000",
    ),
    "mixed": (
        Mixed((3, 2, 2), Dense(Z[0], -60, 3), mixes=2, seed=5),
        "54:1854660787d150",
        "c01971323fd421cd3f9e6455bf624630be87c3b63e9314053f0d6bde3e87c3b63bb504f3bbb504f3bc87c3b63d78e6ce",
    ),
    "mixed zeros": (
        Mixed((3, 2), Zero((4,)), mixes=1, seed=0),
        "17:184d00",
        "000000000000000000000000000000000000000000000000",
    ),
    "sketched": (
        Sketched((5, 2, 3), Dense(Y, -21, 3), degree=2, seed=0, matrix=X),
        "84:1a422b054de83d27297730",
        (
            "000000003ea5fed70000000000000000000000000000000000000000000000000000000000000000"
            "00000000000000000000000000000000000000000000000000000000000000000000000000000000"
            "0000000000000000be25fed7000000003e25fed70000000000000000000000000000000000000000"
        ),
    ),
    "sketched, with a block": (
        Sketched((5, 6), Static(Y3, 5, 3, table=np.array(F3), lanes_log2=1), degree=2, seed=3, matrix=X),
        "296:1a42a21c5bc0011948001d4c4001194800232900042b2300b64f0f060004a947100a10c390",
        (
            "000000004045672a0000000000000000000000000000000000000000000000000000000000000000"
            "00000000000000000000000000000000000000000000000000000000000000000000000000000000"
            "0000000000000000bfc5672a000000003fc5672a0000000000000000000000000000000000000000"
        ),
    ),
}


def numbers(values: np.ndarray) -> str:
    return values.astype(">f4").tobytes().hex()


@pytest.mark.parametrize("name", GOLDEN)
def test_bits_and_numbers_never_change(name):
    ours, bits, values = GOLDEN[name]
    message = encode_tensors([ours])
    assert f"{message.length}:{message.data.hex()}" == bits
    length, _, octets = bits.partition(":")
    (decoded,) = decode_tensors(Bits(bytes.fromhex(octets), int(length)), [ours.shape])
    assert type(decoded) is type(ours)
    if isinstance(decoded, Sketched):
        decoded = solved(decoded)
    assert numbers(decoded.weights()) == numbers(ours.weights()) == values
