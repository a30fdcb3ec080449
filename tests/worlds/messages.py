"""Codes, chains and subspaces of any kind, as strategies: messages that both programs have to agree on."""

import math

import numpy as np
from hypothesis import reject
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from codebound.run.errors import CodeboundError
from codebound_networks.chains.chain import Chain
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
from codebound_papers.guha23.sketch.codec import Sketched, solved

SEEDS = st.integers(0, 9) | st.integers(0, 2**41 - 2)
STEPS = st.integers(-500, 500)  # two of them add up to one that there is
INNER = ("adaptive", "zero", "dense", "enumerative", "static", "bell")
CODES = (*INNER, "codebook", "raw", "projected", "low rank", "filled", "ticket", "mixed", "sketched")
LIMITS = {"adaptive": (1, 5, 4096), "static": (1, 5, 300, 4096), "bell": (1, 5, 255)}


def static_code(levels, step, limit, lanes_log2):
    table = frequency_table(np.bincount(levels.ravel() + limit, minlength=2 * limit + 1))
    return Static(levels, step, limit, table=table, lanes_log2=lanes_log2)


@st.composite
def integers(draw, shape, names=INNER, steps=STEPS):
    """A code that may stand inside another."""
    name = draw(st.sampled_from(names))
    if name == "zero":
        return Zero(shape)
    limit, step = draw(st.sampled_from(LIMITS.get(name, (1, 3, 2**20)))), draw(steps)
    q = draw(arrays.arrays(np.int32, shape, elements=st.integers(-limit, limit), fill=st.just(0)))
    if name == "adaptive":
        flags = dict(
            zip(("row_flags", "column_flags"), draw(st.tuples(*[st.integers(0, 1)] * 2)), strict=True)
        )
        stride = draw(st.sampled_from([1, 2, 5, 28, 2**40]))
        return Adaptive(q, step, limit, **flags, kind=draw(st.integers(0, 3)), stride=stride)
    if name == "static":
        return static_code(q, step, limit, draw(st.sampled_from([0, 1, 3, 6, 12])))
    if name == "bell":
        return Bell(q, step, width=draw(st.integers(0, 63)))
    return {"dense": Dense, "enumerative": Enumerative}[name](q, step, limit)


@st.composite
def codes(draw, shape, names=CODES):
    """A code of any mode; mixtures are of tensors with two sizes or more."""
    rows = shape[0] if len(shape) > 1 else 1
    columns = math.prod(shape) // rows
    size, seed = draw(st.integers(1, 9)), draw(SEEDS)
    name = draw(st.sampled_from([each for each in names if len(shape) > 1 or each != "mixed"]))
    floats = st.floats(width=32, allow_nan=False, allow_infinity=False)
    if name in INNER:
        return draw(integers(shape, names=(name,), steps=st.integers(-1000, 950)))
    if name == "codebook":
        size = draw(st.just(size) | st.integers(1, 256))
        index = draw(arrays.arrays(np.int32, shape, elements=st.integers(0, size)))
        return Codebook(index, draw(arrays.arrays(np.float32, size, elements=floats)))
    if name == "raw":
        return Raw(draw(arrays.arrays(np.float32, shape, elements=floats)))
    if name == "projected":
        by_rows, gaussian = draw(st.booleans()), draw(st.booleans())
        z = draw(integers((rows if by_rows else 1, size)))
        return Projected(shape, z, by_rows=by_rows, gaussian=gaussian, seed=seed)
    if name == "low rank":
        rank = min(size, rows, columns)
        return LowRank(shape, draw(integers((rows, rank))), draw(integers((rank, columns))))
    if name == "filled":
        means, steps = st.integers(-(2**20), 2**20), st.integers(-1000, 950)
        fillings = st.builds(Filling, everywhere=st.booleans(), step=steps, mean=means, seed=st.just(seed))
        return Filled(draw(integers(shape)), draw(st.none() | fillings))
    if name == "ticket":
        return Ticket(draw(integers(shape)), kind=draw(st.integers(0, 2)), seed=seed)
    if name == "sketched":  # as wide as the matrix, with one in a column: every sketch has one matrix
        return solved(Sketched(shape, draw(integers((rows, columns))), degree=1, seed=seed))
    return Mixed(shape, draw(integers((size,))), mixes=draw(st.integers(1, 5)), seed=seed)


@st.composite
def subspaces(draw, least=-1000, most=1000):
    """Integers in any mode, with step 0."""
    q, steps = draw(integers((draw(st.integers(1, 40)),), steps=st.just(0))), st.integers(least, most)
    return Subspace(q, draw(st.integers(0, 2)), draw(steps), zero_head=draw(st.booleans()), seed=draw(SEEDS))


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
    return fitting((draw(st.integers(1, 3)), 3, 4), operations)


def fitting(input_shape, operations) -> Chain:
    """The chain, if its operations fit."""
    try:
        return Chain(input_shape, tuple(operations))
    except CodeboundError:
        reject()
