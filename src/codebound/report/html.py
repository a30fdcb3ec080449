"""Self-contained pages from templates; the page about a certificate."""

from __future__ import annotations

from importlib import resources
from typing import TYPE_CHECKING

from codebound.bounds.risk import percent

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codebound.certificate.file import Certificate


def rendered(template: str, values: Mapping[str, object], *, package: str = "codebound.report") -> str:
    """A template, filled in; values are escaped unless the template says otherwise.

    Args:
        template: Name of its file.
        values: What it shows.
        package: Whose folder it is in; what it extends may also be in ours.
    """
    import jinja2

    folders = [resources.files(name) for name in dict.fromkeys((package, "codebound.report"))]

    def source(name: str) -> str | None:
        files = [folder / name for folder in folders]
        return next((file.read_text("utf-8") for file in files if file.is_file()), None)

    environment = jinja2.Environment(autoescape=True, loader=jinja2.FunctionLoader(source))
    return environment.get_template(template).render(values)


def certificate_page(
    certificate: Certificate,
    *,
    title: str,
    original_errors: int | None,
    holdout: float | None,
    verdict: str,
    command: str,
) -> str:
    """The page.

    Args:
        certificate: What the page is about.
        title: Heading.
        original_errors: Training errors of f, where they are known.
        holdout: Hold-out bound of g, where there is one.
        verdict: What the verifier answered.
        command: The command that runs the verifier again.
    """
    largest = max((bits for _, bits in certificate.ledger), default=1) or 1
    facts, made_by = certificate.facts, certificate.made_by
    return rendered(
        "certificate.html.j2",
        {
            "title": title,
            "subtitle": f"{facts.n:,} examples, {facts.classes} classes; made by codebound "
            f"{made_by['codebound']} on {made_by['date']}",
            "sentence": certificate.sentence,
            "vacuous": certificate.claim.vacuous,
            "numbers": _number_rows(certificate, original_errors=original_errors, holdout=holdout),
            "code_bits": f"{facts.code_bits:,}",
            "ledger": [
                (part, f"{bits:,}", max(0, 100 * bits // largest)) for part, bits in certificate.ledger
            ],
            "verdict": verdict,
            "command": command,
            "declarations": certificate.declarations,
        },
    )


def _number_rows(
    certificate: Certificate, *, original_errors: int | None, holdout: float | None
) -> list[tuple[str, str, str]]:
    """The rows that every certificate has, with a sentence for each."""
    claim, facts = certificate.claim, certificate.facts
    rows = [
        ("certified error", percent(claim.bound), f"{claim.statement}, exact binomial tail: the guarantee"),
        ("the same, kl form", percent(claim.kl), "a little looser, easier to compute"),
        ("the same, Hoeffding form", percent(claim.hoeffding), "the form that papers print"),
        (
            "training errors of g",
            f"{facts.errors:,} of {facts.n:,}",
            "counted on the decoded network; ambiguous predictions count as errors",
        ),
        ("message", f"{facts.code_bits:,} bits", f"{facts.code_bits / facts.n:.3f} bits per example"),
        ("delta", repr(claim.delta), "probability that the draw of the sample was misleading"),
    ]
    if original_errors is not None:
        rows.insert(4, ("training errors of f", f"{original_errors:,}", "the network before compression"))
    if certificate.base_declared:
        rows.append(("base", "declared", f"{certificate.base_declared} No program can check that."))
    if holdout is not None:
        rows.append(
            (
                "hold-out bound of g",
                percent(holdout),
                "C-11: what a test set that was never used says, for comparison",
            )
        )
    return rows
