"""Method 2 against the literal writer, whose sums are sums of plain integers."""

import cbound_writer as writer
import numpy as np
import pytest
from any_tensors import any_tensors
from drawing import examples
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from codebound_verify.container import read
from codebound_verify.message import Message
from codebound_verify.networks import tensors
from codebound_verify.networks.network import decode
from codebound_verify.refusal import Refused

X, Y = writer.clusters(3)
SHAPES = arrays.array_shapes(min_dims=0, max_dims=4, max_side=5)
SEEDS = st.integers(0, 5) | st.integers(0, 2**41 - 2)


def decoded(subspace: writer.Subspace, shapes, base=None) -> list[np.ndarray]:
    """Tensors of these shapes."""
    layout = tuple((f"t{i}", shape) for i, shape in enumerate(shapes))
    names = {}
    if base is not None:
        names["base"] = {"name": "b", "sha256": "0" * 64}
        base = dict(zip(dict(layout), base, strict=True))
    message = writer.Message(None, subspace, has_base=base is not None)
    certificate = read(writer.write(message, writer.header(message, X, Y, errors=3, classes=3, **names)))
    with any_tensors(layout):
        read_message = Message(certificate)
        network = decode(read_message, base)
    assert [list(entry) for entry in read_message.ledger] == message.ledger
    assert list(network.tensors) == list(dict(layout))
    return list(network.tensors.values())


def expected(subspace: writer.Subspace, shapes, base=None) -> list[np.ndarray]:
    values = subspace.values(dict(enumerate(shapes)), has_base=base is not None).values()
    with np.errstate(over="ignore"):
        sums = values if base is None else map(np.add, values, base)
        return [np.asarray(each).astype(np.float32) for each in sums]


@st.composite
def subspaces(draw):
    d, code = (
        draw(st.integers(1, 20)),
        draw(st.sampled_from(("adaptive", "dense", "enumerative", "static", ""))),
    )
    if code:
        limit = draw(st.sampled_from((1, 9, 50 if code in ("adaptive", "static") else 2**20)))
        q = getattr(writer, code)(draw(arrays.arrays(np.int64, d, elements=st.integers(-limit, limit))))
    else:
        q = writer.zero((d,))
    step = draw(st.integers(-1000, 1000))
    return writer.Subspace(q, draw(st.integers(0, 2)), step, draw(st.booleans()), draw(SEEDS))


@given(st.lists(SHAPES, max_size=4), subspaces(), st.booleans(), st.data())
@examples(150)
def test_networks_in_a_subspace(shapes, subspace, has_base, data):
    elements = st.floats(-9, 9, width=32)
    base = [data.draw(arrays.arrays(np.float32, s, elements=elements)) for s in shapes] if has_base else None
    wanted = expected(subspace, shapes, base)
    if not all(np.isfinite(values).all() for values in wanted):
        with pytest.raises(Refused, match=r"too large for float32. The tensor is t\d"):
            decoded(subspace, shapes, base)
        return
    for ours, theirs in zip(decoded(subspace, shapes, base), wanted, strict=True):
        assert ours.shape == theirs.shape
        assert ours.tobytes() == theirs.tobytes()


@pytest.mark.parametrize("t", [0, 1, 2])
def test_tensors_are_computed_in_parts(t, monkeypatch):
    monkeypatch.setattr(tensors, "TILE", 64)
    monkeypatch.setattr(tensors, "NARROWEST", 64)
    shapes = [(3, 99), (7,), (2, 5, 31)]
    subspace = writer.Subspace(writer.dense(np.arange(-9, 10)), t, -9, seed=4)
    assert all(map(np.array_equal, decoded(subspace, shapes), expected(subspace, shapes)))


def test_a_chain_names_its_tensors_and_its_head_starts_at_zero():
    operations = [["linear", 5, True], ["linear", 3, True]]
    message = writer.Message(operations, writer.Subspace(writer.zero((2,)), zero_head=True))
    network = decode(Message(read(writer.write(message, writer.header(message, X, Y, errors=3, classes=3)))))
    weights = network.tensors
    assert list(weights) == ["0.weight", "0.bias", "1.weight", "1.bias"]
    assert [bool(values.any()) for values in weights.values()] == [True, False, False, False]
    # Four inputs: m = 1. The starts are quarters, so the weights are eighths.
    assert np.array_equal(weights["0.weight"] * 8, np.round(weights["0.weight"] * 8))


def test_a_start_has_the_variance_of_its_width():
    """Popcounts have variance 16: weights of n inputs have variance 4^-m, from 1 / n to 4 / n."""
    for n, m in ((64, 3), (255, 3), (256, 4)):
        (weights,) = decoded(writer.Subspace(writer.zero((1,)), seed=1), [(200, n)])
        assert weights.var() == pytest.approx(4.0**-m, rel=0.05)
        assert abs(weights.mean()) < 0.01


def test_every_integer_is_taken_about_equally_often_and_with_both_signs():
    d = 10
    for q in np.eye(d, dtype=int):
        (bias,) = decoded(writer.Subspace(writer.dense(q), seed=7), [(20_000,)])
        for value in (1, -1):
            assert (bias == value).mean() == pytest.approx(1 / (2 * d), rel=0.15)
