"""Arora et al. 2018, figure 2 (left): a layer of AlexNet, trained on true and on random labels."""

from __future__ import annotations

from codebound_papers.arora18.items.labels import FULL, QUICK, compared
from codebound_papers.reproduce.items import Reproduction, Settings, item

_LAYER = 5


@item(
    "A-Fig2L",
    title="Layer 5 of AlexNet, true and corrupted labels (Arora et al. 2018, figure 2, left)",
    quick=QUICK,
    full=FULL,
    trains=True,
)
def arora_figure2_left(settings: Settings) -> Reproduction:
    """If noise stability is why networks generalise, it should be lost where they do not: in a network that
    has learnt random labels by heart. The figure has layer cushion and activation contraction of the fifth
    layer of two AlexNets, over training images. With true labels the cushion should be larger and the
    contraction smaller. The paper prints no numbers.
    """
    return compared("A-Fig2L", settings, ("cushion", "contraction"), layer=_LAYER)
