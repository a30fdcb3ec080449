"""Layers as sketches: what the record of a layer counts, and what is said of several."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from worlds.bright_rows import search_for
from worlds.networks import linear_of

from codebound.methods.search import UnsuitedError
from codebound_networks.codes.modes import encode_tensors
from codebound_networks.codes.tensors import Dense, Enumerative
from codebound_networks.views.layers import view_of
from codebound_papers.compress.compressors import AbstractCompressor, CompressedLayer
from codebound_papers.guha23.sketch.layers import compare, propose_sketched, sketch_layer, status


class AsItIs(AbstractCompressor):
    """Keeps integers as they are."""

    def compress(self, view, *, seed=0):
        levels = view.matrix.numpy().astype(np.int32)
        return CompressedLayer(view.name, Dense(levels, 0, max(1, int(np.abs(levels).max()))))


def sketched(matrix, **options):
    view = view_of("fc", linear_of(torch.as_tensor(matrix, dtype=torch.float32)))
    return sketch_layer(view, AsItIs(), **options)


def diagonal(size=40):
    return np.diag(np.where(np.arange(size) % 2, 1, -2))


def test_a_diagonal_comes_back_and_its_numbers_are_those_by_hand():
    found = sketched(diagonal())
    assert (found.name, found.rows, found.columns) == ("fc", 40, 40)
    assert (found.nnz, found.j_r, found.j_c) == (40, 1, 1)
    assert found.status == "recovered"
    assert found.m_squared_over_nnz == pytest.approx(found.m1 * found.m2 / 40)
    assert found.m_squared_over_dense == pytest.approx(found.m1 * found.m2 / 1600)
    assert found.m1 * found.m2 < 1600
    plain = min(
        encode_tensors([code]).length
        for code in (Dense(diagonal().astype(np.int32), 0, 2), Enumerative(diagonal().astype(np.int32), 0, 2))
    )
    assert min(found.bits_sparse, found.bits_dense) <= plain


def test_a_side_that_is_too_small_recovers_nothing_and_says_so():
    found = sketched(diagonal(), side=3)
    assert found.status.startswith("not recovered: ")
    assert found.bits_sketch is None
    assert (found.m1, found.m2) == (3, 3)


def test_a_layer_of_zeros_has_no_ratio():
    assert sketched(np.zeros((8, 8))).m_squared_over_nnz is None


def test_several_layers_are_told_in_one_sentence():
    good = sketched(diagonal())
    bad = replace(good, bits_sketch=None)
    assert [status(rows) for rows in ([good], [good, bad], [bad])] == [
        "recovered", "partly recovered", "not recovered",
    ]  # fmt: skip
    assert "nothing to compare" in compare([bad])
    dear = replace(good, bits_sketch=1000, bits_sparse=200, bits_dense=4000, m1=10, m2=8, nnz=40)
    assert "5.0 times longer than plain sparse coding, and shorter than dense coding" in compare([dear])
    assert "2.0 numbers for each non-zero" in compare([dear, bad])
    cheap = replace(dear, bits_sketch=100)
    assert "shorter, by a factor of 2.00 than plain sparse coding" in compare([cheap])


def test_a_claim_about_f_has_no_use_for_sketches():
    with pytest.raises(UnsuitedError, match="moves the network too far"):
        propose_sketched(search_for(input_range=(0.0, 255.0)))
