"""Commands as functions: options in, files and a record out. The command line prints it, a sweep keeps it.

Options have the names that they have on the command line, with underscores, and all of them are given.
"""

from __future__ import annotations

import math
import tempfile
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from codebound.bounds.risk import check_delta
from codebound.holdout.answers import as_table, is_table_file
from codebound.methods.search import find_method
from codebound.request import Claim, Known, Run
from codebound.run.errors import CodeboundError, UsageError
from codebound.run.extensions import reader
from codebound.run.files import new_folder
from codebound.run.progress import NOBODY, Listener, Progress, silent
from codebound.sample.arrays import read_npy
from codebound.sample.caveats import remarks
from codebound.sample.formats.catalogue import KNOWN
from codebound.sample.load import load_sample, split
from codebound.sample.order import Design
from codebound.sample.questions import parse_question

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray
    from torch import nn

    from codebound.known.encoder import Encoder
    from codebound.known.provenance import Pretrained
    from codebound.known.score_tables import ScoreTable
    from codebound.report.folder import Result, Saved
    from codebound.run.job import Engine
    from codebound.sample.dataset import Sample


def certify_from_options(
    options: Mapping[str, Any],
    *,
    out: Path | None = None,
    engine: Engine | None = None,
    listener: Listener = NOBODY,
) -> Saved:
    """Certify a classifier, and save everything in a new folder."""
    _check(options, out)
    encoder = None
    if options["encoder"] is not None:
        from codebound.known.encoder import load_encoder

        encoder = load_encoder(options["encoder"], device=options["device"])
    with listener.bar("encode") if encoder is not None else nullcontext(silent) as progress:
        sample, test_set = load_samples(options, encoder=encoder, progress=progress)
    for warning in remarks(sample):
        listener.note(f"Warning: {warning}.")
    from codebound.certification import certify  # which loads torch: what is wrong so far is said before
    from codebound.known.learners import load_learner

    learner = None if options["learner"] is None else load_learner(options["learner"], options["seed"])
    helper = _load_helper(options, sample)
    network, base = _load_networks(options, sample)
    if network is not None and {options["weights"], base, helper} == {None}:
        listener.note(f"Warning: no weights were given: {options['model']} is as random as it was made.")
    scores, share = _load_scores(options, sample)
    known = Known(scores=scores, base=base, helper=helper, share=share)
    claim = _load_claim(options, encoder)
    with new_folder(out) as folder, listener.bar("certify") as progress:
        found = certify(
            sample,
            learner=learner,
            network=network,
            known=known,
            claim=claim,
            method=options["method"],
            delta=options["delta"],
            test=test_set,
            run=Run(
                engine=engine,
                progress=progress,
                **{name: options[name] for name in ("effort", "minutes", "seed", "device")},
            ),
        )
        for warning in (each for each in found.sample.warnings if each not in sample.warnings):
            listener.note(f"Warning: {warning}.")
        is_whole = {options["holdout"], options["data_folder"], found.sample.features} == {None}
        return save_or_rescue(
            found,
            folder,
            settings=record_options(options),
            data=options["data"].lower() if is_whole else "",
        )


def _check(options: Mapping[str, Any], out: Path | None) -> None:
    """Refuse options that are wrong whatever the sample is; this loads no torch."""
    check_delta(options["delta"])
    if options["method"] != "auto":
        find_method(options["method"])
    parse_question(options["loss"], options["on"])
    Design("rows" if options["clusters"] else options["order"], options["copies"])
    Claim(assurance=options["assurance"])
    Known(share=options["share"])
    Run(effort=options["effort"], minutes=options["minutes"])
    files = [options[name] for name in ("weights", "base")] + (options["scores"] or [])
    files += [each for name in ("clusters", "groups") if (each := options[name]) and each.suffix == ".npy"]
    for path in files:
        if path is not None and not path.exists():
            raise UsageError(f"there is no file {path}.")
    if out is not None and out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UsageError(f"{out} exists already; results are never overwritten. Choose another folder.")
    if options["model"] is None and (options["weights"] is not None or options["base"] is not None):
        raise UsageError("weights and base belong to an architecture: give it with --model.")


def _load_networks(options: Mapping[str, Any], sample: Sample) -> tuple[nn.Module | None, Pretrained | None]:
    """The network and its base, from model, weights, base and says."""
    model, weights = options["model"], options["weights"]
    if model is None:
        return None, None
    from codebound.run.tensor_files import state_sha256, state_tensors

    network: nn.Module = reader("networks")(model, sample, weights)
    if options["base"] is None:
        return network, None
    base: Pretrained = reader("bases")(options["base"], network, sample=sample, says=options["says"] or "")
    if weights is None:
        return base.network, base
    if state_sha256(state_tensors(network)) == state_sha256(state_tensors(base.network)):
        raise UsageError(
            "weights and base are the same network. Where it never saw the sample, leave out the "
            "weights; where it did, it is no base."
        )
    return network, base


def _load_scores(options: Mapping[str, Any], sample: Sample) -> tuple[tuple[ScoreTable, ...], float | None]:
    """Declared tables; where nothing learns from a share here, they were made of it."""
    from codebound.known.score_tables import ScoreTable
    from codebound.run.tensor_files import load_weights

    files, share = options["scores"] or [], options["share"]
    if options["says"] is not None and not files and options["base"] is None:
        raise UsageError("says describes a base or scores: give one of them.")
    is_made = share is not None and {options[name] for name in ("learner", "model", "helper")} == {None}
    rows = math.floor(round(share * sample.n, 9)) if files and is_made else 0
    of = "the known share alone" if rows else "other data"
    tables = []
    for file in files:
        arrays: dict[str, Any] = (
            {"scores": read_npy(file)} if file.suffix == ".npy" else {**load_weights(file)}
        )
        if "scores" not in arrays:
            raise UsageError(f"{file} has no array 'scores'. It has {', '.join(arrays)}.")
        by = ", ".join(filter(None, (options["says"], file.name)))
        tables.append(ScoreTable(np.asarray(arrays["scores"]), by, of, rows, arrays.get("picks")))
    return tuple(tables), None if rows else share


def _load_claim(options: Mapping[str, Any], encoder: Encoder | None) -> Claim:
    """The claim that the options name."""
    unlabelled, span = options["unlabelled"], options["input_range"]
    if unlabelled is not None:
        role = "test" if unlabelled.lower() in KNOWN else "unlabelled"
        fresh = _load(unlabelled, role, options["data_folder"], encoder=encoder)
        unlabelled = fresh.select(range(fresh.n), role="unlabelled")
    if span is not None:
        low, _, high = span.partition(":")
        try:
            span = float(low), float(high)
        except ValueError as error:
            raise UsageError(f"the input range is LOW:HIGH, such as 0:255. Got {span!r}.") from error
    numbers: dict[str, Any] = {name: _load_numbers(options, name) for name in ("clusters", "groups")}
    names = ("loss", "on", "by_class", "copies", "order", "assurance")
    return Claim(
        unlabelled=unlabelled, input_range=span, **numbers, **{name: options[name] for name in names}
    )


def _load_numbers(options: Mapping[str, Any], name: str) -> NDArray[np.int64] | None:
    """The cluster or group of each row: numbers in a file, or a column of the table."""
    given = options[name]
    if given is None:
        return None
    if given.suffix == ".npy":
        return read_npy(given).astype(np.int64)
    if not is_table_file(options["data"]):
        raise UsageError(f"{name} are numbers in a .npy file, or a column where the data are a table.")
    cells = as_table(options["data"]).full_cells(str(given))
    return np.unique(np.array(cells), return_inverse=True)[1].astype(np.int64)


def save_or_rescue(found: Result, folder: Path, **where: Any) -> Saved:
    """Saves what was found; where that fails, the certificate alone goes to the folder for temporary files.

    ``where`` are the other arguments of ``Result.save_to``.
    """
    try:
        return found.save_to(folder, **where)
    except CodeboundError as error:
        from codebound.certificate.verification import CERTIFICATE

        with suppress(CodeboundError, OSError):
            kept = found.save(Path(tempfile.mkdtemp(prefix="codebound-")) / CERTIFICATE)
            error.args = (f"{error} What was found is not lost: the certificate is in {kept}.",)
        raise


def certify_record(options: Mapping[str, Any], *, out: Path | None = None) -> dict[str, Any]:
    """The same, for who wants the result alone."""
    return certify_from_options(options, out=out).result


def _load_helper(options: Mapping[str, Any], sample: Sample) -> Callable[[Sample], Any] | Pretrained | None:
    """Helper of a share: a function, or a network that was made of it."""
    helper = options["helper"]
    if helper is None:
        return None
    from codebound.known.learners import load_object
    from codebound.known.provenance import MAX_WORDS, Pretrained

    if ":" in helper and not Path(helper).exists():
        found: Callable[[Sample], Any] = load_object(helper, "helper")
        return found
    if options["model"] is None:
        raise UsageError("the weights of a helper belong to a model: give the model.")
    network: nn.Module = reader("networks")(options["model"], sample, helper)
    return Pretrained(
        network, f"weights {Path(helper).name!r}, made of the first part of the split alone"[:MAX_WORDS]
    )


# where results go, how they are printed and what runs at the same time: the result is the same
_OF_THE_RUN = frozenset(
    {
        "out",
        "output",
        "quiet",
        "verbose",
        "engine",
        "workers",
        "address",
        "data_folder",
    }
)


def record_options(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that decide a result, as JSON values.

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
) -> tuple[Sample, Sample | None]:
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
    like: Sample | None = None,
    progress: Progress = silent,
) -> Sample:
    if encoder is None:
        return load_sample(spec, role=role, folder=folder, like=like)
    return encoder.table(spec, role=role, folder=folder, like=like, progress=progress)
