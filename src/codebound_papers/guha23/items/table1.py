"""Guha et al. 2023, table 1: bounds for networks of several widths on MNIST."""

from __future__ import annotations

from codebound_papers.guha23.items import rows as tables
from codebound_papers.guha23.items import verdicts
from codebound_papers.guha23.items.printed import EXAMPLES, MNIST, deductions
from codebound_papers.guha23.items.trained import Networks, plan_for
from codebound_papers.reproduce.items import Reproduction, Settings, item


@item(
    "G-Tab1",
    title="Bounds for networks of several widths on MNIST (Guha et al. 2023, table 1)",
    quick="3 minutes on one core",
    full="an hour on a GPU",
    trains=True,
)
def guha_table1(settings: Settings) -> Reproduction:
    """The table has natural logarithms of three older bounds, of the paper's own, and of the true error, for
    networks with five layers. Here are four readings of it (G-E22): as the released code computes it, with
    its bisection for the strength of pruning; like for like; the older bounds as their papers have them; and
    what counting parameters and held-out examples give. A dash is a bound that is infinite, because the
    smallest margin of the sample is not positive.
    """
    plan = plan_for("mnist", settings.size)
    rows, deduced = Networks(plan, settings).rows(), deductions("mnist", MNIST)
    return Reproduction(
        tables={
            tables.RELEASED: tables.released_table(rows, MNIST),
            tables.FAIR: tables.fair_table(rows, MNIST, data="mnist"),
            tables.LITERATURE: tables.literature_table(rows),
            tables.NETWORKS: tables.networks_table(rows),
            tables.PRINTED: deduced,
        },
        sentences=(
            verdicts.as_released(rows, deduced, claimed=3),
            verdicts.at_printed_widths(rows, MNIST, n=EXAMPLES["mnist"]),
            verdicts.on_one_scale(rows, deduced),
            verdicts.on_pruning(rows, deduced),
            verdicts.on_training(rows),
            verdicts.on_plain_lines(rows, deduced),
            verdicts.on_probability(deduced),
        ),
        deviations=plan.deviations,
    )
