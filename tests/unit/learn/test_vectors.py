"""Vectors of many inputs are those of each, on one core and on several."""

import pytest
import torch

from codebound.learn import vectors
from codebound.learn.features import FilterFeatures, fit_features
from codebound.learn.images import mirror
from codebound.learn.vectors import vectors_of


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("change", [None, mirror])
def test_vectors_are_those_of_each_input(
    monkeypatch: pytest.MonkeyPatch, threads: int, change: object
) -> None:
    monkeypatch.setattr(vectors, "_CHUNK", 7)
    x = torch.randint(0, 256, (40, 1, 8, 8), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    features, told = fit_features(FilterFeatures(True, 3, 2), x[:20], torch.arange(20) % 2), []
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(threads)
        found = vectors_of(features, x, change=change, progress=lambda *said: told.append(said))
        assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
    assert found.dtype == torch.int16
    assert torch.equal(found.float(), torch.cat([features(each[None], change) for each in x]))
    assert told == [(start, 40, vectors.FEATURES) for start in range(0, 40, 7)]
