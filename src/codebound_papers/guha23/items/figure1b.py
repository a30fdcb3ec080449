"""Guha et al. 2023, figure 1b: bounds for one network on CIFAR-10, as bars."""

from __future__ import annotations

from codebound_papers.guha23.items import rows as tables
from codebound_papers.guha23.items import verdicts
from codebound_papers.guha23.items.printed import CIFAR10, deductions
from codebound_papers.guha23.items.trained import Networks, plan_for
from codebound_papers.reproduce.items import Reproduction, Settings, item


@item(
    "G-Exp1b",
    title="Bounds for one network on CIFAR-10, as bars (Guha et al. 2023, figure 1b)",
    quick="a minute on one core; the networks are those of G-Tab2",
    full="half an hour on a GPU; the networks are those of G-Tab2",
)
def guha_figure1b(settings: Settings) -> Reproduction:
    """The bars of figure 1a for a network on CIFAR-10: left as the released code computes them, right like
    for like, with parameter counting and a certificate from held-out examples. A missing bar stands for an
    infinite bound, because the smallest margin of the sample is not positive.
    """
    plan = plan_for("cifar10", settings.size)
    rows, (printed,) = Networks(plan, settings).rows(), CIFAR10.values()
    deduced = deductions("cifar10", CIFAR10)
    table = tables.bars_table(rows, printed, data="cifar10")
    return Reproduction(
        tables={
            tables.LOGARITHMS: table,
            tables.NETWORKS: tables.networks_table(rows),
        },
        sentences=(
            verdicts.as_released(rows, deduced, claimed=7),
            verdicts.on_one_scale(rows, deduced),
            verdicts.on_training(rows),
        ),
        deviations=plan.deviations,
        figures={"G-Exp1b": tables.bars_figure(table)},
    )
