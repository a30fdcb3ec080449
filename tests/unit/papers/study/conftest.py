"""One small network that every study is tested on: two layers without biases, its samples, never trained."""

import pytest
from worlds.by_hand import ByHand
from worlds.networks import gaussian_mlp
from worlds.samples import clouds

from codebound_papers.study.subjects import subject


@pytest.fixture(scope="session")
def about():
    sample, fresh = (
        clouds(n, classes=3, features=12, seed=n, role=r) for n, r in ((200, "train"), (60, "test"))
    )
    return subject(gaussian_mlp(12, 24, 3, seed=1), sample, fresh, margin_share=0.7)


@pytest.fixture(scope="session")
def by_hand(about):
    return ByHand(about)
