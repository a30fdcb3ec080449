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


def certificate_page(
    certificate: Certificate, result: Mapping[str, Any], *, title: str, picks: str = ""
) -> str:
    """The page about a certificate, with the result that is written beside it and a picture of its picks."""
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
            "alarm": result.get("alarm", ""),
            "numbers": _number_rows(result),
            "classes": class_rows(result),
            "code_bits": f"{facts.code_bits:,}",
            "ledger": [(part, f"{bits:,}", max(0, 100 * bits // largest)) for part, bits in ledger],
            "verdict": result["verdict"],
            "command": result["verify"],
            "declarations": certificate.declarations,
            "picks": picks,
            "learned": result["statement"] == "C-15",
        },
    )


def _number_rows(result: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Name, value, and a sentence that says what the value means."""
    n, code_bits = result["n"], result["code_bits"]
    rows = [
        (
            "certified error",
            percent(result["bound"]),
            f"{result['statement']}, exact binomial tail: the guarantee",
        ),
        *_looser_rows(result),
        *(
            (each["name"], f"{each['count']:,} of {each['of']:,}", each["meaning"])
            for each in result["counts"]
        ),
    ]
    if result["original_train_errors"] is not None:
        before = f"{result['original_train_errors']:,} of {result['original_train_n']:,}"
        rows.append(("training errors of f", before, original_words(result)))
    rows += [
        ("message", f"{code_bits:,} bits", f"{code_bits / n:.3f} bits per example that counts"),
        ("delta", repr(result["delta"]), "probability that what was drawn was misleading"),
    ]
    if "base_declared" in result:
        rows.append(("base", "declared", f"{result['base_declared']} No program can check that."))
    if "holdout" in result:
        rows.append((holdout_name(result), percent(result["holdout"]), holdout_words(result)))
    return rows


def original_words(result: Mapping[str, Any]) -> str:
    """What f has to do with g."""
    given = "of the network that was given, on the whole sample"
    if not result["g_is_new"]:
        return given
    return f"{given}; g is a new network, by {result['method']}, and shares nothing with it"


def class_rows(result: Mapping[str, Any]) -> list[dict[str, object]]:
    """A row for each class, where they were asked for."""
    return [
        {
            "class": row["label"],
            "certified error": "no examples" if row["bound"] is None else percent(row["bound"]),
            "errors": f"{row['errors']} of {row['n']}",
        }
        for row in result.get("by_class", ())
    ]


def fault_words(fault: str | None) -> str:
    """What a network does where it counts."""
    return "errs" if fault in (None, "wrong") else f"makes the fault {fault}"


def _looser_rows(result: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Forms of the bound that are easier to compute, where there are any."""
    if result["statement"] == "C-15":
        return []
    return [
        ("the same, kl form", percent(result["kl"]), "a little looser, easier to compute"),
        ("the same, Hoeffding form", percent(result["hoeffding"]), "the form that papers print"),
    ]


def holdout_name(result: Mapping[str, Any]) -> str:
    """Whose hold-out bound it is: that of the network that the certificate is about."""
    return f"hold-out bound of {result['subject']}"


def holdout_words(result: Mapping[str, Any]) -> str:
    """What the hold-out bound was computed from, and that copies of the sample make it no guarantee."""
    copies = result["test_copies_in_sample"]
    return (
        f"C-11, for comparison: {result['subject']} {fault_words(result['fault'])} on "
        f"{result['test_errors']} of {result['test_n']} test examples, of which {copies} also occur in the "
        "sample" + (": NO GUARANTEE, these are no fresh examples" if copies else "")
    )
