"""Certificates in the forms of other programs: in-toto, CycloneDX, a model card, MLflow.

An export repeats numbers that the second program accepted just before. It proves nothing by itself: whoever
doubts it runs ``codebound-verify`` on the file that it names by its SHA-256.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from dataclasses import asdict
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from codebound import __version__
from codebound.bounds.risk import percent
from codebound.certificate.verification import CERTIFICATE
from codebound.report.evidence import list_metrics, read_evidence
from codebound.report.summary import as_markdown
from codebound.run.errors import CodeboundError, FormatError, UsageError
from codebound.run.files import write_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from codebound.report.evidence import Evidence, Metric
    from codebound.report.folder import Certification

_VERIFIER = f"pkg:generic/codebound-verify@{__version__}"


def intoto_statement(evidence: Evidence, *, max_error: float | None = None) -> str:
    """An in-toto Statement v1 with the predicate eval-result; to be signed by other programs.

    Args:
        evidence: What was accepted.
        max_error: The error that had to be shown. None: the limits themselves are the thresholds.
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
        "properties": [
            {"name": f"codebound:{name}", "value": text} for name, text in _facts(evidence).items()
        ],
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
    lines = ["---", "tags:", "- codebound", "model-index:", f"- name: {_scalar(evidence.name)}", "  results:"]
    for each in evidence.metrics:
        words = f"{_in_words(each)}, at most, with probability at least 1 - {evidence.delta!r}"
        lines += [
            "  - task:",
            f"      type: {evidence.task or 'other'}",
            "    dataset:",
            f"      type: {_scalar(evidence.data)}",
            f"      name: {_scalar(evidence.data)}",
            *([f"      config: {_scalar(each.part)}"] if each.part else []),
            "      args:",
            f"        sha256: {_scalar(evidence.data_hash[1])}",
            f"        rows: {evidence.rows}",
            "    metrics:",
            f"    - type: {_scalar(each.name)}",
            f"      value: {_decimal(each.bound)}",
            f"      name: {_scalar(words)}",
        ]
    rows = [
        f"| {as_markdown(_in_words(each))} | {percent(each.bound)} | "
        f"{'' if each.errors is None else f'{each.errors:,} of {each.n:,}'} |"
        for each in evidence.metrics
    ]
    assumed = "\n".join(f"* {as_markdown(line)}" for line in evidence.assumptions)
    return "\n".join(
        [
            *lines,
            "---",
            "",
            f"# {as_markdown(evidence.name)}",
            "",
            f"**{as_markdown(evidence.statements[0])}** {evidence.confidence}",
            *(f"* {as_markdown(each)}" for each in evidence.statements[1:]),
            "",
            "| limit on new data | at most | counted |",
            "|---|---|---|",
            *rows,
            "",
            *(
                ["The limits of parts hold at once, with the same probability, beside the first.", ""]
                if rows[1:]
                else []
            ),
            "## Intended use",
            "",
            "[More Information Needed]",
            "",
            "## What has to be true",
            "",
            "No program can check these; the guarantee rests on them.",
            "",
            assumed,
            "",
            "## Check it",
            "",
            f"The evidence is `{evidence.file}`, SHA-256 `{evidence.sha256}` ({evidence.assurance}).",
            f"Whoever has the rows ({evidence.data_hash[0]} `{evidence.data_hash[1]}`) runs, in its folder:",
            "",
            f"    {evidence.command}",
            "",
        ]
    )


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
        raise UsageError(f"{path} exists already; exports are never overwritten. Choose another --out.")
    if not path.parent.is_dir():
        raise UsageError(f"the folder {path.parent} does not exist. Choose another --out.")
    try:
        evidence = read_evidence(source)
        text = write(evidence) if max_error is None else intoto_statement(evidence, max_error=max_error)
    except (AttributeError, LookupError, TypeError) as error:
        raise FormatError(f"{source} is not what its program writes: {error!r}.") from error
    write_text(path, text)
    return path


def log_mlflow(found: Certification) -> str:
    """Logs metrics, words and the certificate to the active run of MLflow, else to a new one; its id.

    Raises:
        CodeboundError: MLflow is not installed.
    """
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
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory() as place:
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


def _in_words(metric: Metric) -> str:
    """A metric as people call it, with its part of the data."""
    name = metric.name.replace("_", " ")
    return f"{name}, {metric.part}" if metric.part else name


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
