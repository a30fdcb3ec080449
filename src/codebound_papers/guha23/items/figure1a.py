"""Guha et al. 2023, figure 1a: bounds for one network on MNIST, as bars."""

from __future__ import annotations

from codebound_papers.guha23.items import rows as tables
from codebound_papers.guha23.items import verdicts
from codebound_papers.guha23.items.printed import MNIST, deductions
from codebound_papers.guha23.items.trained import Networks, plan_for
from codebound_papers.reproduce.items import Reproduction, Settings, item

_WIDTH = 784  # of the network in the figure


@item(
    "G-Exp1a",
    title="Bounds for one network on MNIST, as bars (Guha et al. 2023, figure 1a)",
    quick="2 minutes on one core; a network of G-Tab1",
    full="10 minutes on a GPU; a network of G-Tab1",
)
def guha_figure1a(settings: Settings) -> Reproduction:
    """Bars of three older bounds, of the paper's own, and of the true error, on a logarithmic scale: left as
    the released code computes them, right like for like, with parameter counting and a certificate from
    held-out examples. A bar above zero stands for a bound above 1, which says nothing on an error rate; a
    missing one for an infinite bound, because the smallest margin of the sample is not positive.
    """
    plan = plan_for("mnist", settings.size)
    width = _WIDTH if _WIDTH in plan.widths else max(plan.widths)
    rows = Networks(plan, settings).rows([width])
    deduced = deductions("mnist", {_WIDTH: MNIST[_WIDTH]})
    table = tables.bars_table(rows, MNIST[_WIDTH], data="mnist")
    narrower = () if width == _WIDTH else (f"The bars are of width {width}, the published of {_WIDTH}.",)
    return Reproduction(
        tables={
            tables.LOGARITHMS: table,
            tables.NETWORKS: tables.networks_table(rows),
        },
        sentences=(
            verdicts.as_released(rows, deduced, claimed=3),
            verdicts.on_one_scale(rows, deduced),
            verdicts.on_training(rows),
        ),
        deviations=(*narrower, *plan.deviations),
        figures={"G-Exp1a": tables.bars_figure(table)},
    )
