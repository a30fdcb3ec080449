"""Commands as functions: options in, files and a record out. The command line prints it, a sweep keeps it.

Options have the names that they have on the command line, with underscores, and all of them are given.
"""

from __future__ import annotations

import tempfile
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from codebound.certificate.verification import CERTIFICATE
from codebound.certification import certify
from codebound.known.base import MAX_WORDS, Pretrained
from codebound.known.encoder import load_encoder, load_table
from codebound.run.errors import CodeboundError, UsageError
from codebound.run.extensions import import_named, reader
from codebound.run.progress import NOBODY, Listener, Progress, silent
from codebound.run.store import new_folder, source_sha256
from codebound.run.tensor_files import state_sha256, state_tensors
from codebound.sample.arrays import read_npy
from codebound.sample.caveats import remarks
from codebound.sample.dataset import reading_options
from codebound.sample.formats.catalogue import KNOWN
from codebound.sample.load import load_dataset, split
from codebound.sample.order import Design

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from torch import nn

    from codebound.known.encoder import Encoder
    from codebound.report.folder import Certification, Saved
    from codebound.run.job import Engine
    from codebound.sample.dataset import Dataset

_CERTIFY = ("method", "minutes", "effort", "delta", "loss", "on", "input_range", "by_class", "seed", "device")


def certify_from_options(
    options: Mapping[str, Any],
    *,
    out: Path | None = None,
    engine: Engine | None = None,
    listener: Listener = NOBODY,
) -> Saved:
    """Certifies a network and saves all that belongs to its certificate in a new folder."""
    model, fresh, folder_of_data = options["model"], options["unlabelled"], options["data_folder"]
    content = _content(options["data"])
    encoder = (
        None if options["encoder"] is None else load_encoder(options["encoder"], device=options["device"])
    )
    with listener.bar("encode") if encoder is not None else nullcontext(silent) as progress:
        sample, test_set = load_samples(options, encoder=encoder, progress=progress)
    for warning in remarks(sample, delta=options["delta"]):
        listener.note(f"Warning: {warning}.")
    network: nn.Module | None = None
    if model is not None:
        network = reader("networks")(model, sample, options["weights"])
    elif options["weights"] is not None or options["base"] is not None:
        raise UsageError("weights and base belong to a model: give the model.")
    base: Pretrained | None = None if network is None else reader("bases")(options, network, sample)
    if options["class_names"] is not None:
        if network is not None or encoder is None:
            raise UsageError("class names make a network of their own, behind an encoder of texts.")
        base = reader("class names")(encoder, options["class_names"], sample)
    if base is not None and options["weights"] is None:
        network = base.network
    elif base is not None and network is not None:
        if state_sha256(state_tensors(network)) == state_sha256(state_tensors(base.network)):
            raise UsageError(
                "weights and base are the same network. Where it never saw the sample, leave out the "
                "weights; where it did, it is no base."
            )
    elif network is not None and options["weights"] is None and options["helper_weights"] is None:
        listener.note(f"Warning: no weights were given: {model} is as random as it was made.")
    unlabelled = None if fresh is None else _load(fresh, "unlabelled", folder_of_data, encoder=encoder)
    fraction, helper = options["prior_fraction"], _load_helper(options, sample)
    with new_folder(out) as folder, listener.bar("certify") as progress:
        found = certify(
            network,
            sample,
            test_set=test_set,
            unlabelled=unlabelled,
            design=_design(options),
            prior_tenths=None if fraction is None else _parse_tenths(fraction),
            helper=helper,
            base=base,
            engine=engine,
            progress=progress,
            **{name: options[name] for name in _CERTIFY},
        )
        for warning in (each for each in found.sample.warnings if each not in sample.warnings):
            listener.note(f"Warning: {warning}.")
        is_there = _content(options["data"]) == content
        if not is_there:
            changed = f"{options['data']} has changed since it was read"
            listener.note(f"Warning: {changed}; the sample as it was is in {folder}.")
        return save_or_rescue(
            found,
            folder,
            settings=record_options(options),
            data=options["data"]
            if is_there and options["holdout"] is None and found.sample.features is None
            else "",
            data_folder=folder_of_data,
        )


def _content(data: str) -> str:
    """Hash of the files that a sample comes from; those of a known name are checked as they are read."""
    return "" if data.lower() in KNOWN else source_sha256(data)


def save_or_rescue(found: Certification, folder: Path, **where: Any) -> Saved:
    """Saves what was found; where that fails, the certificate alone goes to the folder for temporary files.

    ``where`` are the other arguments of ``Certification.save_to``.
    """
    try:
        return found.save_to(folder, **where)
    except CodeboundError as error:
        with suppress(CodeboundError, OSError):
            kept = found.save(Path(tempfile.mkdtemp(prefix="codebound-")) / CERTIFICATE)
            error.args = (f"{error} What was found is not lost: the certificate is in {kept}.",)
        raise


def certify_record(options: Mapping[str, Any], *, out: Path | None = None) -> dict[str, Any]:
    """The same, for who wants the result alone."""
    return certify_from_options(options, out=out).result


def _design(options: Mapping[str, Any]) -> Design:
    """Order, reading of copies, clusters and groups."""
    clusters, groups = (
        None if options[name] is None else read_npy(options[name]).astype(np.int64)
        for name in ("clusters", "groups")
    )
    order, copies = options["order"], options["copies"]
    if clusters is not None:
        order, copies = "clusters", "independent" if copies == "any" else copies
    return Design(order=order, copies=copies, clusters=clusters, groups=groups)


def _parse_tenths(fraction: str | float) -> int:
    try:
        return {tenths / 10: tenths for tenths in range(1, 10)}[float(fraction)]
    except (KeyError, ValueError) as error:
        raise UsageError(f"prior_fraction is 0.1, 0.2, ... or 0.9. Got {fraction}.") from error


def _load_helper(options: Mapping[str, Any], sample: Dataset) -> Callable[[Dataset], Any] | Pretrained | None:
    """Helper of a split: a function (helper_from) or a network (helper_weights)."""
    maker, weights = options["helper_from"], options["helper_weights"]
    if maker is not None and weights is not None:
        raise UsageError("a helper is made by a function or read from a file: choose one of them.")
    if maker is not None:
        try:
            found: Callable[[Dataset], Any] = import_named(maker)
        except (ImportError, AttributeError) as error:
            raise UsageError(
                f"no function {maker}: {error}. Give package.module:function; its module must be importable "
                "(installed, or in the current directory)."
            ) from error
        return found
    if weights is None:
        return None
    if options["model"] is None:
        raise UsageError("helper_weights belong to a model: give the model.")
    network: nn.Module = reader("networks")(options["model"], sample, weights)
    return Pretrained(
        network, f"weights {Path(weights).name!r}, made of the first part of the split alone"[:MAX_WORDS]
    )


# where results go, how they are printed and what runs at the same time: the result is the same
_OF_THE_RUN = frozenset(
    {"out", "output", "quiet", "engine", "workers", "address", "data_folder", "list_methods", "whole"}
)


def record_options(values: Mapping[str, Any]) -> dict[str, Any]:
    """The options that decide a result, as JSON values, from all that a command was called with.

    Example:
        >>> record_options({"model": "mlp", "weights": Path("a/b"), "quiet": True})
        {'model': 'mlp', 'weights': 'a/b'}
    """
    return {name: _to_json(value) for name, value in values.items() if name not in _OF_THE_RUN}


def _to_json(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_to_json(each) for each in value]
    return str(value) if isinstance(value, Path) else value


def load_samples(
    options: Mapping[str, Any], *, encoder: Encoder | None = None, progress: Progress = silent
) -> tuple[Dataset, Dataset | None]:
    """The sample, and the test sample if one was asked for: data, data_folder, test and holdout.

    With an encoder they are the tables of their encoded inputs.
    """
    folder, test, holdout = options["data_folder"], options["test"], options["holdout"]
    if test is not None and holdout is not None:
        raise UsageError(
            "test gives a test sample and holdout cuts one from data: choose one of them, not both."
        )
    if holdout is not None and not 0.0 < holdout < 1.0:
        raise UsageError(f"holdout must be a fraction in (0, 1). Got {holdout}.")
    sample = _load(options["data"], "train", folder, encoder=encoder, progress=progress)
    if holdout is not None:
        parts = split(sample, {"train": 1.0 - holdout, "test": holdout})
        return parts["train"], parts["test"]
    if test is not None:
        return sample, _load(test, "test", folder, like=sample, encoder=encoder, progress=progress)
    return sample, None


def _load(
    spec: str,
    role: str,
    folder: Path | None,
    *,
    encoder: Encoder | None,
    like: Dataset | None = None,
    progress: Progress = silent,
) -> Dataset:
    if encoder is None:
        return load_dataset(spec, role=role, folder=folder, **({} if like is None else reading_options(like)))
    return load_table(encoder, spec, role=role, folder=folder, like=like, progress=progress)
