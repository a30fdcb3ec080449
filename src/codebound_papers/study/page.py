"""The result of a study: record, tables and page. Published values and certified ones stay apart."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from torch import Tensor

from codebound import __version__
from codebound.bounds.risk import percent, rate
from codebound.certificate.file import Certificate
from codebound.report.html import rendered
from codebound.report.tables import Table, tabulate
from codebound.run.files import finite, make_folder, write_json, write_text
from codebound.run.tensor_files import save_weights, state_tensors
from codebound_papers.compare.page import condition_rows, shown
from codebound_papers.compare.rows import decimal_log, rate_text
from codebound_papers.report.figures import Figure, Mark, Marks, Plot, Series
from codebound_papers.report.measures import Drawing
from codebound_papers.study.subjects import PLACE, Subject, claim_record
from codebound_papers.value import PublishedValue, Refused

NETWORK = "f.safetensors"
"""The network f in the folder of a study."""
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
    """A paper's system on one network."""

    paper: str  # its short name
    subject: Subject = field(repr=False)  # the network
    settings: Mapping[str, Any]  # options of the study, with what was chosen where they were open
    sentences: tuple[str, str, str]  # what the paper claims, what it says here, what is true
    tables: tuple[Table, ...] = field(repr=False)  # of the paper's quantities, for people
    more: tuple[Table, ...] = field(default=(), repr=False)  # for the page alone
    theorems: tuple[PublishedValue | Refused, ...] = field(repr=False)  # the first is the paper's main one
    certified: Mapping[str, Certificate | str] = field(repr=False)  # by what they are about, or the refusal
    errors: Mapping[str, tuple[float | None, float | None]]  # on the sample and on test examples, by network
    quantities: Mapping[str, Any] = field(repr=False)  # everything that was measured, as JSON values
    drawings: tuple[Drawing, ...] = field(repr=False)  # the paper's figures
    tensors: Mapping[str, Mapping[str, Tensor]] = field(repr=False)  # what is written beside f, by file
    commands: tuple[str, ...]  # of the parts
    notes: tuple[str, ...] = ()  # what a reader should know

    def at(self, folder: Path) -> "StudyResult":
        """The same with commands that name the folder it is written to."""
        return replace(self, commands=tuple(each.replace(PLACE, str(folder)) for each in self.commands))

    def record(self) -> dict[str, Any]:
        """Everything for JSON; null is infinite or unknown."""
        return {
            "paper": self.paper,
            "sentences": list(self.sentences),
            "settings": {**self.subject.record, **self.settings, "codebound": __version__},
            "errors": {
                name: {"sample": on_sample, "test": on_test}
                for name, (on_sample, on_test) in self.errors.items()
            },
            "certified": {name: claim_record(found) for name, found in self.certified.items()},
            "published": [each.record() for each in self.theorems],
            **finite(dict(self.quantities)),
            "notes": [*self.subject.notes, *self.notes],
            "commands": list(self.commands),
        }

    def screen(self) -> list[Table | str]:
        """The tables for a terminal, behind the three sentences."""
        heads = [f"{head} {text}" for head, text in zip(_HEADS, self.sentences, strict=True)]
        main = [self._conditions] if self._conditions is not None else []
        parts = "\n".join(["The parts:", *(f"  {command}" for command in self.commands)])
        return [*heads, "", *self.tables, self._published, *main, self._true, *self.notes, parts]

    def __str__(self) -> str:
        return "\n".join(self.sentences)

    @property
    def _published(self) -> Table:
        rows = [_published_row(each) for each in self.theorems]
        return Table("As published, no guarantee", rows, _KINDS)

    @property
    def _conditions(self) -> Table | None:
        """Those of the main theorem."""
        first = self.theorems[0]
        if isinstance(first, Refused):
            return None
        return Table(f"Conditions of {first.name}", condition_rows(first.record()))

    @property
    def _true(self) -> Table:
        rows: list[tuple[str, str, str]] = []
        for name, found in self.certified.items():
            if isinstance(found, str):
                rows.append((f"certificate of {name}", "none", found))
                continue
            claim, facts = found.claim, found.facts
            counted = f"{facts.errors:,} errors on {facts.n:,} examples, {facts.code_bits:,} bits"
            vacuous = ", vacuous" * claim.vacuous
            words = f"{claim.statement}, with probability {1.0 - claim.delta:g}{vacuous}; {counted}"
            rows.append((f"certificate of {name}", percent(claim.bound), words))
        for name, (on_sample, on_test) in self.errors.items():
            seen = "unknown: no test examples" if on_test is None else rate(on_test)
            on = "" if on_sample is None else f"{rate(on_sample)} on the sample"
            rows.append((f"test error of {name}", seen, on))
        return tabulate(("what", "at most, or counted", "note"), rows)

    def page(self) -> str:
        """The page."""
        details = [each.record() for each in self.theorems if isinstance(each, PublishedValue)]
        settings = {**self.subject.record, **self.settings}
        true = Table("Certified, and counted", self._true.rows)
        return rendered(
            "study.html.j2",
            {
                "title": f"{self.paper}: {self.subject.name} on {self.subject.sample.name}",
                "subtitle": f"{self.subject.sample.n:,} examples; made by codebound {__version__}",
                "sentences": list(zip(_HEADS, self.sentences, strict=True)),
                "tables": [true, self._published, *self.tables],
                "more": self.more,
                "drawings": self.drawings,
                "details": [{**each, "conditions": condition_rows(each)} for each in details],
                "notes": [*self.subject.notes, *self.notes],
                "commands": self.commands,
                "settings": [(name.replace("_", " "), _plain(value)) for name, value in settings.items()],
            },
            package="codebound_papers.report",
        )

    def save_to(self, folder: Path | str) -> Path:
        """Writes the record, the page, the networks and the certificates to a folder."""
        target = Path(folder)
        make_folder(target)
        write_json(target / "result.json", self.record())
        write_text(target / "study.html", self.page())
        save_weights(target / NETWORK, state_tensors(self.subject.f))
        for name, tensors in self.tensors.items():
            save_weights(target / f"{name}.safetensors", tensors)
        for name, found in self.certified.items():
            if isinstance(found, Certificate):
                found.save(target / f"{name.replace(' ', '-')}.cbound")
        return target


def _published_row(each: PublishedValue | Refused) -> dict[str, str]:
    if isinstance(each, Refused):
        return {"statement": each.name, "value": "unknown", "conditions": each.reason, "fails": "-"}
    found = [condition.holds for condition in each.hypotheses]
    counted = ((found.count(True), "met"), (found.count(False), "NOT met"), (found.count(None), "unknown"))
    fails = ["-" if p is None else f"{p:.3g}" for p in (each.failure_published, each.failure_corrected)]
    return {
        "statement": each.name,
        "value": value_text(each),
        "conditions": ", ".join(f"{count} {word}" for count, word in counted if count) or "none",
        "fails": " / ".join(fails),
    }


def value_text(value: PublishedValue) -> str:
    """A published value as people read it."""
    row = finite({"value": value.value, "log10": value.log10})
    if value.unit == "risk" and row["log10"] is not None:
        return rate_text(row["value"], row["log10"])
    return shown(row["value"], row["log10"])


def said_of(value: PublishedValue | Refused) -> str:
    """A published bound in words, with its conditions."""
    if isinstance(value, Refused):
        return f"{value.name} does not apply: {value.reason}"
    beyond = "" if value.log_value < 0.0 else " (above 100 % it says nothing)"
    unmet, count = len(value.unmet), len(value.hypotheses)
    return f"{value.name} prints {value_text(value)}{beyond}; {unmet} of its {count} conditions are not met."


def _plain(setting: object) -> str:
    if isinstance(setting, float):
        return f"{setting:.6g}"
    if isinstance(setting, Sequence) and not isinstance(setting, str):
        return ", ".join(map(str, setting)) or "-"
    return "-" if setting is None else str(setting)


def listed(title: str, rows: Sequence[Mapping[str, Any]], columns: Mapping[str, str], **legend: str) -> Table:
    """A table of some columns, ``key: "title|format"``; % stands for a rate, and None is unknown."""

    def cell(value: Any, form: str) -> object:
        if value is None or isinstance(value, bool):
            return {None: "unknown", True: "yes", False: "NO"}[value]
        return rate(value) if form == "%" else f"{value:{'' if isinstance(value, str) else form}}"

    parts = {key: words.partition("|") for key, words in columns.items()}
    shown = [{name: cell(row[key], form) for key, (name, _, form) in parts.items()} for row in rows]
    return Table(title, shown, {name.replace("_", " "): text for name, text in legend.items()})


def drawn(title: str, caption: str, *plots: Plot, columns: int = 2) -> Iterator[Drawing]:
    """A figure of the plots that have something to show; nothing where none has."""
    full = [plot for plot in plots if any(isinstance(each, Series) and each.x for each in plot.series)]
    if full:
        yield Drawing(title, Figure(full, columns=columns).inline(), caption, fits=True)


def bars(
    title: str, caption: str, values: Sequence[PublishedValue | Refused], true: Mapping[str, float]
) -> Drawing:
    """Published values and what is true on one logarithmic axis, as in the bar charts of the papers."""
    marks = [Mark(name, decimal_log(value), "true") for name, value in true.items()]
    marks += [
        Mark(each.name, each.log10, "published, no guarantee")
        for each in values
        if isinstance(each, PublishedValue) and math.isfinite(each.log10) and each.unit in _BOUNDS
    ]
    line = (0.0, "100 %")
    return Drawing(
        title, Marks(marks, label="error rate", line=line, is_narrow=True).inline(), caption, fits=True
    )


def true_rates(
    certified: Mapping[str, Certificate | str], errors: Mapping[str, tuple[float | None, float | None]]
) -> dict[str, float]:
    """Certified limits and test errors by what they are of; without those that are zero or unknown."""
    found = {f"certificate of {n}": x.claim.bound for n, x in certified.items() if isinstance(x, Certificate)}
    return found | {f"test error of {n}": test for n, (_, test) in errors.items() if test}
