"""The page about a certificate: its slider, and some of the examples."""

from __future__ import annotations

import base64
import io
import math
import re
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from codebound.bounds.risk import percent, rate
from codebound.known.score_tables import Biased
from codebound.learn.learner import KernelNetwork
from codebound.report.plain import TERMS, answer, describe_confidence, describe_failure, meanings
from codebound.report.summary import result_rows, snippet, usage_notes
from codebound.report.templates import TICKS, place, render
from codebound.sample.counting import Term, Terms

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray
    from torch import nn

    from codebound.certificate.file import Certificate
    from codebound.report.folder import Result
    from codebound.sample.dataset import Sample
    from codebound.sample.losses import Loss

_LEARNED, _WRONG = 48, 24  # shown
_ROWS = 12  # of each, where they are no pictures
_LOOKED_AT = 10_000  # examples that are searched for wrong ones
_CHUNK = 500
_LARGEST = 64  # pixels along a side of a picture
_SMALLEST = 3
_NUMBERS = 8  # of a row
_CLOSE = 1e-8  # relative: what is not the same number gets no slider


@dataclass(frozen=True, slots=True)
class Tile:
    """One example on a page: a picture, as a link to itself, or else the first numbers of its row.

    Answers have the names of their classes; ``said`` is None where nobody asked the network.
    """

    number: int
    label: str
    said: str | None
    picture: str
    row: str


@dataclass(frozen=True, slots=True)
class ExampleTiles:
    """The first picks in their order, and the first wrong examples."""

    learned: tuple[Tile, ...] = ()
    wrong: tuple[Tile, ...] = ()
    looked_at: int = 0


def certificate_page(
    certificate: Certificate,
    result: Mapping[str, Any],
    *,
    title: str,
    shown: ExampleTiles = ExampleTiles(),  # noqa: B008 - frozen
) -> str:
    """Render the page about a certificate."""
    made_by, ledger = certificate.made_by, certificate.message.ledger
    largest = max((bits for _, bits in ledger), default=1) or 1
    means, not_means = meanings(certificate, result)
    examples, counted = f"{result['rows']:,} examples", result["n"]
    if counted != result["rows"]:
        examples += f", {counted:,} of them counted"
    slider, delta, terms = None, certificate.claim.delta, formulas(certificate, result)
    if "certified" in terms and delta <= 0.5:  # the page solves the lower tail alone
        plain = {name: [asdict(term) for term in parts.each] for name, parts in terms.items()}
        slider = {"delta": delta, "most": max(9, math.ceil(1 - math.log10(delta))), "terms": plain}
    used = {"f": result["original_errors"] is not None, "picked": certificate.has_picks}
    used |= {"test error": "test_n" in result, "test-set limit": "holdout" in result or "holdout_f" in result}
    parts = [
        (name, f"{100 * value:.2f} %", round(100 * value / certificate.claim.bound, 1))
        for name, value in costs(certificate)
    ]
    return render(
        "certificate.html.j2",
        {
            "title": title,
            "subtitle": f"{examples}, {certificate.sample.classes} classes. Made by codebound "
            f"{made_by['codebound']} on {made_by['date']}, in {result['seconds']:,.0f} s.",
            "bound": percent(certificate.claim.bound),
            "answer": answer(certificate, result),
            "how_sure": describe_confidence(delta),
            "sentence": certificate.sentence,
            "vacuous": result["vacuous"],
            "alarm": result.get("alarm", ""),
            "advice": result.get("advice", ""),
            "scale": scale_rows(certificate, result),
            "ticks": TICKS,
            "delta": delta,
            "slider": slider,
            "means": means,
            "not_means": not_means,
            "numbers": [
                *result_rows(result),
                ("delta", repr(delta), "probability that the sample was misleading"),
                ("theorem", result["statement"], "its name in docs/references.md"),
            ],
            "classes": list(zip(class_rows(result), result.get("by_class", ()), strict=True)),
            "shown": shown,
            "costs": parts,
            "code_bits": f"{certificate.message.bits:,}",
            "ledger": [(part, f"{bits:,}", max(0, 100 * bits // largest)) for part, bits in ledger],
            "snippet": snippet(result),
            "usage": usage_notes(certificate, result),
            "verdict": result["verdict"],
            "assurance": certificate.claim.assurance,
            "offers": offer_rows(result),
            "offers_say": result.get("offers_say", ""),
            "command": result["verify_here"],
            "sample_sha256": certificate.sample.sha256,
            "declarations": [(line, describe_failure(line)) for line in certificate.declarations],
            "learned": certificate.is_learned,
            "terms": TERMS,
            "used": used,
            "next_id": partial(next, count(1)),
        },
    )


def formulas(certificate: Certificate, result: Mapping[str, Any]) -> dict[str, Terms]:
    """The terms of every bound on a page, by its name there: the page adds them up."""
    certified, delta = certificate.terms, certificate.claim.delta
    if certified.joined != "sum":  # the limit that is the bound, alone
        at = certificate.claim.limits.index(certificate.widest)
        certified = Terms((certified.each[at],), "sum")
    found = {"certified": (certificate.claim.bound, certified)}
    for name, errors in (("holdout", "test_errors"), ("holdout_f", "test_errors_f")):
        if name in result:
            term = Term("binomial", result[errors], result["test_n"])
            found[name] = (result[name], Terms((term,), "sum"))
    rows, law = result.get("by_class", ()), certificate.terms.each[0].law
    for row in rows:
        if row["bound"] is not None:
            counted = row["errors"] + row["picks"]
            term = Term(law, counted, row["n"], certificate.message.bits, 1.0 / len(rows))
            found[f"class-{row['label']}"] = (row["bound"], Terms((term,), "sum"))
    return {
        name: terms
        for name, (stated, terms) in found.items()
        if math.isclose(terms.bound(terms.limits(delta)), stated, rel_tol=_CLOSE)
    }


def costs(certificate: Certificate) -> list[tuple[str, float]]:
    """Parts of a certified error. Empty where they do not add up to it."""
    claim, limit = certificate.claim, certificate.widest
    at = claim.limits.index(limit)
    term = certificate.terms.each[at]
    if not term.n:
        return []
    plain = replace(term, law="binomial", count=limit.errors, bits=0.0)
    steps = [("counted errors", limit.errors / term.n), ("margin for chance", plain.limit(claim.delta))]
    if limit.picks:
        steps.append((f"{limit.picks:,} picked examples", replace(term, bits=0.0).limit(claim.delta)))
    bits = certificate.message.bits
    steps.append((f"{bits:,} {'bit' if bits == 1 else 'bits'} of message", term.limit(claim.delta)))
    if claim.law == "sum":
        steps.append(("where f and g differ", claim.bound))
    if not math.isclose(steps[-1][1], claim.bound, rel_tol=_CLOSE):
        return []
    before = [0.0, *(value for _, value in steps)]
    return [(name, max(0.0, value - least)) for (name, value), least in zip(steps, before, strict=False)]


_LIMITS = ("certified", "holdout", "holdout_f")


def scale_rows(certificate: Certificate, result: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Rows of the picture: limits and measurements, the largest first."""
    claim = certificate.claim
    rows: list[tuple[str, str, float, str]] = [
        ("certified", "certified error", claim.bound, "at most this, on new data")
    ]
    if "guessing" in result:
        rows.append(("guessing", "guessing", result["guessing"], "always the commonest label"))
    if "test_n" in result:
        tested = f"{result['test_errors']:,} of {result['test_n']:,} test examples"
        rows.append(("test", "test error", result["test_errors"] / result["test_n"], tested))
    of_it = "of the network that was given" if result["subject"] == "f" else "of this classifier"
    for key, whose in (("holdout", of_it), ("holdout_f", "of the network that was given")):
        if key in result:
            words = f"at most, {whose}{result[f'{key}_words']}"
            rows.append((key, "test-set limit", result[key], words))
    for each in result["counts"]:
        if each["key"] == "errors" and each["of"]:
            counted = f"{each['count']:,} of {each['of']:,}: {each['name']}"
            rows.append(("training", "counted error", each["count"] / each["of"], counted))
    rows.sort(key=lambda row: -row[2])
    return [
        {
            "kind": kind,
            "name": name,
            "at": place(share),
            "value": percent(share) if kind in _LIMITS else rate(share),
            "words": words,
            "is_limit": kind in _LIMITS,
        }
        for kind, name, share, words in rows
    ]


def offer_rows(result: Mapping[str, Any]) -> list[dict[str, object]]:
    """A row for the best of each method that was tried; names of programs without their settings."""
    return [
        {
            "bound": percent(each["bound"]),
            "method": each["name"] + (" (issued)" if each["is_issued"] else ""),
            "verifier": each["assurance"] or "none: a comparison",
            "what was counted and paid": re.sub(r", Rule\(.*\)", "", each["price"]),
        }
        for each in result.get("offers", ())
    ]


def class_rows(result: Mapping[str, Any]) -> list[dict[str, object]]:
    """A row for each class, where they were asked for."""
    names = result["class_names"]
    return [
        {
            "class": f"{row['label']}, {names[row['label']]}" if names else row["label"],
            "certified error": "no examples" if row["bound"] is None else percent(row["bound"]),
            "errors": f"{row['errors']} of {row['n']}"
            + (f", {row['picks']} picked" if row.get("picks") else ""),
        }
        for row in result.get("by_class", ())
    ]


def select_examples(found: Result) -> ExampleTiles:
    """Learned and wrong examples of a classifier, for its page."""
    network, sample = found.offer.outcome.classifier, found.sample
    if network is None or sample.is_cells:
        return ExampleTiles()
    learned: NDArray[np.int64] = np.empty(0, dtype=np.int64)
    picked = learned
    if isinstance(network, KernelNetwork):
        learned = network.examples.numpy()
        picked = learned[network.known :]
    most_picks, most = (_LEARNED, _WRONG) if _has_pictures(sample) else (_ROWS, _ROWS)
    wrong, looked_at = _wrong_examples(
        network,
        sample,
        set(learned.tolist()),
        most,
        loss=found.certificate.question.loss,
        is_raw=found.offer.outcome.takes_stored,
    )
    return ExampleTiles(
        tuple(_tile(sample, number) for number in picked[:most_picks].tolist()),
        tuple(_tile(sample, number, said) for number, said in wrong),
        looked_at,
    )


def _has_pictures(sample: Sample) -> bool:
    shape = sample.input_shape
    return len(shape) == 3 and shape[0] in (1, 3) and min(shape[1:]) >= _SMALLEST


@torch.no_grad()
def _wrong_examples(
    network: nn.Module, sample: Sample, learned: set[int], most: int, *, loss: Loss, is_raw: bool
) -> tuple[list[tuple[int, int]], int]:
    """Examples that were not learned from and are wrong, each with what is said; how far the search went."""
    found: list[tuple[int, int]] = []
    inner = network.classifier if isinstance(network, Biased) else network
    names = inner.classes if isinstance(inner, KernelNetwork) else torch.arange(sample.classes)
    end = min(sample.n, _LOOKED_AT)
    for start in range(0, end, _CHUNK):
        stored = torch.from_numpy(np.ascontiguousarray(sample.x[start : start + _CHUNK]))
        labels = torch.from_numpy(sample.y[start : start + _CHUNK])
        inputs = stored if is_raw else sample.scaling.apply(stored)
        outputs = network(inputs)
        is_right = loss.differences(outputs, labels, names.numpy()) > 0.0
        is_wrong, said = loss.is_about(labels) & ~is_right, names[outputs.argmax(dim=1)]
        for at in is_wrong.nonzero()[:, 0].tolist():
            if start + at not in learned:
                found.append((start + at, int(said[at])))
                if len(found) == most:
                    return found, start + at + 1
    return found, end


def _tile(sample: Sample, number: int, said: int | None = None) -> Tile:
    stored, names = sample.x[number], sample.class_names or tuple(map(str, range(sample.classes)))
    label, heard = names[int(sample.y[number])], None if said is None else names[said]
    if _has_pictures(sample):
        return Tile(number, label, heard, _picture(stored, sample.scaling.divisor), "")
    return Tile(number, label, heard, "", _row(stored, [each.name for each in sample.columns]))


def _row(stored: NDArray[np.generic], columns: Sequence[str] = ()) -> str:
    """The first numbers of an input, with their columns.

    Example:
        >>> _row(np.array([1.5, 20.0])), _row(np.array([1.5, 20.0]), ["width", "age"])
        ('1.5, 20', 'width 1.5, age 20')
    """
    shown = [f"{float(value):.4g}" for value in stored.ravel()[:_NUMBERS]]
    named = map(" ".join, zip(columns, shown, strict=False)) if columns else shown
    return ", ".join(named) + (", ..." if stored.size > _NUMBERS else "")


def _picture(stored: NDArray[np.generic], divisor: float) -> str:
    """A picture inside a page; what is no byte is stretched from its smallest to its largest value."""
    from PIL import Image

    values = stored.astype(np.float64)
    low, high = (0.0, divisor) if stored.dtype == np.uint8 else (float(values.min()), float(values.max()))
    grey = np.clip((values - low) / max(high - low, 1e-300) * 255.0, 0.0, 255.0).astype(np.uint8)
    picture = Image.fromarray(
        grey.transpose(1, 2, 0).squeeze(axis=2) if len(grey) == 1 else grey.transpose(1, 2, 0)
    )
    picture.thumbnail((_LARGEST, _LARGEST))
    content = io.BytesIO()
    picture.save(content, format="PNG", optimize=True)
    return f"data:image/png;base64,{base64.b64encode(content.getvalue()).decode('ascii')}"


def picks_table(network: KernelNetwork, sample: Sample) -> str:
    """Every example that was learned from, in the order of picking, as CSV; the first ones are round 0."""
    rule, lines = network.rule, ["number,round,example,label"]
    sizes = [network.known, *(rule.batch_of(each) for each in range(rule.rounds))]
    rounds = np.repeat(np.arange(len(sizes)), sizes)
    for number, (turn, example) in enumerate(zip(rounds, network.examples.tolist(), strict=True)):
        lines.append(f"{number},{turn},{example},{sample.y[example]}")
    return "\n".join(lines) + "\n"
