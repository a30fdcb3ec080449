"""Evidence behind an export: a certificate or a ledger that the second program accepted just before."""

from __future__ import annotations

import datetime
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from codebound.certificate.file import Certificate
from codebound.certificate.verification import CERTIFICATE, command_of, options_of, verify_folder
from codebound.holdout.ledger import read_ledger
from codebound.holdout.sentences import describe_line
from codebound.holdout.units import CLAIMS
from codebound.report.holdout_page import assumptions
from codebound.report.plain import describe_confidence
from codebound.run.errors import RefusedError, UsageError
from codebound.run.files import read_json
from codebound.run.store import file_sha256

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from codebound.holdout.ledger import Ledger

_NETWORKS = ("g.safetensors", "model.safetensors")
_TASKS = {1: "tabular-classification", 3: "image-classification"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """A certified limit, with the counts behind it.

    Attributes:
        name: Name of the metric, the same in every form.
        bound: The limit.
        errors: Losses counted, None where the limit is a sum of several.
        n: Examples counted.
        part: The part of the data that it is about; empty for all of them.
    """

    name: str
    bound: float
    errors: int | None
    n: int
    part: str = ""

    @property
    def share(self) -> float | None:
        """Share of losses among the counted examples."""
        return None if self.errors is None or not self.n else self.errors / self.n


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """An accepted file, as every export needs it.

    Attributes:
        name: What the model is called.
        file: Name of the file.
        sha256: Hash of that file.
        made_by: Version of the program that wrote it.
        network: Hash of the file with the model's tensors, if there is one.
        task: Kind of the inputs, as Hugging Face calls it.
        data: What the sample is called.
        data_hash: Name and value of the hash of the sample.
        rows: Rows of the sample.
        statements: Sentences that the file proves, the first one whole.
        confidence: How often such a file is false, as a sentence.
        delta: Failure probability of all of them together.
        loss: What was counted.
        assurance: What the second program did.
        assumptions: What no program can check.
        metrics: The limits, the one to be quoted first.
        command: The command that checks the file.
        checked_at: Time of the last check, as RFC 3339 has it.
    """

    name: str
    file: str
    sha256: str
    made_by: str
    network: str | None
    task: str | None
    data: str
    data_hash: tuple[str, str]
    rows: int
    statements: tuple[str, ...]
    confidence: str
    delta: float
    loss: str
    assurance: str
    assumptions: tuple[str, ...]
    metrics: tuple[Metric, ...]
    command: str
    checked_at: str


def read_evidence(source: Path) -> Evidence:
    """Has a folder of ``certify`` or a ledger checked again, and returns what an export says of it.

    The folder may be a stranger's: no code that it names is run, and its numbers are those of the verdict.

    Raises:
        RefusedError: The second program does not accept it.
        FormatError: It is not as its program writes it.
    """
    return _of_ledger(read_ledger(source)) if source.is_file() else _of_folder(source)


def _of_folder(folder: Path) -> Evidence:
    path = folder / CERTIFICATE
    certificate = Certificate.load(path)
    result = read_json(folder / "result.json", advice="`codebound certify` writes it beside a certificate.")
    settings = read_json(folder / "config.json", advice="`codebound certify` writes it too.")
    asked = options_of(folder, result)
    if result.get("by_class"):
        asked = {**asked, "by_class": True}
    verdict = verify_folder(folder, asked)
    if verdict["verdict"] != "ACCEPT":
        raise RefusedError(
            f"the second program refuses {path}: {' '.join(verdict['reasons'])} Nothing was written.",
            reasons=verdict["reasons"],
        )
    networks = [each for name in _NETWORKS if (each := folder / name).is_file()]
    claim, sample = certificate.claim, certificate.sample
    return Evidence(
        name=folder.resolve().name,
        file=CERTIFICATE,
        sha256=file_sha256(path),
        made_by=certificate.made_by["codebound"],
        network=file_sha256(networks[0]) if networks else None,
        task=_TASKS.get(len(sample.input_shape)),
        data=str(settings.get("data") or "sample"),
        data_hash=("codebound-sample-sha256", sample.sha256),
        rows=sample.rows,
        statements=(certificate.sentence,),
        confidence=describe_confidence(claim.delta),
        delta=claim.delta,
        loss=claim.loss if claim.on == "all" else f"{claim.loss} on {claim.on}",
        assurance=claim.assurance,
        assumptions=certificate.declarations,
        metrics=tuple(list_metrics(certificate, verdict["by_class"], result.get("class_names") or [])),
        command=command_of(asked),
        checked_at=_now(),
    )


def _of_ledger(ledger: Ledger) -> Evidence:
    seal = ledger.seal
    metrics = tuple(_ledger_metrics(ledger))
    if seal["kind"] != "seal" or not metrics:
        raise UsageError(f"{ledger.path} bounds no error yet: `codebound holdout look` does.")
    said = tuple(describe_line(ledger, line) for line in ledger.statements)
    begins = (
        f"With probability at least 1 - {seal['delta']!r} over the draw of the sealed rows, all at once: "
    )
    data, label = seal["data"], seal["label"]
    return Evidence(
        name=ledger.path.name.partition(".")[0],
        file=ledger.path.name,
        sha256=file_sha256(ledger.path),
        made_by=f"ledger, version {seal['version']}",
        network=None,
        task=None,
        data=data,
        data_hash=("codebound-column-sha256", label["sha256"]),
        rows=seal["rows"],
        statements=(f"{begins}{said[0]}.", *(f"{each}." for each in said[1:])),
        confidence=describe_confidence(seal["delta"]),
        delta=seal["delta"],
        loss=":".join(seal["loss"]),
        assurance="recounted",
        assumptions=assumptions(seal),
        metrics=metrics,
        command=shlex.join(["codebound-verify", ledger.path.name, "--data", data, "--head", ledger.head]),
        checked_at=_now(),
    )


def _now() -> str:
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def _ledger_metrics(ledger: Ledger) -> Iterator[Metric]:
    """Limits of all looks, the smallest first, each with its groups."""
    seal = ledger.seal
    looks = [line for line in ledger.statements if line["kind"] == "look" and line["result"]]
    name = _name(":".join(seal.get("loss", ())))
    if seal.get("label", {}).get("is") == "answers":
        name = "certified_disagreement"
    about = f", {CLAIMS[seal['clusters']['claim']]}" if seal["clusters"] else ""
    for line in sorted(looks, key=lambda each: float(each["result"]["bound"])):
        column = line["column"]["name"] + about
        yield Metric(name=name, part=column, **line["result"])
        names = seal["groups"]["names"] if seal["groups"] else ()
        for group, result in zip(names, line["groups"] or (), strict=True):
            yield Metric(name=name, part=f"{column}, {seal['groups']['column']} = {group}", **result)


def _name(loss: str) -> str:
    return "certified_error" if loss == "wrong" else f"certified_loss {loss}"


def list_metrics(certificate: Certificate, by_class: Any = (), names: Any = ()) -> Iterator[Metric]:
    """Limits of a certificate: that of the claim, then those of its parts or of a table of classes."""
    claim, widest = certificate.claim, certificate.widest
    name = _name(claim.loss)
    errors = None if claim.law == "sum" else widest.errors
    part = "" if claim.on == "all" else claim.on
    yield Metric(name=name, bound=claim.bound, errors=errors, n=widest.n, part=part)
    if claim.on.startswith("each "):
        for each in claim.limits:
            yield Metric(name=name, bound=each.bound, errors=each.errors, n=each.n, part=each.of)
    for row in by_class:
        if row["bound"] is not None:
            label = row["label"]
            known = f" ({names[label]})" if label < len(names) else ""
            part = f"class {label}{known}"
            yield Metric(
                name="certified_error", bound=row["bound"], errors=row["errors"], n=row["n"], part=part
            )
