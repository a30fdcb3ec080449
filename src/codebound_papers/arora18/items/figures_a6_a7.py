"""Arora et al. 2018, figures A.6 and A.7: every layer of AlexNet, trained on true and on random labels."""

from __future__ import annotations

from codebound_papers.arora18.items.labels import FULL, QUICK, compared
from codebound_papers.reproduce.items import Reproduction, Settings, item


@item(
    "A-FigA6",
    title="Layer cushions of AlexNet, true and corrupted labels (Arora et al. 2018, figure A.6)",
    quick=QUICK,
    full=FULL,
)
def arora_figure_a6(settings: Settings) -> Reproduction:
    """The layer cushion in every layer of two AlexNets, over training images: one has learnt true labels, the
    other random ones. With true labels it should be larger. The paper prints no numbers.
    """
    return compared("A-FigA6", settings, ("cushion",))


@item(
    "A-FigA7",
    title="Activation contraction of AlexNet, true and corrupted labels (Arora et al. 2018, figure A.7)",
    quick=QUICK,
    full=FULL,
)
def arora_figure_a7(settings: Settings) -> Reproduction:
    """The activation contraction in every layer with an activation, of two AlexNets over training images: one
    has learnt true labels, the other random ones. With true labels it should be smaller. The paper prints no
    numbers.
    """
    return compared("A-FigA7", settings, ("contraction",))
