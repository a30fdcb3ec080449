"""Certificates in the forms of other programs: in-toto, CycloneDX, a model card, MLflow.

An export repeats numbers that the second program accepted just before. It proves nothing by itself: whoever
doubts it runs ``codebound-verify`` on the file that it names by its SHA-256.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import shlex
import uuid
from dataclasses import asdict, dataclass, fields
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from codebound import __version__
from codebound.bounds.risk import percent
from codebound.certificate.file import Certificate
from codebound.certificate.verification import CERTIFICATE, command_of, options_of, verify_folder
from codebound.holdout.ledger import read_ledger
from codebound.holdout.sentences import describe_line
from codebound.holdout.units import CLAIMS
from codebound.report.holdout_page import list_assumed
from codebound.report.plain import describe_confidence
from codebound.report.summary import as_markdown
from codebound.report.templates import render
from codebound.run.errors import CodeboundError, FormatError, RefusedError, UsageError
from codebound.run.files import file_sha256, read_json, write_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from codebound.holdout.ledger import Ledger
    from codebound.report.folder import Result

_NETWORKS = ("g.safetensors", "model.safetensors")
_TASKS = {1: "tabular-classification", 3: "image-classification"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """A certified limit of a part of the data (empty: all), with the counts behind it.

    ``errors`` is None where the limit is a sum of several.
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

    @property
    def words(self) -> str:
        """Name and part, as people say them."""
        name = self.name.replace("_", " ")
        return f"{name}, {self.part}" if self.part else name


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """An accepted file, as every export needs it.

    Attributes:
        file, sha256, made_by: The file, its hash, and the version of the program that wrote it.
        network: Hash of the file with the model's tensors, if there is one.
        task: Kind of the inputs, as Hugging Face calls it.
        data_hash: Name and value of the hash of the sample.
        statements: Sentences that the file proves, the first one whole.
        confidence: How often such a file is false, as a sentence.
        metrics: The limits, the one to be quoted first.
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
    seal, metrics = ledger.seal, tuple(_ledger_metrics(ledger))
    if seal["kind"] == "watch":
        raise UsageError(f"{ledger.path} is a watch, which bounds no error: export what certified its bound.")
    if not metrics:
        raise UsageError(f"{ledger.path} bounds no error yet: `codebound holdout look` does.")
    first, *others = (f"{describe_line(ledger, line)}." for line in ledger.statements)
    sure = f"With probability at least 1 - {seal['delta']!r} over the draw of the sealed rows, all at once"
    return Evidence(
        name=ledger.path.name.partition(".")[0],
        file=ledger.path.name,
        sha256=file_sha256(ledger.path),
        made_by=f"ledger, version {seal['version']}",
        network=None,
        task=None,
        data=seal["data"],
        data_hash=("codebound-column-sha256", seal["label"]["sha256"]),
        rows=seal["rows"],
        statements=(f"{sure}: {first}", *others),
        confidence=describe_confidence(seal["delta"]),
        delta=seal["delta"],
        loss=":".join(seal["loss"]),
        assurance="recounted",
        assumptions=tuple(line for line, _ in list_assumed(seal)),
        metrics=metrics,
        command=shlex.join(
            ["codebound-verify", ledger.path.name, "--data", seal["data"], "--head", ledger.head]
        ),
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
        for group, result in zip(
            (seal["groups"] or {"names": ()})["names"], line["groups"] or (), strict=True
        ):
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
            part = f"class {label} ({names[label]})" if label < len(names) else f"class {label}"
            counts = {key: row[key] for key in ("bound", "errors", "n")}
            yield Metric(name="certified_error", part=part, **counts)


_VERIFIER = f"pkg:generic/codebound-verify@{__version__}"


def intoto_statement(evidence: Evidence, *, max_error: float | None = None) -> str:
    """An in-toto Statement v1 with the predicate eval-result; to be signed by other programs.

    Without ``max_error``, the error that had to be shown, the limits themselves are the thresholds.
    """
    claims = [
        {
            "metric": f"{each.name}[{each.part}]" if each.part else each.name,
            "comparator": "<=",
            "threshold": _decimal(each.bound if max_error is None else max_error),
            "passed": max_error is None or each.bound <= max_error,
        }
        for each in evidence.metrics
    ]
    hash_name, hash_value = evidence.data_hash
    predicate = {
        "verifier": {"id": _VERIFIER},
        "evaluatedAt": evidence.checked_at,
        "suite": {"name": "codebound", "version": evidence.made_by},
        "claims": claims,
        "sampleSize": evidence.metrics[0].n,
        "commitments": {
            "model": {"alg": "sha256", "value": evidence.network or evidence.sha256, "salted": False},
            "dataset": {"alg": hash_name, "value": hash_value, "salted": False},
        },
        "assuranceLevel": "reproduced" if evidence.assurance == "replayed" else "self_attested",
        "subjectProfile": "receipt",
        "harness": {"name": "codebound-verify", "version": __version__},
        "codebound_facts": _facts(evidence),
        "codebound_assumptions": list(evidence.assumptions),
    }
    statement = {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": evidence.file, "digest": {"sha256": evidence.sha256}}],
        "predicateType": "https://in-toto.io/attestation/eval-result/v0.1",
        "predicate": predicate,
    }
    return json.dumps(statement, indent=2, allow_nan=False) + "\n"


def cyclonedx_bom(evidence: Evidence) -> str:
    """A CycloneDX 1.6 bill of materials: the model, its limits as performance metrics, and the evidence."""
    metrics: list[dict[str, Any]] = []
    for each in evidence.metrics:
        part = {"slice": each.part} if each.part else {}
        interval = {"lowerBound": "0", "upperBound": _decimal(each.bound)}
        value = _decimal(each.bound)
        metrics.append({"type": each.name, "value": value, **part, "confidenceInterval": interval})
        if each.share is not None:
            metrics.append({"type": _counted(each.name), "value": _decimal(each.share), **part})
    facts = [{"name": f"codebound:{name}", "value": text} for name, text in _facts(evidence).items()]
    model = {
        "type": "machine-learning-model",
        "bom-ref": "model",
        "name": evidence.name,
        "description": " ".join(evidence.statements),
        "modelCard": {
            "modelParameters": {
                "task": evidence.task or "classification",
                "datasets": [{"type": "dataset", "name": evidence.data}],
            },
            "quantitativeAnalysis": {"performanceMetrics": metrics},
            "considerations": {"technicalLimitations": list(evidence.assumptions)},
        },
        "externalReferences": [
            {
                "type": "evidence",
                "url": evidence.file,
                "comment": f"Checked by: {evidence.command}",
                "hashes": [{"alg": "SHA-256", "content": evidence.sha256}],
            }
        ],
        "properties": facts,
    }
    if evidence.network is not None:
        model["hashes"] = [{"alg": "SHA-256", "content": evidence.network}]
    tool = {"type": "application", "name": "codebound", "version": __version__}
    bom = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": uuid.uuid5(uuid.NAMESPACE_URL, f"sha256:{evidence.sha256}").urn,
        "version": 1,
        "metadata": {"timestamp": evidence.checked_at, "tools": {"components": [tool]}},
        "components": [model],
    }
    return json.dumps(bom, indent=2, allow_nan=False) + "\n"


def model_card(evidence: Evidence) -> str:
    """A model card as Hugging Face reads it: metadata with a model index, then the same in words."""
    values = {each.name: getattr(evidence, each.name) for each in fields(evidence)}
    words = {"scalar": _scalar, "decimal": _decimal, "markdown": as_markdown, "percent": percent}
    return render("card.md.j2", {**values, **words}) + "\n"


FORMS: Mapping[str, tuple[str, Callable[[Evidence], str]]] = {
    "intoto": (".intoto.json", intoto_statement),
    "cyclonedx": (".cdx.json", cyclonedx_bom),
    "card": (".card.md", model_card),
}
"""Forms of an export: how the name of its file ends, and the function that writes it."""


def export(source: Path, form: str, *, out: Path | None = None, max_error: float | None = None) -> Path:
    """Writes what another program reads of a certificate or a ledger, beside it or to ``out``.

    Raises:
        UsageError: There is no such form, or the file exists.
        RefusedError: The second program does not accept it.
    """
    if form not in FORMS:
        raise UsageError(f"a certificate is exported to {', '.join(FORMS)}. Got {form!r}.")
    if max_error is not None and (form != "intoto" or not 0.0 < max_error <= 1.0):
        raise UsageError("the error that has to be shown lies in (0, 1], and belongs to the form intoto.")
    ending, write = FORMS[form]
    file = source if source.is_file() else source / CERTIFICATE
    path = file.with_name(file.name.partition(".")[0] + ending) if out is None else out
    if path.exists():
        raise UsageError(f"{path} exists already; exports are never overwritten. Choose another file.")
    if not path.parent.is_dir():
        raise UsageError(f"the folder {path.parent} does not exist. Choose another.")
    try:
        evidence = read_evidence(source)
        text = write(evidence) if max_error is None else intoto_statement(evidence, max_error=max_error)
    except (AttributeError, LookupError, TypeError) as error:
        raise FormatError(f"{source} is not what its program writes: {error!r}.") from error
    write_text(path, text)
    return path


def log_mlflow(found: Result) -> str:
    """Log metrics, words and the certificate to the active run of MLflow, else to a new one; its id."""
    try:
        import mlflow
    except ImportError as error:
        raise CodeboundError(
            "logging needs MLflow: pip install mlflow, or the smaller mlflow-skinny."
        ) from error
    certificate, content = found.certificate, found.certificate.to_bytes()
    rows = [asdict(each) for each in found.by_class]
    logged: dict[str, float] = {}
    for each in list_metrics(certificate, rows, found.sample.class_names):
        of = f".{each.part}" if each.part else ""
        logged[_key(f"{each.name}{of}")] = each.bound
        if each.share is not None:
            logged[_key(f"{_counted(each.name)}{of}")] = each.share
    mlflow.log_metrics(logged)
    mlflow.set_tags(  # parameters of a run cannot be logged twice
        {
            "codebound.statement": certificate.sentence,
            "codebound.delta": _decimal(certificate.claim.delta),
            "codebound.method": found.method,
            "codebound.assurance": certificate.claim.assurance,
            "codebound.sample_sha256": certificate.sample.sha256,
            "codebound.certificate_sha256": hashlib.sha256(content).hexdigest(),
        }
    )
    with TemporaryDirectory() as place:
        mlflow.log_artifact(str(certificate.save(Path(place) / CERTIFICATE)), "codebound")
    return str(mlflow.active_run().info.run_id)


def _facts(evidence: Evidence) -> dict[str, str]:
    """Numbers and words for which the other forms have no place of their own."""
    return {
        "statement": " ".join(evidence.statements),
        "delta": _decimal(evidence.delta),
        "loss": evidence.loss,
        "assurance": evidence.assurance,
        "file-sha256": evidence.sha256,
        evidence.data_hash[0]: evidence.data_hash[1],
        "verify": evidence.command,
    }


def _counted(name: str) -> str:
    return name.replace("certified_", "counted_")


def _key(text: str) -> str:
    """A name that MLflow takes: in its store of files a metric is a file, and no folder.

    Example:
        >>> _key("certified_error.class 1 (a/b)")
        'certified_error.class 1 _a_b_'
    """
    return "".join(c if c.isalnum() or c in "_-. " else "_" for c in text)[:250]


def _decimal(value: float) -> str:
    """A number without an exponent, all of its digits: it is not rounded.

    Example:
        >>> _decimal(1e-06), _decimal(0.0762)
        ('0.000001', '0.0762')
    """
    return format(Decimal(repr(value)), "f")


def _scalar(text: str) -> str:
    r"""A text as YAML, whatever is in it.

    Example:
        >>> print(_scalar('a: "b" \x07'))
        "a: \"b\" \u0007"
    """
    quoted = json.dumps(text, ensure_ascii=False)
    return "".join(c if c.isprintable() else f"\\U{ord(c):08x}" for c in quoted)
