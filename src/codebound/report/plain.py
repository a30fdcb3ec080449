"""A certificate in plain words: the answer, what it means and does not, how each assumption could fail."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from codebound.bounds.risk import percent
from codebound.certificate.words import describe_data
from codebound.sample.caveats import DEVELOPED

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codebound.certificate.file import Certificate

TERMS = {
    "certified error": (
        "The share of new data on which the classifier is wrong is at most this. It is computed from "
        "counts and a theorem."
    ),
    "certificate": (
        "The file certificate.cbound. It holds all that is needed to compute the certified error again."
    ),
    "delta": (
        "The failure probability: the share of samples that are so untypical that a promise made from "
        "them may be false. It has to be chosen before anybody looks at the result."
    ),
    "sample": "The labelled examples that the certificate was made from.",
    "picked": (
        "A rule that was fixed beforehand went through the sample and picked the examples that it found"
        " hardest; the classifier was learned from these alone. All others are its test."
    ),
    "message": (
        "The exact bits that name the classifier, or the rule that learned it, among all that the "
        "format could have named. A short message leaves little room to fit the sample by accident."
    ),
    "counted error": (
        "The share of the counted examples that the classifier gets wrong. It is no promise by itself: the "
        "certified error adds a margin for chance, and for every choice that was made with these examples."
    ),
    "test error": (
        "The share of the test examples that the classifier gets wrong: a measurement, without a margin"
        " for chance."
    ),
    "test-set limit": (
        "The test set has labelled examples that were used for nothing else. Their errors, with a margin for "
        "chance, are a promise of their own: a hold-out bound."
    ),
    "guessing": (
        "The error of always giving the commonest label of the sample. A bound as large as this says nothing."
    ),
    "f": "The classifier that was given.",
    "g": (
        "The classifier that the certificate is about: what the message decodes to, or what its rule learned."
    ),
    "verifier": (
        "codebound-verify, a second program that shares no code with the one that wrote the certificate."
    ),
}
"""Terms that a page explains in place."""

DECLARED_SCORES = "the network that was given, by its scores as they were declared"
"""Subject of a certificate where no message is made of a base."""
_SEEN = (
    "Somebody trained or chose it on data that contain examples of this sample, or near copies of "
    "them: public data are inside many large training sets."
)
_PARTS = {
    "The table of scores was made without": (
        "The learner saw counted labels, or several tables were tried on them and the best one was given."
    ),
    "Features:": _SEEN,
    "Base:": _SEEN,
    "Scores:": _SEEN,
    "are independent draws from where new data come from": (
        "Data drift: another year, place, device or group of people. Or examples come in families "
        "(frames of one film, rows of one patient), or were selected by how easy they are."
    ),
    "were fixed before any result": (
        "Rows were dropped because a classifier got them wrong, collecting stopped when the number "
        "looked good, or somebody looked, changed the program or the claim, and kept what looked best."
    ),
    "How often a row is repeated": "Rare rows were copied until the classes were balanced, or pictures "
    "were augmented.",
    "Equal rows are independent draws": (
        "The copies are repeats of one measurement. Then there are fewer examples than were counted."
    ),
    "Equal rows are one record": "Some equal rows were drawn twice; then fewer were counted than there are.",
    "The hash that orders the rows": "Somebody chose how the rows are written, with a look at which of "
    "them come first.",
    "The order of the rows as stored": "The sample was sorted or cut by somebody who knew which rows "
    "would come first.",
    "Nothing in the file shows that this salt": "Several salts were tried, and the best one was kept.",
    "The picks of a table": "The rule looks at more than the rows that it picked: a mean of the sample, say.",
    "The unlabelled inputs": (
        "The unlabelled inputs were used to choose something, or come from elsewhere than the sample."
    ),
    "Stored values of new data": "An input outside the range arrives, because the range was read off the "
    "data.",
    DEVELOPED: (
        "Here it is known to be untrue to an unknown degree: the designers of the format had seen "
        "results on these data. With data of your own this line is not there."
    ),
    "About the data:": (
        "This is a warning of the program about these very data. If it applies, the promise is void."
    ),
    "The names of classes and columns": "Somebody renamed classes or columns: every answer is another then.",
    "The tensors of the network that was learned": (
        "In use it has other weights than the file g.safetensors that was saved with the certificate."
    ),
}


def describe_failure(declaration: str) -> str:
    """Example of a way to break an assumption. Empty if none is known."""
    return next((words for part, words in _PARTS.items() if part in declaration), "")


def in_words(share: float) -> str:
    """A share as a count that is not smaller.

    Example:
        >>> in_words(0.0761), in_words(0.394), in_words(1.0)
        ('1 in 13', '40 in 100', '100 in 100')
    """
    exact = Fraction(share)
    return f"1 in {math.floor(1 / exact):,}" if share <= 0.1 else f"{math.ceil(100 * exact)} in 100"


def answer(certificate: Certificate, result: Mapping[str, Any]) -> str:
    """The certificate in a sentence without jargon."""
    bound = percent(certificate.claim.bound)
    if certificate.claim.vacuous:
        return f"Nothing useful can be promised here: the limit is {bound}, and guessing does as well."
    if certificate.question.is_plain:
        data = f"{describe_data(certificate)} of the same kind"
        does = f"is wrong on at most {bound} of {data}: at most {in_words(certificate.claim.bound)}"
    else:
        does = certificate.does
    unless = f", provided that {certificate.condition}" if certificate.condition else ""
    return f"{_name_classifier(certificate, result)} {does}{unless}."


def describe_confidence(delta: float) -> str:
    """Frequency of false answers, as a sentence.

    Example:
        >>> describe_confidence(0.05)
        'Of 20 samples that might have been drawn, on average at most 1 leads to a false answer.'
    """
    samples = math.floor((1.0 + 1e-12) / delta)
    return f"Of {samples:,} samples that might have been drawn, on average at most 1 leads to a false answer."


def _name_classifier(certificate: Certificate, result: Mapping[str, Any]) -> str:
    if certificate.claim.subject == "f":
        return "The network that was given"
    if result.get("network") == DECLARED_SCORES:
        return f"T{DECLARED_SCORES[1:]},"
    if result["original_errors"] is not None and not result["g_is_new"]:
        return "The compressed network (what is left of the one given)"
    made = "learned from these data" if result["original_errors"] is None else "not the one given"
    return f"A new classifier, {made},"


def _describe_given(result: Mapping[str, Any]) -> str:
    """Statement about the given network, where the certificate is about another."""
    known = [
        f"{by} at most {percent(result[key])}"
        for key, by in (("holdout_f", "the test set promises"), ("through_f", "comparing the two promises"))
        if key in result
    ]
    if not known:
        return (
            "Nothing about the network that was given: a test set that it has not seen, or unlabelled "
            "inputs, would say something of that one."
        )
    return f"Nothing about the network that was given. Of that one {', '.join(known)} (see the numbers)."


def _labels(certificate: Certificate) -> str:
    """Description of the labels for learning and those for counting."""
    known, rows = certificate.known.rows, certificate.sample.rows
    if not known:
        return f"No label was set aside for it: all {rows:,} examples were also there to learn from."
    if certificate.has_picks:
        return (
            f"It was learned from {known:,} examples that were set apart, and from those that it picked; "
            f"all others are its test."
        )
    return (
        f"It was learned from {known:,} examples, which were set apart; the other {rows - known:,} are "
        f"its test, and the message pays for every choice that was made with them."
    )


def meanings(certificate: Certificate, result: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Meanings of a certificate, and readings that it does not allow."""
    claim = certificate.claim
    is_plain, most = certificate.question.is_plain, math.ceil(1000.0 * claim.bound)
    of = "" if is_plain else " that the loss is about"
    means = [
        f"Out of 1,000 new examples{of}, on average at most {most:,} count against it.",
        _labels(certificate),
        "Anybody with the sample can check the file, with a program that shares no code with this one.",
    ]
    if result.get("holdout", 1.0) < claim.bound and not result["test_copies_in_sample"]:
        means.append(
            f"The {result['test_n']:,} test examples promise more, at most {percent(result['holdout'])}: if "
            "nothing was learned or chosen with them, and this is the first look at them, quote that instead."
        )
    not_means = [
        "Nothing about a single example, and nothing about how sure the classifier is of an answer.",
        "Nothing about data from elsewhere: another time, place, device or population.",
    ]
    if claim.subject == "f":
        not_means.append("Nothing about the compressed network, which only served to prove it.")
    elif result["original_errors"] is not None:
        not_means.append(_describe_given(result))
    if is_plain and "by_class" not in result:
        not_means.append("Nothing about a class by itself: a rare one may be wrong much more often.")
    not_means.append("Not that it is the best classifier for these data, nor good enough for a purpose.")
    return means, not_means
