"""A seal and a look as functions of options: test sets, networks and predictions are files or names.

Options have the names that they have on the command line, with underscores, and all of them are given.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from codebound.certificate.decoding import decode
from codebound.holdout.ledger import SUFFIX, read_ledger
from codebound.holdout.sealed import (
    SealSettings,
    identities,
    identity,
    look,
    network_scores,
    predicted_scores,
    seal,
)
from codebound.holdout.values import load_values, predicted_values
from codebound.run.errors import UsageError
from codebound.run.extensions import reader
from codebound.run.progress import NOBODY
from codebound.sample.load import load_dataset
from codebound.sample.losses import parse_fault
from codebound.sample.tables import table_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor, nn

    from codebound.holdout.ledger import Ledger
    from codebound.run.progress import Listener
    from codebound.sample.dataset import Dataset

_SHOWN = 12  # classes


def seal_from_options(
    options: Mapping[str, Any], *, looks: int | None, out: Path | None = None, listener: Listener = NOBODY
) -> Ledger:
    """Freezes a test set; ``looks`` are those intended, None for no end. ``out`` is the ledger."""
    data, fault, model = options["data"], parse_fault(options["fault"]), options["model"]
    if fault.is_of_values:
        sample: Any = load_values(data)
    else:
        sample = load_dataset(data, role="test", folder=options["data_folder"])
        if table_of(str(data)) is not None:  # its name has no column, by which a look finds it again
            sample = replace(sample, name=str(data))
        fault = parse_fault(options["fault"], classes=sample.classes)
        if sample.class_names:
            names = ", ".join(f"{label} = {name}" for label, name in enumerate(sample.class_names[:_SHOWN]))
            more = ", ..." if sample.classes > _SHOWN else ""
            listener.note(f"Classes: {names}{more}.")
    weights, predictions = options["weights"] or [], options["predictions"] or []
    if weights and model is None:
        raise UsageError("weights need a model: how the networks are built.")
    settings = SealSettings(
        looks=looks,
        fault=fault,
        models=identities(weights, model=model or "") + identities(predictions),
        **{name: options[name] for name in ("answers", "delta", "target", "step", "by_class")},
    )
    path = out or Path(Path(data).stem + SUFFIX)
    return seal(sample, settings, path, allow_copies=options["allow_copies"])


def look_from_options(options: Mapping[str, Any]) -> Ledger:
    """Tries one network on the sealed examples: by its weights, its certificate or its predictions."""
    ledger, model, predictions = options["ledger"], options["model"], options["predictions"]
    told = read_ledger(ledger).seal["data"]
    given = [path for path in (options["weights"], options["certificate"], predictions) if path is not None]
    if len(given) != 1 or (model is None) != (options["weights"] is None):
        raise UsageError("a look is at one network: give model and weights, certificate or predictions.")
    (path,) = given
    known = {
        "name": options["name"] or path.name,
        "identity": identity(path, model=model or ""),
        "is_final": options["is_final"],
    }
    data = options["data"] or told["name"]
    if told["classes"] is None:
        if predictions is None:
            raise UsageError("a look at values needs predictions: a .npy file, one number each.")
        return look(ledger, load_values(data), torch.from_numpy(predicted_values(predictions)), **known)
    sample = load_dataset(data, role="test", folder=options["data_folder"])
    return look(ledger, sample, _scores(options, sample, told["classes"]), **known)


def _scores(options: Mapping[str, Any], sample: Dataset, classes: int) -> Tensor:
    if options["predictions"] is not None:
        return predicted_scores(options["predictions"], classes, class_names=sample.class_names)
    if options["certificate"] is not None:
        return network_scores(decode(options["certificate"]), sample)
    shape, weights = sample.input_shape, options["weights"]
    network: nn.Module = reader("models")(
        options["model"], input_shape=shape, classes=classes, weights=weights
    )
    return network_scores(network, sample)
