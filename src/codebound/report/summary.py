"""A certificate in a few rows: the same on the screen, in a notebook and on the page.

Test examples beside it: what they say of g and of f, and on which condition.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

from codebound.bounds.facts import HoldoutFacts
from codebound.bounds.original import through_disagreement
from codebound.bounds.risk import count_of, percent
from codebound.certificate.claims import CLAIMS
from codebound.sample.rows import MOST_COPIES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from codebound.bounds.held_out import Confrontation
    from codebound.report.folder import Certification

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
        words = (
            f"C-11, for comparison: {result['subject']} {fault_words(result['fault'])} on "
            f"{result['test_errors']} of {result['test_n']} test examples, of which "
            f"{result['test_copies_in_sample']} also occur in the sample{result['holdout_words']}"
        )
        rows.append((name, value, words))
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


def said_of_test(found: Certification) -> dict[str, Any]:
    """Hold-out bounds and caveats, for the certified network and for f."""
    test = found.confrontation
    if test is None or found.holdout is None:
        return {}
    is_fresh, words = True, ""
    if _has_copies(found, test):
        is_fresh, words = False, ": NO GUARANTEE, these are no fresh examples"
    elif _is_made_of_f(found):
        is_fresh, words = _doubt(found, test, "it" if found.certificate.claim.subject == "f" else "f")
    told: dict[str, Any] = {"holdout": found.holdout.value} if is_fresh else {}
    told |= {
        "holdout_words": words,
        "test_errors": test.test.errors,
        "test_n": test.test.n,
        "test_copies_in_sample": found.copies,
        "test_tail": test.tail,
        "refuted_by_test": test.is_refuted,
        "alarm": test.alarm,
    }
    if found.holdout_f is None:
        return told
    assert isinstance(found.holdout_f.facts, HoldoutFacts)
    is_fresh, words = _doubt(found, test, "it")
    told |= {"test_errors_f": found.holdout_f.facts.errors, "holdout_f_words": words}
    if is_fresh:
        told["holdout_f"] = found.holdout_f.value
    if is_fresh and found.disagreement is not None:
        told["through_f"] = through_disagreement(found.bound, found.disagreement)
        told["disagreements_f"] = found.disagreement.errors
    return told


def _has_copies(found: Certification, test: Confrontation) -> bool:
    """Return True if more test inputs occur in the sample than by chance. They are not fresh then."""
    return MOST_COPIES * (found.copies or 0) > test.test.n


def _is_made_of_f(found: Certification) -> bool:
    """Return True if the certified network depends on f's numbers."""
    claim = found.certificate.claim
    is_given = found.original_errors is not None and not found.certificate.kind.trains_base
    return is_given and (claim.subject == "f" or found.is_behind_f or not found.is_new)


def _doubt(found: Certification, test: Confrontation, who: str) -> tuple[bool, str]:
    """Return whether test errors are evidence about f, and the caveat."""
    origin = found.origin
    if _has_copies(found, test):
        return False, ": NO GUARANTEE, they occur in the sample"
    if origin.data_sha256 not in ("", found.sample.sha256):
        why = "f was trained on other data than the sample, and they may be among these"
        return False, f": NO GUARANTEE, {why}"
    if origin.is_whole:
        return True, ""
    if origin.data_sha256:
        return True, f", IF {who} had seen none of them before it was trained on the sample"
    return True, f", IF {who} was neither trained nor selected on them"
