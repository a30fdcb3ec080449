"""A certificate in a few rows: the same on the screen, in a notebook and on the page."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

from codebound.bounds.risk import count_of, percent
from codebound.certificate.claims import CLAIMS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Rows = list[tuple[str, str, str]]
"""Name, value, and what the value means."""


def result_rows(result: Mapping[str, Any]) -> Rows:
    """Rows of the summary, with certified error, network and counts."""
    vacuous = ", VACUOUS: guessing does as well" if result["vacuous"] else ""
    bound = percent(result["bound"])
    rows = [("certified error", bound, f"{result['statement']}, for {result['subject']}{vacuous}")]
    if result["g_is_new"]:
        rows.append(("network", "a new one", result["network"]))
    if result.get("refuted_by_test"):
        rows.append(("ALARM", "refuted", result["alarm"]))
    rows += holdout_rows(result)
    rows += [(each["name"], f"{each['count']} of {each['of']}", each["meaning"]) for each in result["counts"]]
    if result["original_train_errors"] is not None:
        before = f"{result['original_train_errors']} of {result['original_train_n']}"
        rows.append((original_name(result), before, original_words(result)))
    told = f"by {result['method']}: every choice that was made"
    rows += [
        ("message", f"{result['code_bits']} bits", told),
        ("verifier", result["verdict"], "the independent program agrees"),
    ]
    if result.get("copies"):
        copies = count_of(result["copies"], "example")
        rows.append(("copies", copies, "exact copies of earlier ones in the sample, declared to be draws"))
    if result.get("contradictions"):
        count = count_of(result["contradictions"], "example")
        rows.append(
            ("contradictions", count, "inputs that occur before in the sample, with other labels only")
        )
    for key, what in (("encoder_declared", "an encoder"), ("base_declared", "a base")):
        if key in result:
            declared = f"{result[key]} No program can check that; without it the bound is void."
            is_g = key == "base_declared" and result["base_is_g"]
            rows.append(("DECLARED", "g is the base" if is_g else what, declared))
    return rows


def holdout_rows(result: Mapping[str, Any]) -> Rows:
    """Rows with the hold-out bounds of both networks."""
    rows = []
    if "test_n" in result:
        name = f"hold-out bound of {result['subject']}"
        value = percent(result["holdout"]) if "holdout" in result else "none"
        rows.append((name, value, holdout_words(result)))
    if "test_errors_f" in result:
        value = percent(result["holdout_f"]) if "holdout_f" in result else "none"
        words = f"C-11, of the network that was given, which errs on {result['test_errors_f']} of them"
        rows.append(("hold-out bound of f", value, f"{words}{result['holdout_f_words']}"))
    if "through_f" in result:
        words = (
            f"C-12b, with probability 1 - {2 * result['delta']:g}: f and g differ on "
            f"{result['disagreements_f']} of them, whose labels are not needed{result['holdout_f_words']}"
        )
        rows.append(("bound of f through g", percent(result["through_f"]), words))
    return rows


def holdout_words(result: Mapping[str, Any]) -> str:
    """Counts behind the hold-out bound. Copies of the sample make it no guarantee."""
    copies = result["test_copies_in_sample"]
    stale = "" if "holdout" in result else ": NO GUARANTEE, these are no fresh examples"  # of older folders
    return (
        f"C-11, for comparison: {result['subject']} {fault_words(result['fault'])} on "
        f"{result['test_errors']} of {result['test_n']} test examples, of which {copies} also occur in the "
        f"sample{result.get('holdout_words', stale)}"
    )


def skipped_lines(skipped: Mapping[str, str]) -> list[str]:
    """Methods that were skipped, those with the same reason in one line.

    Example:
        >>> skipped_lines({"prune": "no network.", "picks": "too few.", "mbp": "no network."})
        ['Skipped prune, mbp: no network.', 'Skipped picks: too few.']
    """
    names: dict[str, list[str]] = {}
    for method, reason in skipped.items():
        names.setdefault(reason, []).append(method)
    return [f"Skipped {', '.join(each)}: {reason}" for reason, each in names.items()]


def refused_lines(refusals: Sequence[Mapping[str, Any]]) -> list[str]:
    """Lines about refused certificates, with reasons. Each is a defect to report."""
    return [
        f"Refused, so that the next best certificate was issued: {each['method']}, {percent(each['bound'])}: "
        f"{'; '.join(each['reasons'])} That is a defect of codebound: please report it, with refusals in "
        "result.json."
        for each in refusals
    ]


def original_name(result: Mapping[str, Any]) -> str:
    """Name of the errors of f. Those of a declared base are no training errors."""
    is_trained = "base_declared" not in result or CLAIMS[result["statement"]].trains_base
    return "training errors of f" if is_trained else "errors of f"


def original_words(result: Mapping[str, Any]) -> str:
    """Description of f's errors, with a note if g shares nothing."""
    given = "of the network that was given, on the whole sample"
    if "features of" in result["network"]:
        return given
    return f"{given}; g shares nothing with it" if result["g_is_new"] else given


def fault_words(fault: str | None) -> str:
    """Verb of a fault: the network errs, or makes the fault."""
    return "errs" if fault in (None, "wrong") else f"makes the fault {fault}"


def summary_html(sentence: str, result: Mapping[str, Any]) -> str:
    """The rows as a table for a notebook."""
    rows = ("".join(f"<td align='left'>{escape(cell)}</td>" for cell in row) for row in result_rows(result))
    cells = "".join(f"<tr>{row}</tr>" for row in rows)
    warned = "".join(f"<p>Warning: {escape(each)}.</p>" for each in result["warnings"])
    return f"<p><b>{escape(sentence)}</b></p><table>{cells}</table>{warned}"
