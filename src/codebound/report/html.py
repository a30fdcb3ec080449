"""Self-contained pages from templates; the page about a certificate."""

from __future__ import annotations

from importlib import resources
from typing import TYPE_CHECKING, Any

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


def certificate_page(certificate: Certificate, result: Mapping[str, Any], *, title: str) -> str:
    """The page about a certificate, with the result that is written beside it."""
    facts, made_by, ledger = certificate.facts, certificate.made_by, certificate.ledger
    largest = max((bits for _, bits in ledger), default=1) or 1
    return rendered(
        "certificate.html.j2",
        {
            "title": title,
            "subtitle": f"{facts.n:,} examples, {facts.classes} classes; made by codebound "
            f"{made_by['codebound']} on {made_by['date']}",
            "sentence": certificate.sentence,
            "vacuous": result["vacuous"],
            "numbers": _number_rows(result),
            "code_bits": f"{facts.code_bits:,}",
            "ledger": [(part, f"{bits:,}", max(0, 100 * bits // largest)) for part, bits in ledger],
            "verdict": result["verdict"],
            "command": result["verify"],
            "declarations": certificate.declarations,
        },
    )


def _number_rows(result: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Name, value, and a sentence that says what the value means."""
    n, code_bits, original_errors = result["n"], result["code_bits"], result["original_train_errors"]
    rows = [
        (
            "certified error",
            percent(result["bound"]),
            f"{result['statement']}, exact binomial tail: the guarantee",
        ),
        ("the same, kl form", percent(result["kl"]), "a little looser, easier to compute"),
        ("the same, Hoeffding form", percent(result["hoeffding"]), "the form that papers print"),
        (
            "training errors of g",
            f"{result['train_errors']:,} of {n:,}",
            "counted on the decoded network; ambiguous predictions count as errors",
        ),
        ("message", f"{code_bits:,} bits", f"{code_bits / n:.3f} bits per example"),
        ("delta", repr(result["delta"]), "probability that the draw of the sample was misleading"),
    ]
    if original_errors is not None:
        rows.insert(4, ("training errors of f", f"{original_errors:,}", "the network before compression"))
    if "base_declared" in result:
        rows.append(("base", "declared", f"{result['base_declared']} No program can check that."))
    if "holdout" in result:
        rows.append(
            (
                "hold-out bound of g",
                percent(result["holdout"]),
                "C-11: what a test set that was never used says, for comparison",
            )
        )
    return rows
