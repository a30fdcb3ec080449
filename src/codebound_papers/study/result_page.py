"""The result of a study: record, tables and page. Published values and certified ones stay apart."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from codebound import __version__
from codebound.bounds.risk import percent, rate
from codebound.certificate.file import Certificate
from codebound.report.templates import Table, render, tabulate
from codebound.run.files import finite, make_folder, write_json, write_text
from codebound.run.tensor_files import save_weights, state_tensors
from codebound_papers.compare.page import condition_rows, format_value, plain
from codebound_papers.compare.rows import decimal_log, rate_text
from codebound_papers.compress.compression_summary import UNKNOWN_FAITH, faithfulness
from codebound_papers.report.figures import Figure, Mark, Marks, Plot, Series
from codebound_papers.report.measures import Drawing
from codebound_papers.study.subjects import Subject
from codebound_papers.value import PublishedValue, Refused

_BARS = (
    "Published expressions beside what is true of the same network, on one logarithmic axis; capacities are "
    "as their figures plot them. What is right of 100 % says nothing."
)
Row = dict[str, Any]
"""A row of a table, or of the record."""
_BOUNDS = ("risk", "capacity")  # units of a bar
_HEADS = ("The paper.", "This network.", "What is true.")
_KINDS = {
    "value": "an error rate where it ends in per cent; the constants that the paper leaves open are 1.",
    "conditions": "of the theorem, on this network; unknown is what nobody can measure.",
    "fails": "probability that the statement is wrong, as printed and as its proof supports; from 1 on it "
    "says nothing.",
}


@dataclass(frozen=True, eq=False, kw_only=True)
class StudyResult:
    """A paper's system on one network f, and on the networks that it makes of it."""

    paper: str  # its short name
    claim: str  # what it claims, for everybody
    finding: str  # what was found on this network, for everybody
    about: Subject = field(repr=False)  # the network
    settings: Mapping[str, Any]  # options of the study, with what was chosen where they were open
    tables: Sequence[Table] = field(repr=False)  # of the paper's quantities, for people
    theorems: Sequence[PublishedValue | Refused] = field(repr=False)  # the first is the paper's main one
    networks: Mapping[str, nn.Module] = field(repr=False)  # g, and others that were made of f
    certified: Mapping[str, Certificate | str] = field(repr=False)  # of g and others, or the reason for none
    quantities: Mapping[str, Any] = field(repr=False)  # everything that was measured, as JSON values
    drawings: Sequence[Drawing] = field(repr=False)  # the paper's figures
    tensors: Mapping[str, Tensor] = field(default_factory=dict, repr=False)  # sketches
    parts: Sequence[tuple[str, str]]  # verbs that do a part of it, with their options
    notes: tuple[str, ...] = ()  # what a reader should know
    place: str = "OUT"  # the folder that it is written to

    @cached_property
    def errors(self) -> dict[str, tuple[float, float | None]]:
        """Error rates on the sample and on the test examples, by network."""
        return {name: self.about.errors(each) for name, each in {"f": self.about.f, **self.networks}.items()}

    @cached_property
    def faithful(self) -> Row | None:
        """Limit on how often g answers unlike f on new inputs; None without test inputs that are new."""
        f, g, fresh = self.about.f, self.networks["g"], self.about.test_set
        return faithfulness(f, g, fresh, sample=self.about.sample, delta=self.about.delta)

    @property
    def sentences(self) -> tuple[str, str, str]:
        """The claim of the paper, what it says here, and what is true, for everybody."""
        (before, _), (after, fresh), found = self.errors["f"], self.errors["g"], self.certified["g"]
        says = (
            f"{self.finding} The network errs on {rate(before)} of its sample; g, which is made from it, "
            f"errs on {rate(after)}. {_bound_text(self.theorems[0])}"
        )
        true = "The error of g on new examples is unknown, as there are no test examples"
        if self.about.test_set is not None and fresh is not None:
            true = f"g errs on {rate(fresh)} of {self.about.test_set.n:,} test examples"
        if isinstance(found, str):
            return self.claim, says, f"{true}; it has no certificate: {found.rstrip('.')}."
        if found.claim.vacuous:
            size = f"{found.message.bits:,} bits"
            return self.claim, says, f"{true}; its certificate ({size}) says no more than guessing."
        limit, sure = percent(found.claim.bound), f"with probability {1.0 - found.claim.delta:g}"
        checked = "a guarantee that the second program has checked"
        return self.claim, says, f"{true}; {sure} it errs on at most {limit} of new data, {checked}."

    @property
    def commands(self) -> tuple[str, ...]:
        """The parts as one types them."""
        words = (f"codebound {verb} {self.about.words(verb)} {rest}" for verb, rest in self.parts)
        return tuple(each.rstrip().replace("OUT", self.place) for each in words)

    def record(self) -> dict[str, Any]:
        """Everything for JSON; null is infinite or unknown."""
        errors = {name: {"sample": own, "test": test} for name, (own, test) in self.errors.items()}
        return {
            "paper": self.paper,
            "sentences": list(self.sentences),
            "settings": {**self.about.record, **self.settings, "codebound": __version__},
            "errors": errors,
            "certified": {name: _claim_record(found) for name, found in self.certified.items()},
            "published": [each.record() for each in self.theorems],
            **finite(dict(self.quantities)),
            "notes": [*self.about.notes, *self.notes],
            "commands": list(self.commands),
            "faithful": self.faithful,
        }

    def screen(self) -> list[Table | str]:
        """The three sentences and the tables, for a terminal."""
        heads = [f"{head} {text}" for head, text in zip(_HEADS, self.sentences, strict=True)]
        first, main = self.theorems[0], list[Table]()
        if isinstance(first, PublishedValue):
            main.append(Table(f"Conditions of {first.name}", condition_rows(first.record())))
        parts = "\n".join(["The parts:", *(f"  {command}" for command in self.commands)])
        shown = [table for table in self.tables if table.rows]
        end = UNKNOWN_FAITH if self.faithful is None else self.faithful["says"]
        return [*heads, "", *shown, self._published, *main, self._true, *self.notes, parts, end]

    def __str__(self) -> str:
        return "\n".join(self.sentences)

    @property
    def _published(self) -> Table:
        return Table("As published, no guarantee", [_published_row(each) for each in self.theorems], _KINDS)

    @property
    def _true(self) -> Table:
        rows = []
        for name, found in self.certified.items():
            limit, note = "none", found
            if isinstance(found, Certificate):
                claim, counts = found.claim, found.limit
                worth = "it says no more than guessing" if claim.vacuous else f"delta {claim.delta:g}"
                counted = f"{counts.errors:,} errors on {counts.n:,} examples, {found.message.bits:,} bits"
                limit, note = percent(claim.bound), f"{found.statement}; {counted}; {worth}"
            rows.append((f"certificate of {name}", limit, note))
        for name, (on_sample, on_test) in self.errors.items():
            seen = "unknown: no test examples" if on_test is None else rate(on_test)
            rows.append((f"test error of {name}", seen, f"{rate(on_sample)} on the sample"))
        return tabulate(("what", "at most, or counted", "note"), rows, title="Certified, and counted")

    def page(self) -> str:
        """The page."""
        details = [each.record() for each in self.theorems if isinstance(each, PublishedValue)]
        settings = {**self.about.record, **self.settings}
        return render(
            "study.html.j2",
            {
                "title": f"{self.paper} on {self.about.sample.name}",
                "subtitle": f"{self.about.name}, {self.about.sample.n:,} examples; codebound {__version__}",
                "sentences": list(zip(_HEADS, self.sentences, strict=True)),
                "tables": [self._true, self._published, *self.tables],
                "drawings": [self._bars, *self.drawings],
                "details": [{**each, "conditions": condition_rows(each)} for each in details],
                "notes": [*self.about.notes, *self.notes],
                "commands": self.commands,
                "settings": [(name.replace("_", " "), plain(value)) for name, value in settings.items()],
            },
            package="codebound_papers.report",
        )

    @property
    def _bars(self) -> Drawing:
        """Published values and what is true on one logarithmic axis, as in the bar charts of the papers."""
        limits = {name: x.claim.bound for name, x in self.certified.items() if isinstance(x, Certificate)}
        true = {f"certificate of {name}": bound for name, bound in limits.items()}
        true |= {f"test error of {name}": test for name, (_, test) in self.errors.items() if test}
        marks = [Mark(name, decimal_log(value), "true") for name, value in true.items()]
        marks += [
            Mark(each.name, each.log10, "published, no guarantee")
            for each in self.theorems
            if isinstance(each, PublishedValue) and math.isfinite(each.log10) and each.unit in _BOUNDS
        ]
        drawing = Marks(marks, label="error rate", line=(0.0, "100 %"), is_narrow=True)
        return Drawing("The bound against the older ones, and the truth", drawing.inline(), _BARS, fits=True)

    def save_to(self, folder: Path | str) -> Path:
        """Writes the record, the page, the networks and the certificates to a folder."""
        target = Path(folder)
        make_folder(target)
        write_json(target / "result.json", self.record())
        write_text(target / "study.html", self.page())
        for name, network in {"f": self.about.f, **self.networks}.items():
            save_weights(target / f"{name.replace(' ', '-')}.safetensors", state_tensors(network))
        if self.tensors:
            save_weights(target / "sketches.safetensors", self.tensors)
        for name, found in self.certified.items():
            if isinstance(found, Certificate):
                found.save(target / f"{name.replace(' ', '-')}.cbound")
        return target


def _claim_record(found: Certificate | str) -> dict[str, object]:
    if isinstance(found, str):
        return {"bound": None, "reason": found}
    return {
        "statement": found.statement,
        "bound": found.claim.bound,
        "vacuous": found.claim.vacuous,
        "errors": found.limit.errors,
        "n": found.limit.n,
        "code_bits": found.message.bits,
    }


def _published_row(each: PublishedValue | Refused) -> dict[str, str]:
    if isinstance(each, Refused):
        return {"statement": each.name, "value": "unknown", "conditions": each.reason, "fails": "-"}
    fails = ["-" if p is None else f"{p:.3g}" for p in (each.failure_published, each.failure_corrected)]
    row = {"statement": each.name, "value": _value_text(each), "conditions": each.conditions}
    return row | {"fails": " / ".join(fails)}


def _value_text(value: PublishedValue) -> str:
    row = finite({"value": value.value, "log10": value.log10})
    text = rate_text if value.unit == "risk" and row["log10"] is not None else format_value
    return text(row["value"], row["log10"])


def _bound_text(value: PublishedValue | Refused) -> str:
    if isinstance(value, Refused):
        return f"{value.name} does not apply: {value.reason}"
    worth = ": above 100 % a bound says nothing" if 0.0 <= value.log_value < math.inf else ""
    unmet = f"{len(value.unmet)} of its {len(value.hypotheses)} conditions are not met."
    return f"The bound of the paper ({value.name}) is {_value_text(value)}{worth}. {unmet}"


def make_table(
    title: str, rows: Sequence[Mapping[str, Any]], columns: Mapping[str, str], **legend: str
) -> Table:
    """A table of some columns, ``key: "title|format"``; % stands for a rate, and None is unknown."""

    def cell(value: Any, form: str) -> object:
        if value is None or isinstance(value, bool):
            return {None: "unknown", True: "yes", False: "NO"}[value]
        return rate(value) if form == "%" else f"{value:{'' if isinstance(value, str) else form}}"

    parts = {key: words.partition("|") for key, words in columns.items()}
    shown = [{name: cell(row[key], form) for key, (name, _, form) in parts.items()} for row in rows]
    return Table(title, shown, {name.replace("_", " "): text for name, text in legend.items()})


def make_figure(title: str, caption: str, plot: Plot) -> Iterator[Drawing]:
    """A figure, if it has something to show."""
    if any(isinstance(each, Series) and each.x for each in plot.series):
        yield Drawing(title, Figure([plot]).inline(), caption, fits=True)
