"""What the attacks through messages share: literal symbols, seals, and what both programs must say."""

import contextlib
import copy
import hashlib
import json
import time
import tracemalloc
from collections.abc import Iterator

import cbound_writer as writer
import numpy as np
import pytest
import torch
from torch import nn

from codebound.certificate.decoding import decode
from codebound.certificate.file import Certificate
from codebound.run.errors import CodeboundError
from codebound_verify import Refused, Verdict, decode_network, verify

N = 30
X, Y = writer.clusters(N)
LINEAR = [["linear", 3, False]]
WIDE = [["linear", 2**10, False], ["linear", 2**15, False], ["linear", 3, False]]  # 2^25 weights inside


def solved() -> nn.Module:
    """A linear classifier of the clusters, with weights that are no integers."""
    model = nn.Sequential(nn.Flatten(), nn.Linear(4, 3))
    with torch.no_grad():
        model[1].weight.copy_(torch.tensor(writer.WEIGHT) * 0.7)
        model[1].bias.copy_(torch.tensor(writer.BIAS))
    return model


def drawn(*shape: int, limit: int = 3, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(-limit, limit + 1, shape)


def code(coder: writer.Coder, name: str, value: object) -> None:
    """A number by gamma, a bit as a string, a uniform number as a pair, or an inner tensor."""
    if isinstance(value, writer.Tensor):
        value.write(coder, name)
    elif isinstance(value, tuple):
        coder.uniform(*value)
    elif isinstance(value, str):
        coder.bit(int(value))
    else:
        coder.gamma(value)


def numbers(*values: object) -> writer.Tensor:
    """A tensor of literal symbols, to say what no writer would."""

    def write(coder: writer.Coder, name: str) -> None:
        for value in values:
            code(coder, name, value)

    return writer.Tensor(write, np.zeros(1))


def sealed(message: writer.Message, x=X, y=Y, errors=None, **changes) -> bytes:
    """A consistent certificate that claims nothing, unless told: every example may be an error."""
    errors = len(y) if errors is None else errors
    return writer.write(message, writer.header(message, x, y, errors=errors, classes=3, **changes))


def both(data: bytes) -> list[dict[str, bytes] | None]:
    """The weights that the verifier and codebound decode, None where one refuses."""
    found: list[dict[str, bytes] | None] = [None, None]
    with contextlib.suppress(Refused):
        found[0] = {name: values.tobytes() for name, values in decode_network(data)[1].items()}
    with contextlib.suppress(CodeboundError):
        state = decode(Certificate.from_bytes(data)).state_dict()
        found[1] = {name: values.numpy().tobytes() for name, values in state.items()}
    return found


def accepted_by_both(message: writer.Message) -> None:
    """Both decode what the writer meant, where the writer says it."""
    data = sealed(message)
    assert verify(data, X, Y).reasons == ()
    ours, theirs = both(data)
    assert ours is not None
    assert ours == theirs
    if message.tensors and isinstance(message.tensors, dict):
        assert ours == {
            name: each.values.astype(np.float32).tobytes() for name, each in message.tensors.items()
        }


def behind(message: writer.Message, parts: int) -> int:
    """The number of bits of the first parts of the ledger: method, options, architecture, tensors."""
    return sum(bits for _, bits in message.ledger[:parts])


def flipped(message: writer.Message, positions: range) -> Iterator[bytes]:
    """The message with each of these bits flipped, sealed again."""
    for position in positions:
        other = copy.copy(message)
        bit = str(1 - int(message.bits[position]))
        other.bits = message.bits[:position] + bit + message.bits[position + 1 :]
        yield sealed(other)


def agree_on_every_flipped_bit(message: writer.Message, positions: range) -> None:
    """Sealed again, it is a network or it is none, and the same to both programs."""
    for data in flipped(message, positions):
        ours, theirs = both(data)
        assert ours == theirs


def changed(data: bytes, **fields: object) -> bytes:
    """A file with other fields in its header, sealed again."""
    end = 12 + int.from_bytes(data[8:12], "little")
    said = {**json.loads(data[12:end]), **fields}
    header = json.dumps(said, sort_keys=True, separators=(",", ":")).encode()
    again = data[:8] + len(header).to_bytes(4, "little") + header + data[end:-32]
    return again + hashlib.sha256(again).digest()


def refused(data: bytes, because: str, x=X, y=Y, **given) -> Verdict:
    """The verifier refuses for this reason and gives no bound."""
    verdict = verify(data, x, y, **given)
    assert verdict.verdict == "REFUSE"
    assert verdict.bound is None
    assert any(because in reason for reason in verdict.reasons), verdict.reasons
    return verdict


def refused_by_both(data: bytes, because: str, x=X, y=Y) -> None:
    refused(data, because, x, y)
    with pytest.raises(CodeboundError):
        decode(Certificate.from_bytes(data))


def refused_at_once(data: bytes, because: str, x=X, y=Y) -> None:
    """A tiny file that asks for more than there may be costs neither time nor memory."""
    assert len(data) < 2_000
    tracemalloc.start()
    start = time.perf_counter()
    refused(data, because, x, y)
    seconds, (_, peak) = time.perf_counter() - start, tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert seconds < 5
    assert peak < 2**24
    with pytest.raises(CodeboundError):
        decode(Certificate.from_bytes(data))
