"""Guha et al. 2023, a plot of their repository: how far pruning moves outputs, and how far it may."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import torch

from codebound.bounds.certified.original import LayerBounds, output_deviation
from codebound.bounds.published.kappa import released_needed_margin
from codebound.bounds.published.pruning import PrunedLayer, PruningFacts, has_small_changes
from codebound.bounds.published.pruning_law import kept_share
from codebound.measure.spectral import matrix_spectral_norm
from codebound.report.figures import Figure, Plot, Series
from codebound.reproduce.guha_network import Study, deviations, largest_change, strengths
from codebound.reproduce.item import Reproduction, Row, Settings, item

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_TRAINED = ("model", "data", "n", "epochs", "train_error", "test_error")
_SHOWN = (0.5, 1.0, 2.0, 5.0, 10.0)  # d in the table


@item(
    "G-ExpX1",
    title="Change of outputs by pruning, and the margin the theory asks for (Guha et al. 2023, code)",
    quick="a minute on one core",
    full="some 10 minutes on a GPU",
)
def guha_exp_x1(settings: Settings) -> Reproduction:
    """The bound holds for a pruned network if the margin exceeds what pruning may do to an output. The
    repository plots, over 100 strengths d of pruning in [0, 10], the largest change of an output over the
    training set beside the margin that its code asks for: the e-form of lemma B.2 with measured norms, times
    the factors kappa. Beside it here: the recursion that needs no condition (G-LemB.2x), biases included.
    """
    study = Study(settings)
    cells = settings.cells
    trained = cells.get("network", lambda: dict(study.subject.record))
    points = [cells.get(f"d={d:.6g}", partial(_row, study, d)) for d in strengths(settings.size)]
    pruned = [row for row in points if row["d"] > 0.0]
    shown = {row["d"]: row for row in (min(pruned, key=lambda row: abs(row["d"] - d)) for d in _SHOWN)}
    return Reproduction(
        tables={
            "Largest change of an output, and bounds on it": list(shown.values()),
            "The network": [{key: trained[key] for key in _TRAINED}],
        },
        sentences=tuple(_sentences(pruned)),
        deviations=(f"{len(points)} strengths; the repository has 100.", *deviations(settings.size)),
        points={"strengths": points},
        figures={"G-ExpX1": _figure(pruned)},
    )


def _sentences(rows: Sequence[Row]) -> Iterator[str]:
    needed = [row["needed"] / row["largest_change"] for row in rows]
    agreed = sum(ratio >= 1.0 for ratio in needed)
    yield (
        f"{'We agree' if agreed == len(rows) else 'We do not agree'}: at {agreed} of {len(rows)} strengths "
        f"the margin asked for is above the largest change, of which it is {min(needed):,.0f} to "
        f"{max(needed):,.0f} times."
    )
    over = [row["d"] for row in rows if not row["is_small"]]
    recursion = [row["recursion"] / row["largest_change"] for row in rows]
    yield (
        "The lemma behind it needs a change of every layer below its norm over the number of layers (G-E6): "
        + (f"that fails from d = {min(over):.2g} on. " if over else "that holds at all of them. ")
        + "The recursion needs no such condition and counts biases; it gives "
        f"{min(recursion):,.0f} to {max(recursion):,.0f} times the largest change."
    )
    yield (
        "The factor for the input is the norm of an input, not its dimension as printed (G-E5). The factors "
        "kappa, at most 1, have no proof (G-E11)."
    )


def _row(study: Study, strength: float) -> Row:
    facts, views = study.facts, study.subject.network.layers
    pruned = study.pruned(strength)
    changes = {
        view.name: matrix_spectral_norm(view.matrix.detach().cpu() - pruned[view.name]).upper
        for view in views
    }
    layers = tuple(
        PrunedLayer(
            name=view.name,
            strength=strength,
            kept_share=kept_share(strength),
            expected_change=0.0,
            step=1.0,
            nonzeros=int(pruned[view.name].count_nonzero()),
            change=changes[view.name],
        )
        for view in views
    )
    needed = released_needed_margin(facts, pruning=PruningFacts(layers=layers, slack=1.0, sparsity_slack=1.0))
    bounds = [
        LayerBounds(
            weight=layer.spectral,
            weight_change=changes[view.name],
            bias=0.0 if view.bias is None else float(torch.linalg.vector_norm(view.bias.detach())),
        )
        for view, layer in zip(views, facts.layers, strict=True)
    ]
    return {
        "d": strength,
        "kept_share": sum(layer.nonzeros for layer in layers) / sum(view.matrix.numel() for view in views),
        "gaussian_kept_share": kept_share(strength),
        "largest_change": largest_change(
            study.subject.network.predictor,
            study.with_matrices(pruned).eval(),
            study.samples,
            device=study.settings.device,
        ),
        "needed": needed.value,
        "recursion": output_deviation(bounds, input_norm=facts.input_norm),
        "is_small": bool(has_small_changes(facts, list(changes.values())).holds),
    }


def _figure(rows: Sequence[Row]) -> Figure:
    def curves(labels: dict[str, str]) -> list[Series]:
        d = [row["d"] for row in rows]
        return [Series(label, d, [row[column] for row in rows]) for column, label in labels.items()]

    norms = {"needed": "margin asked for", "recursion": "recursion", "largest_change": "largest change"}
    shares = {"kept_share": "here", "gaussian_kept_share": "Gaussian weights, chi(d)"}
    return Figure(
        [
            Plot("change of outputs by pruning", "strength d", "norm", curves(norms), y_scale="log"),
            Plot("weights that stay", "strength d", "share", curves(shares)),
        ],
        columns=2,
    )
