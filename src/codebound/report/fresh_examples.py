"""Test examples beside a certificate: what they say of g and of f, and on which condition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from codebound.bounds.facts import HoldoutFacts
from codebound.bounds.original import through_disagreement
from codebound.sample.caveats import MOST_COPIES

if TYPE_CHECKING:
    from codebound.report.folder import Certification


def _has_copies(found: Certification) -> bool:
    """Return True if more test inputs occur in the sample than by chance. They are not fresh then."""
    test = found.confrontation
    return test is not None and MOST_COPIES * (found.copies or 0) > test.test.n


def _doubt(found: Certification, who: str) -> tuple[bool, str]:
    """Return whether test errors are evidence about f, and the caveat."""
    origin = found.origin
    if _has_copies(found) or origin.data_sha256 not in ("", found.sample.sha256):
        why = "f was trained on other data than the sample, and they may be among these"
        return False, f": NO GUARANTEE, {'they occur in the sample' if _has_copies(found) else why}"
    if origin.is_whole:
        return True, ""
    if origin.data_sha256:
        return True, f", IF {who} had seen none of them before it was trained on the sample"
    return True, f", IF {who} was neither trained nor selected on them"


def _is_made_of_f(found: Certification) -> bool:
    """Return True if the certified network depends on f's numbers."""
    claim = found.certificate.claim
    is_given = found.original_errors is not None and not found.certificate.kind.trains_base
    return is_given and (claim.subject == "f" or found.is_behind_f or not found.is_new)


def said_of_test(found: Certification) -> dict[str, Any]:
    """Hold-out bounds and caveats, for the certified network and for f."""
    test, told = found.confrontation, dict[str, Any]()
    if test is None or found.holdout is None:
        return {}
    is_fresh, words = not _has_copies(found), ": NO GUARANTEE, these are no fresh examples"
    if is_fresh:
        subject = "it" if found.certificate.claim.subject == "f" else "f"
        is_fresh, words = _doubt(found, subject) if _is_made_of_f(found) else (True, "")
    if is_fresh:
        told["holdout"] = found.holdout.value
    told |= {
        "holdout_words": words,
        "test_errors": test.test.errors,
        "test_n": test.test.n,
        "test_copies_in_sample": found.copies,
        "test_tail": test.tail,
        "refuted_by_test": test.is_refuted,
        "alarm": found.alarm,
    }
    if found.holdout_f is None:
        return told
    assert isinstance(found.holdout_f.facts, HoldoutFacts)
    is_fresh, words = _doubt(found, "it")
    told |= {"test_errors_f": found.holdout_f.facts.errors, "holdout_f_words": words}
    if is_fresh:
        told["holdout_f"] = found.holdout_f.value
    if is_fresh and found.disagreement is not None:
        told |= {
            "through_f": through_disagreement(found.bound, found.disagreement),
            "disagreements_f": found.disagreement.errors,
        }
    return told
