"""Result of ``certify``, and the folder it is saved to."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, replace
from decimal import ROUND_CEILING, Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from codebound.bounds.held_out import Confrontation, confront
from codebound.bounds.risk import HoldoutFacts
from codebound.certificate.verification import CERTIFICATE, list_commands, options_of, strip_folders
from codebound.certificate.words import describe_choice
from codebound.known.provenance import BASE_FILE, UNKNOWN, Origin, remember
from codebound.known.score_tables import Biased
from codebound.known.usual_learners import is_usual
from codebound.known.views import list_texts
from codebound.learn.learner import KernelNetwork
from codebound.methods.search import compare_offers, list_methods
from codebound.report.plain import DECLARED_SCORES
from codebound.report.summary import (
    README,
    describe_test,
    describe_yours,
    folder_guide,
    holdout_rows,
    inputs_record,
    loss_words,
    refused_lines,
    summary_html,
)
from codebound.run.errors import CertificateError, UsageError
from codebound.run.files import (
    read_json,
    replace_file,
    write_arrays,
    write_atomically,
    write_json,
    write_text,
    write_whole,
)
from codebound.run.progress import finish_block
from codebound.sample.caveats import DEVELOPED, remarks
from codebound.sample.columns import text_cells
from codebound.sample.dataset import seen_rows
from codebound.sample.load import load_sample

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torch import nn

    from codebound.bounds.risk import RiskBound
    from codebound.certificate.file import Certificate
    from codebound.certificate.offers import ClassBound, Offer
    from codebound.known.messages import Tensors
    from codebound.known.score_tables import ScoreTable
    from codebound.methods.search import Refusal
    from codebound.request import Task
    from codebound.sample.dataset import Sample
    from codebound.sample.order import Design

WEIGHTS = "g.safetensors"
_TEXTS, _BETWEEN = "texts.txt", "\0"
RESULT = "result.json"
_IN_MEMORY = 1 << 30  # bytes of inputs


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Result:
    """A certificate with what belongs beside it.

    Attributes:
        offer: The offer that was issued.
        task: What was fixed before: the sample, its design, declared tables, a base.
        holdout: Hold-out bound, on the test sample where one was given, of the network that the certificate
            is about; where that was made of f, true only if f has not been trained on the test sample.
        holdout_f: The same of f, where it is not about f; true only if f has not been trained on that sample.
        origin: What f was trained on, where it is known.
        original_errors: Errors of f on the whole sample; None where f was never trained.
        errors_of_whole: Test errors of the same learner, fitted on the whole sample, where that is known.
        copies: Test inputs that also occur in the sample, where a test sample was given.
        skipped: Methods that did not suit, with the reason.
        refusals: Better certificates that the second program refused, or that could not be read: a defect.
        tried: Messages that were assessed.
        is_interrupted: Whether the search was interrupted; the best message until then was certified.
        is_out_of_time: Whether the time for the search was up before its end.
        offers: The best offer of every method, as a row of the table, the best first.
        by_class: Errors of g on every class, where they were asked for; their limits hold at once.
        notes: What was done to read the network that was given, in sentences.
        disagreement: How often f and g differ on the inputs of the test sample, where it is not about f.

    Example:
        >>> import codebound as cb
        >>> few = cb.load_sample("digits").select(range(300), role="train")
        >>> found = cb.certify(few, method="split", run=cb.Run(effort="quick"))
        >>> f"{found:.1%} at {found.delta}, by {found.method}", float(found) == found.bound
        ('4.8% at 0.05, by split', True)
    """

    certificate: Certificate
    offer: Offer
    task: Task
    settings: Mapping[str, Any]
    original_errors: int | None
    skipped: dict[str, str]
    tried: int
    is_interrupted: bool
    seconds: float
    is_out_of_time: bool = False
    holdout: RiskBound | None = None
    errors_of_whole: int | None = None
    copies: int | None = None
    holdout_f: RiskBound | None = None
    origin: Origin = UNKNOWN
    by_class: tuple[ClassBound, ...] = ()
    offers: Sequence[dict[str, Any]] = ()
    refusals: tuple[Refusal, ...] = ()
    notes: tuple[str, ...] = ()
    disagreement: HoldoutFacts | None = None

    def __str__(self) -> str:
        result = self.result
        yours = describe_yours(result)
        whose = f"Classifier: {result['network']}."
        tested = (f"{name}: {value} {words}." for name, value, words in holdout_rows(result))
        warned = (f"Warning: {each}." for each in result["warnings"])
        refused = refused_lines(result["refusals"])
        first = f"Your network: {', '.join(yours)}." if yours else ""
        lines = (first, str(self.certificate), whose, *refused, *tested, *warned, self.alarm)
        return "\n".join(filter(None, lines))

    def __repr__(self) -> str:
        return f"Result(bound={self.bound!r}, delta={self.delta!r}, method={self.method!r})"

    def __float__(self) -> float:
        return self.bound

    def __format__(self, spec: str) -> str:
        """The bound, rounded up: ``f"{found:.1%}"`` is no less than it."""
        places = re.search(r"\.(\d+)([f%])$", spec)
        if places is None:
            return format(self.bound if spec else str(self), spec)
        unit = Decimal(1).scaleb(-int(places[1]) - 2 * (places[2] == "%"))
        return format(Decimal(self.bound).quantize(unit, ROUND_CEILING), spec)

    def _repr_html_(self) -> str:
        """Summary that a notebook shows."""
        return summary_html(self.certificate.sentence, self.result)

    @property
    def bound(self) -> float:
        """The certified error, in [0, 1]."""
        return self.certificate.claim.bound

    @property
    def vacuous(self) -> bool:
        """Return True if the bound is no better than guessing."""
        return self.certificate.claim.vacuous

    @property
    def delta(self) -> float:
        """The probability that the sample was misleading."""
        return self.certificate.claim.delta

    @property
    def method(self) -> str:
        """The method that made the classifier."""
        return self.offer.method

    @property
    def network(self) -> nn.Module | None:
        """The classifier g, in evaluation mode; None where only its scores are known.

        That it has seen the sample is remembered: as a base or helper for it, it would be refused.
        """
        found, sample = self.offer.outcome.classifier, self.sample
        if found is not None:
            seen = self.origin.add_training(sample.sha256, seen_rows(sample))
            remember(found, replace(seen, is_whole=False))
        return found

    @property
    def classifier(self) -> nn.Module:
        """The network g, where more than its scores is known."""
        found = self.network
        if found is None:
            raise UsageError("only the scores of this classifier were given: it cannot be asked for others.")
        return found

    @property
    def sample(self) -> Sample:
        """The sample; the verifier needs it."""
        return self.task.sample

    @property
    def tables(self) -> tuple[ScoreTable, ...]:
        """Declared tables of scores, in their order; the verifier needs them."""
        return self.task.tables

    @property
    def base(self) -> Tensors | None:
        """Tensors of the base, with the names of the message; the verifier needs them."""
        return None if self.certificate.known.base is None else self.task.base_tensors

    @property
    def sentence(self) -> str:
        """The guarantee, in words."""
        return self.certificate.sentence

    @property
    def result(self) -> dict[str, Any]:
        """Everything that was found, as plain JSON: what ``save_to`` writes into ``result.json``."""
        return _result(self, CERTIFICATE, list_commands(Path(), {"data": Path("sample.npz")}))

    @property
    def confrontation(self) -> Confrontation | None:
        """The certified error beside the test sample, where one was given."""
        if self.holdout is None:
            return None
        assert isinstance(self.holdout.facts, HoldoutFacts)
        return confront(
            self.certificate.claim.bound, self.holdout.facts, does=loss_words(self.certificate.claim.loss)
        )

    @property
    def alarm(self) -> str:
        """Warning that the test sample refutes the certificate. Empty where it does not."""
        return "" if self.confrontation is None else self.confrontation.alarm

    @property
    def is_new(self) -> bool:
        """Return True if g is new and shares nothing with f."""
        known = list_methods().get(self.offer.method)
        is_own = self.base is None and known is not None and known.is_own
        return is_own and not self.is_given_by_scores

    @property
    def is_given_by_scores(self) -> bool:
        """Return True if g is the given network by declared scores."""
        return self.certificate.has_table and self.original_errors is not None

    def save(self, path: Path | str) -> Path:
        """Writes the certificate."""
        return self.certificate.save(path)

    def log_mlflow(self) -> str:
        """Logs the certified error and the certificate to the active run of MLflow; returns its id."""
        from codebound.report.exports import log_mlflow

        return log_mlflow(self)

    def save_to(
        self,
        folder: Path | str,
        *,
        settings: Mapping[str, Any] | None = None,
        data: str = "",
        weights: str = WEIGHTS,
    ) -> Saved:
        """Writes g, what the verifier needs, settings, result, pages, certificate: all of it or nothing.

        Args:
            folder: New, or empty.
            settings: For ``config.json`` in place of our own; with ``model`` and ``data``.
            data: Name by which ``codebound-verify`` knows the sample; others are written into the folder.
            weights: Name of the file for the network g.
        """
        from safetensors.torch import save as tensor_bytes

        from codebound.report.html import certificate_page, picks_table, select_examples

        folder = Path(folder)
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise UsageError(
                f"{folder} exists already; results are never overwritten. Choose another folder."
            )
        network = self.offer.outcome.classifier
        words = strip_folders(dict(self.settings if settings is None else settings))
        is_given = not self.is_new and words["model"] not in (None, "none")
        title = f"Certificate of {words['model'] if is_given else 'a new classifier'} for {words['data']}"
        path = folder / CERTIFICATE
        with finish_block(), write_whole(folder) as place:
            asked = _verifier_options(self, place, folder, data)
            if self.certificate.is_learned:
                asked["weights"] = folder / weights
            result = _result(self, str(path), list_commands(folder, asked))
            page = certificate_page(self.certificate, result, title=title, shown=select_examples(self))
            if isinstance(network, KernelNetwork) and self.certificate.has_picks:
                write_text(place / "picks.csv", picks_table(network, self.sample))
            state = {} if network is None else network.state_dict()
            state = {name: tensor.contiguous() for name, tensor in state.items()}
            if state.keys() - {"biases"}:  # a learner of others has no tensors: its scores are kept
                write_atomically(place / weights, tensor_bytes(state))
            write_json(place / "config.json", words)
            write_json(place / RESULT, result | {"certificate": CERTIFICATE, "verify": result["verify_here"]})
            write_text(place / "report.html", page)
            files = {path.name, *(each.name for each in place.iterdir())}
            guide = folder_guide(self.certificate, result, title=title, files=files)
            write_text(place / README, guide)
            write_atomically(place / path.name, self.certificate.to_bytes())
        return Saved(folder, result, self.certificate.sentence)


@dataclass(frozen=True, slots=True)
class Saved:
    """Folder that was written, with the result as printed."""

    folder: Path
    result: dict[str, Any]
    sentence: str


def _write_sample(sample: Sample, design: Design, place: Path) -> str:
    """Write a sample for the verifier, and return its name.

    A large one becomes a folder of plain arrays: the verifier has an archive in its memory, and those not.
    """
    arrays: dict[str, Any] = {"x": sample.x, "y": sample.y}
    arrays |= {"cells": np.array(True)} if sample.is_cells else {}
    numbers = {"clusters": design.clusters, "groups": design.groups}
    arrays |= {name: each for name, each in numbers.items() if each is not None}
    if texts := list_texts(sample):
        write_text(place / _TEXTS, _BETWEEN.join(texts))
    if sample.x.nbytes <= _IN_MEMORY:
        write_arrays(place / "sample.npz", arrays)
        return "sample.npz"
    (place / "sample").mkdir()
    for name, array in arrays.items():
        with replace_file(place / "sample" / f"{name}.npy") as file:
            np.save(file, array)
    return "sample"


def load_sample_of(certificate: Certificate, folder: Path, *, data: str | None = None) -> Sample:
    """The sample of a certificate, from its folder unless it is elsewhere.

    Raises:
        CertificateError: It is another one.
    """
    result = read_json(folder / RESULT, advice="`codebound certify` writes it beside a certificate.")
    data = data or str(options_of(folder, result)["data"])
    if (folder / _TEXTS).is_file():
        text_cells((folder / _TEXTS).read_text("utf-8").split(_BETWEEN))  # which learners of texts look up
    inside = folder / data
    sample = load_sample(str(inside) if inside.exists() else data)
    if sample.sha256 != certificate.sample.sha256:
        raise CertificateError(f"{data} is not the sample of the certificate. Give the sample it is about.")
    return sample


def _verifier_options(found: Result, place: Path, folder: Path, data: str) -> dict[str, str | Path | bool]:
    """Options for the verifier, files as paths. Files that it cannot find by itself are written.

    Files go to ``place`` now, and are in ``folder`` for who reads the options.
    """
    from safetensors.numpy import save as array_bytes

    from codebound_verify.sources.arrays import NAMES

    sample, design, fresh = found.sample, found.task.design, found.task.unlabelled
    has_numbers = design.clusters is not None or design.groups is not None
    is_named = data in NAMES and not has_numbers
    asked: dict[str, str | Path | bool] = {
        "data": data if is_named else folder / _write_sample(sample, design, place)
    }
    for number, table in enumerate(found.task.tables, start=1):
        table.save(place / scores_name(number))
    if fresh is not None:
        write_arrays(place / "unlabelled.npz", {"x": fresh.x})
        asked["unlabelled"] = folder / "unlabelled.npz"
    for option, tensors, name in (
        ("base", found.base, BASE_FILE),
        ("subject_weights", found.task.f.arrays if found.task.is_about_f else None, "f.safetensors"),
    ):
        if tensors is not None:
            write_atomically(place / name, array_bytes(tensors))
            asked[option] = folder / name
    return asked


def scores_name(number: int) -> str:
    """Name of the file of a declared table.

    Example:
        >>> scores_name(1), scores_name(2)
        ('scores.safetensors', 'scores-2.safetensors')
    """
    return "scores.safetensors" if number == 1 else f"scores-{number}.safetensors"


def _result(found: Result, path: str, commands: Mapping[str, Any]) -> dict[str, Any]:
    """The result as plain JSON."""
    certificate, claim = found.certificate, found.certificate.claim
    network = found.offer.outcome.classifier
    inner = network.classifier if isinstance(network, Biased) else network
    is_again = certificate.has_table and is_usual(found.task.tables[0].by)
    counts = certificate.counts
    result = {
        "bound": claim.bound,
        **{each.key: each.count for each in counts},
        "n": certificate.widest.n,
        "rows": certificate.sample.rows,
        "classes": certificate.sample.classes,
        "class_names": list(found.sample.class_names),
        "inputs": inputs_record(found.sample),
        "code_bits": certificate.message.bits,
        "message": describe_choice(certificate),
        "delta": claim.delta,
        "vacuous": claim.vacuous,
        "verdict": "ACCEPT",
        "assurance": claim.assurance,
        "certificate": path,
        "statement": certificate.statement,
        "subject": claim.subject,
        "loss": claim.loss,
        "on": claim.on,
        "limits": [asdict(each) for each in claim.limits],
        "method": found.offer.method,
        "g_is_new": found.is_new,
        "network": _network_words(found),
        # the folder has all that g is computed with, or learned from again
        "loads": not certificate.has_table or isinstance(inner, KernelNetwork) or is_again,
        "is_fitted_again": is_again,
        "methods_skipped": found.skipped,
        "refusals": [asdict(each) for each in found.refusals],
        "counts": [asdict(each) for each in counts],
        "original_errors": found.original_errors,
        "messages_tried": found.tried,
        "interrupted": found.is_interrupted,
        "out_of_time": found.is_out_of_time,
        "seconds": round(found.seconds, 3),
        "data_sha256": certificate.sample.sha256,
        "developed": DEVELOPED in certificate.declarations,
        "warnings": list(remarks(found.sample)),
        "advice": _advice(found),
        **commands,
        "notes": list(found.notes),
    }
    result |= describe_test(found)
    if found.offer.guessing is not None:
        result["guessing"] = found.offer.guessing
    if found.offers:
        result["offers"] = list(found.offers)
        result["offers_say"] = compare_offers(found.offers)
    if found.by_class:
        result["by_class"] = [asdict(row) for row in found.by_class]
    result["declared"] = {name: f"{made.by}, made of {made.of}" for name, made in certificate.used.items()}
    return result


def _network_words(found: Result) -> str:
    """Origin of the certified classifier, in words."""
    certificate = found.certificate
    if certificate.claim.subject == "f":
        return "the network that was given"
    if certificate.known.base is not None and certificate.known.base.rows:
        return "what the message makes of a network that was learned from the known share of the sample"
    if certificate.has_table:
        return (
            DECLARED_SCORES
            if found.is_given_by_scores
            else "a classifier that is known by its declared scores"
        )
    if not found.is_new:
        return "what the message leaves of the network that was given"
    given = ", not yours: the one that was given, with its weights, was not used"
    return f"learned here by the method {found.offer.method}" + (
        given if found.original_errors is not None else ""
    )


def _advice(found: Result) -> str:
    """Advice on what to try next, if the certificate is vacuous."""
    if not found.certificate.claim.vacuous:
        return ""
    if found.is_interrupted:
        return "It was interrupted before the tight methods had their time: let it run."
    if found.is_out_of_time:
        return "The time was up before the tight methods had theirs: give more minutes."
    if found.settings.get("method", "auto") != "auto":
        return "Leave out the method: others are tried then, the quick and tight ones first."
    return "More examples help most; `codebound holdout plan` says how many."
