"""A seal and a look as functions of options: test sets, networks and predictions are files or names.

Options have the names that they have on the command line, with underscores, and all of them are given.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from codebound.certificate.decoding import decode
from codebound.holdout.ledger import SUFFIX, read_ledger
from codebound.holdout.sealed import SealSettings, Values, identity, look, seal
from codebound.run.errors import DataError, UsageError
from codebound.run.extensions import reader
from codebound.run.progress import NOBODY
from codebound.sample.arrays import from_arrays, read_members, read_npy
from codebound.sample.load import load_dataset
from codebound.sample.losses import parse_loss
from codebound.sample.outputs import logit_chunks
from codebound.sample.tables import table_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray
    from torch import Tensor, nn

    from codebound.holdout.ledger import Ledger
    from codebound.run.progress import Listener
    from codebound.sample.dataset import Dataset

_SHOWN = 12  # classes


def seal_from_options(
    options: Mapping[str, Any], *, looks: int | None, out: Path | None = None, listener: Listener = NOBODY
) -> Ledger:
    """Freezes a test set; ``looks`` are those intended, None for no end. ``out`` is the ledger."""
    data, loss, model = options["data"], parse_loss(options["loss"]), options["model"]
    if loss.is_of_values:
        sample: Any = load_values(data)
    else:
        sample = load_dataset(data, role="test", folder=options["data_folder"])
        if table_of(str(data)) is not None:  # its name has no column, by which a look finds it again
            sample = replace(sample, name=str(data))
        loss = parse_loss(options["loss"], classes=sample.classes)
        if sample.class_names:
            names = ", ".join(f"{label} = {name}" for label, name in enumerate(sample.class_names[:_SHOWN]))
            more = ", ..." if sample.classes > _SHOWN else ""
            listener.note(f"Classes: {names}{more}.")
    weights, predictions = options["weights"] or [], options["predictions"] or []
    if weights and model is None:
        raise UsageError("weights need a model: how the networks are built.")
    settings = SealSettings(
        looks=looks,
        loss=loss,
        models=(
            *(identity(path, model=model or "") for path in weights),
            *(identity(path) for path in predictions),
        ),
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
        return look(ledger, load_values(data), torch.from_numpy(load_predictions(predictions)), **known)
    sample = load_dataset(data, role="test", folder=options["data_folder"])
    return look(ledger, sample, _scores(options, sample, told["classes"]), **known)


def _scores(options: Mapping[str, Any], sample: Dataset, classes: int) -> Tensor:
    if options["predictions"] is not None:
        return load_scores(options["predictions"], classes, class_names=sample.class_names)
    if options["certificate"] is not None:
        return network_scores(decode(options["certificate"]), sample)
    shape, weights = sample.input_shape, options["weights"]
    network: nn.Module = reader("models")(
        options["model"], input_shape=shape, classes=classes, weights=weights
    )
    return network_scores(network, sample)


def network_scores(network: nn.Module, data: Dataset) -> Tensor:
    """The scores of a network, in float64."""
    chunks = logit_chunks(network, data.on("cpu"), dtype=torch.float64)
    return torch.cat([logits for logits, _ in chunks])


def load_scores(path: Path, classes: int, *, class_names: tuple[str, ...] = ()) -> Tensor:
    """Scores from a file of predictions: a ``.npy`` array of classes (n), or of scores (n, classes).

    Classes are numbers, or words where the classes have names.

    Raises:
        DataError: It holds neither.
    """
    found: Any = read_npy(path)
    if found.dtype.kind in "US":
        found = _number(found.astype(str), class_names, path)
    if found.dtype.kind not in "iuf":
        raise DataError(f"{path} must hold one array of numbers, or of words.")
    if found.ndim == 2 and found.shape[1] == classes:
        return torch.from_numpy(found.astype(np.float64))
    if found.ndim == 1 and found.dtype.kind in "iu" and ((found >= 0) & (found < classes)).all():
        return torch.nn.functional.one_hot(torch.from_numpy(found.astype(np.int64)), classes).double()
    raise DataError(
        f"{path} must hold classes from 0 to {classes - 1}, one for each example, or rows of {classes} "
        f"scores. Got {found.dtype} of shape {found.shape}."
    )


def _number(words: NDArray[np.str_], class_names: tuple[str, ...], path: Path) -> NDArray[np.int64]:
    """Labels of predictions that are words."""
    known = {name: label for label, name in enumerate(class_names)}
    strange = [each for each in np.unique(words).tolist() if each not in known]
    if strange:
        named = f"Its classes are {', '.join(class_names[:8])}" if class_names else "Its classes are numbers"
        raise DataError(f"{path} holds {strange[0]!r:.40}, which is no class of the test set. {named}.")
    return np.array([known[each] for each in words.ravel().tolist()], dtype=np.int64).reshape(words.shape)


def load_values(spec: str) -> Values:
    """The examples in an ``.npz`` file with arrays ``x`` and ``y``.

    Raises:
        DataError: It is no such file, or a value is not finite.
    """
    found = read_members(Path(spec), ("x", "y"))
    x, y = found["x"], found["y"]
    if y.dtype.kind not in "iuf" or y.shape != x.shape[:1] or not np.isfinite(y).all():
        raise DataError(
            f"{spec}: values are one finite number for each example. Got {y.dtype} of shape {y.shape} for "
            f"inputs of shape {x.shape}."
        )
    inputs = from_arrays(x, None, name=spec, role="unlabelled")
    return Values(spec, inputs.x, y.astype(np.float64))


def load_predictions(path: Path) -> NDArray[np.float64]:
    """Predictions from a ``.npy`` file: one number for each example; what is no number is a loss."""
    found = read_npy(path)
    if found.dtype.kind not in "iuf" or found.shape != (found.size,):
        raise DataError(f"{path} must hold one number for each example.")
    return found.astype(np.float64)
