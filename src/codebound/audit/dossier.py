"""One page for an auditor: what was fixed, what was shown, what it rests on, which requirement it answers.

The numbers of requirements are those of EASA's concept paper on machine learning applications (issue 2), as
published copies of its objectives have them (the paper itself was not at hand: compare before citing), and of
Regulation (EU) 2024/1689, compared with copies of its text. What they ask for is in our own words. No page
makes an application compliant.
"""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any

from codebound.bounds.held_out import confront, holdout
from codebound.bounds.risk import HoldoutFacts, count_of, percent
from codebound.certificate.file import Certificate
from codebound.certificate.verification import CERTIFICATE, command_of, options_of, verify_file, verify_folder
from codebound.report.summary import loss_words
from codebound.report.templates import render
from codebound.run.errors import FormatError, UsageError
from codebound.run.files import file_sha256, read_json, read_toml, write_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

WORDS = "dossier.toml"
PAGE = "dossier.html"
_QUESTIONS = {
    "responsible": "Who answers for this report, and in what role.",
    "intended_use": "What the network is used for, and for what not.",
    "operating_conditions": "The inputs that it will meet: sources, ranges, what is excluded.",
    "data": "Where the sample comes from, who labelled it, and why it stands for those inputs.",
    "threshold": "The error that had to be shown, who fixed it and when.",
}
_AUTHORS = "by the author's count, which the second program was not asked about"
PROFILES: dict[str, dict[str, str]] = {
    "plain": {},
    "easa": {
        "statement": "LM-04: a bound on the generalisation, in numbers",
        "threshold": "LM-04: what had to be shown",
        "by_class": "LM-04: the same for every class",
        "surrogate": "SU-01, SU-02: what a surrogate adds to the uncertainty",
        "test": "LM-09, LM-14: the bound is compared with test data",
        "looks": "LM-14: how often the test data were used",
        "message": "LM-06, IMP-04: pruning and quantisation are documented, with their effect",
        "counting": "IMP-06, IMP-07: what runs is what was counted, and where platforms differ",
        "verifier": "QA-01: checked independently",
        "versions": "CM-01: the configuration is identified",
        "responsible": "QA-01: who answers for it",
    },
    "eu-ai-act": {
        "intended_use": "Annex IV, 1(a): the intended purpose",
        "data": "Annex IV, 2(d): the data and where they come from",
        "threshold": "Article 9(8): metrics and probabilistic thresholds defined beforehand",
        "statement": "Article 13(3)(b)(ii), Article 15(3): the declared level of accuracy",
        "by_class": "Annex IV, 3: the degree of accuracy for particular groups",
        "test": "Annex IV, 2(g): testing, and the metrics used",
        "looks": "Annex IV, 2(g): the log of tests",
        "verifier": "Annex IV, 2(g): how it was validated",
        "versions": "Annex IV, 1(c): versions",
        "responsible": "Annex IV, 2(g): dated and signed by the responsible person",
        "operating_conditions": "Annex IV, 3: limits of what was shown",
    },
}
"""For each profile, which requirement an item answers, in our own words."""


def write_dossier(folder: Path, *, profile: str = "plain", ledger: Path | None = None) -> Mapping[str, Any]:
    """Check a certificate again, write its page, and return the verdict.

    The folder may be a stranger's: no code that it names is run.
    """
    if profile not in PROFILES:
        raise UsageError(f"profile is {', '.join(PROFILES)}. Got {profile!r}.")
    path = folder / CERTIFICATE
    certificate = Certificate.load(path)
    result = read_json(folder / "result.json", advice="`codebound certify` writes it beside a certificate.")
    words, options = author_words(folder, certificate), options_of(folder, result)
    verdict, today = verify_folder(folder, options), datetime.date.today().isoformat()
    found = {
        "looks": _looks(None if ledger is None else verify_file(ledger)),
        "verifier": f"{verdict['verdict']}, {today}: {command_of(options)}",
    }
    try:
        program = f"codebound {certificate.made_by['codebound']}"
        found["versions"] = f"{program}, {certificate.made_by['date']}; file SHA-256 {file_sha256(path)}"
        items = _items(certificate, result, words | found)
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise FormatError(f"{folder}/result.json is not what certify writes: {error!r}.") from error
    requirements = PROFILES[profile]
    page = render(
        "dossier.html.j2",
        {
            "title": "What was shown, and what it rests on",
            "subtitle": f"{today}; profile {profile}; {program}",
            "sentence": certificate.sentence,
            "is_accepted": verdict["verdict"] == "ACCEPT",
            "verdict": verdict["verdict"],
            "rows": [
                {"item": name, "content": value}
                | ({"answers": requirements.get(key, "")} if requirements else {})
                for key, name, value in items
            ],
            "met": [
                {"assumption": line, "how it was met": words[f"assumption_{i}"]}
                for i, line in enumerate(certificate.declarations, start=1)
            ],
            "responsible": words["responsible"],
            "today": today,
            "page": PAGE,
        },
    )
    write_text(folder / PAGE, page)
    return verdict


def author_words(folder: Path, certificate: Certificate) -> dict[str, Any]:
    """Return the author's statements. The first time, write a file that asks for them."""
    path = folder / WORDS
    if not path.exists():
        lines = [f'{name} = ""  # {question}' for name, question in _QUESTIONS.items()]
        lines += ["", "# How each assumption was met, a line for each."]
        lines += [f'# {i}. {line}\nassumption_{i} = ""' for i, line in enumerate(certificate.declarations, 1)]
        write_text(path, "\n".join(lines) + "\n")
        raise UsageError(f"{path} was made: fill in what only you can say, and run this again.")
    words = read_toml(path, "the author's words")
    expected = [*_QUESTIONS, *(f"assumption_{i}" for i in range(1, len(certificate.declarations) + 1))]
    if empty := [name for name in expected if not str(words.get(name, "")).strip()]:
        raise UsageError(
            f"{path} says nothing about {', '.join(empty)}: fill it in, or write why it is open."
        )
    return words


def _items(
    certificate: Certificate, result: Mapping[str, Any], words: Mapping[str, Any]
) -> list[tuple[str, str, str]]:
    """Key, name and content of every item; ``words`` has what neither the file nor its result says."""
    facts, claim = certificate.sample, certificate.claim
    counted = "; ".join(map(str, certificate.counts))
    items = [
        ("intended_use", "intended use", words["intended_use"]),
        ("operating_conditions", "operating conditions", words["operating_conditions"]),
        ("data", "sample", f"{words['data']} {facts.rows} examples; SHA-256 {facts.sha256}"),
        ("threshold", "fixed in advance", f"{words['threshold']} Failure probability {claim.delta!r}."),
        ("statement", "shown", f"{certificate.sentence} ({claim.assurance}; {counted})"),
    ]
    if claim.subject == "f":
        sentence = (
            "f is bounded through the compressed network g, and what sets them apart is part of the bound"
        )
        items.append(("surrogate", "surrogate", sentence))
    if rows := result.get("by_class"):
        items.append(("by_class", "every class, all at once", f"{_AUTHORS}: {_classes(rows)}"))
    before = result["original_errors"]
    was = "" if before is None else f"; {_AUTHORS}: {before} errors before, on {facts.rows}"
    how = "errors of the decoded network, in float64; it decodes bit for bit from the file"
    return [
        *items,
        ("test", "test data", _test(certificate, result)),
        ("looks", "looks at test data", words["looks"]),
        ("message", "compression", f"method {result['method']}, {result['code_bits']} bits{was}"),
        ("counting", "as counted", how),
        ("verifier", "independent program", words["verifier"]),
        ("versions", "versions", words["versions"]),
        ("responsible", "responsible", words["responsible"]),
    ]


def _test(certificate: Certificate, result: Mapping[str, Any]) -> str:
    """Return the author's counts on test data, with limits that follow; nobody has counted again."""
    if "holdout" not in result:
        return "no test data were given"
    claim, errors, n = certificate.claim, result["test_errors"], result["test_n"]
    facts = HoldoutFacts(errors=errors, n=n, delta=claim.delta, subject=claim.subject)
    met = confront(claim.bound, facts, does=loss_words(claim.loss))
    return (
        f"{_AUTHORS}: {count_of(errors, 'error')} on {n} test "
        f"examples, {result['test_copies_in_sample']} of them copies of the sample. From these counts follow "
        f"the hold-out bound {percent(holdout(facts).value)}, at the same failure probability, and: "
        + (met.alarm or "the bound is not contradicted")
    )


def _classes(rows: Sequence[Mapping[str, Any]]) -> str:
    """A limit for each class."""
    limits = ("no examples" if row["bound"] is None else percent(row["bound"]) for row in rows)
    return "; ".join(f"class {row['label']}: {limit}" for row, limit in zip(rows, limits, strict=True))


def _looks(ledger: Mapping[str, Any] | None) -> str:
    if ledger is None:
        return "no ledger was given"
    if ledger["verdict"] != "ACCEPT":
        return "REFUSED: " + " ".join(ledger["reasons"])
    if ledger["kind"] == "watch":
        return f"a watch, not a ledger of looks; head {ledger['head']}"
    best = "no bound" if ledger["bound"] is None else f"smallest bound {percent(ledger['bound'])}"
    sentence = f"{best} for the loss {ledger['loss']}; head {ledger['head']}"
    return f"{count_of(ledger['looks'], 'statement')}, all paid for; {sentence}"
