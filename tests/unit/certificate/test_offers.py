"""Offer outcomes of every form against the reader and the counts that are written from the page alone."""

from dataclasses import replace
from fractions import Fraction

import certificate_counts as counts
import certificate_reader as reader
import numpy as np
import pytest
import torch
from worlds.outcomes import FORMS, SAMPLE, issued, outcome, table_of, task_of
from worlds.samples import rows_of, written_clusters

from codebound.bits.plain_code import FIRST_TABLE, NETWORK, PICKS, TABLE, USUAL_SPLIT
from codebound.certificate import offers
from codebound.certificate.offers import assess, bound_classes, draft, issue
from codebound.known.messages import KnownTensors
from codebound.known.score_tables import ScoreTable
from codebound.run.errors import DataError, RefusedError, UsageError
from codebound.run.tensor_files import float32_sha256
from codebound.sample.dataset import Made
from codebound.sample.order import Design
from codebound.sample.questions import EACH_CLASS, parse_question

COPIED = SAMPLE.select([*range(180), *range(60)], role="train")
GROUPS = np.arange(240, dtype=np.int64) % 60 % 4
DESIGNS = {
    "any": Design(),
    "independent": Design(copies="independent"),
    "repeated": Design(copies="repeated"),
    "file": Design(order="file"),
    "salted": Design(salt="ab" * 32, seal="a page of a newspaper"),
    "groups": Design(groups=GROUPS),
    "clusters": Design("clusters", "independent", clusters=np.arange(240, dtype=np.int64) // 2),
}
QUESTIONS = [
    *(
        (loss, "all")
        for loss in ("wrong", "class:1", "confused:0:2", "false-alarm:1", "top:2", "cost-above:1:distance")
    ),
    *(("wrong", on) for on in ("answered:0.5", "predicted:2", "each class")),
    ("class:2", "answered:0.25"),
]


def scores_of(found, task):
    """Scores of every stored row, and the room that differences have."""
    if found.form in (FIRST_TABLE, TABLE):
        return found.made.scores.astype(np.float64), 0.0
    if found.form == NETWORK:
        inputs = torch.from_numpy(task.sample.x).double() / 16.0
        scores = found.classifier.double()(inputs).detach().numpy()
        found.classifier.float()
        return scores, 1e-4 * np.abs(scores).max(axis=1)
    values, room = (np.asarray(each) for each in found.made.scores())
    table = np.full((task.sample.n, 3), -1e9)
    table[:, found.classes] = values
    return table, room


def check(form, design, question):
    """What is drafted is what the other reader reads, counts and computes."""
    task = task_of(COPIED, design=design, question=parse_question(*question, classes=3))
    found = outcome(form, task)
    assessed = assess(found, task)
    file = reader.read_container(draft(assessed, task).to_bytes())
    message = reader.read_message(file, task.arranged.units)
    sample = counts.Sample(
        COPIED.x, COPIED.y, design.order, design.salt, design.copies, design.clusters, design.groups
    )
    picks = [] if found.picked is None else found.picked.tolist()
    table, room = scores_of(found, task)
    own = counts.recount(sample, message, table, picks, room)
    stated = [(each["of"], each["errors"], each["n"], each["picks"]) for each in own]
    assert [(each.of, each.errors, each.n, each.picks or 0) for each in assessed.limits] == stated
    counts.check_limits(file, message, own)
    assert counts.is_vacuous(file, message, COPIED.y[sample.split(message.rows)[1]]) is assessed.is_vacuous
    return assessed


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("copies", ["any", "independent", "repeated"])
def test_every_form_is_counted_as_the_page_says(form, copies):
    check(form, DESIGNS[copies], ("wrong", "all"))


@pytest.mark.parametrize("question", QUESTIONS, ids=" ".join)
def test_every_question_is_counted_as_the_page_says(question):
    for form in (TABLE, USUAL_SPLIT, NETWORK):
        check(form, DESIGNS["any"], question)


@pytest.mark.parametrize("design", ["file", "salted", "groups", "clusters"])
def test_every_order_is_counted_as_the_page_says(design):
    question = {"groups": ("wrong", "each group"), "clusters": ("wrong", "one row a cluster")}.get(
        design, ("wrong", "all")
    )
    check(TABLE, DESIGNS[design], question)
    if design == "clusters":
        check(FIRST_TABLE, DESIGNS[design], ("class:1", "any row of a cluster"))


@pytest.mark.parametrize("on", ["all", "each class"])
def test_picks_are_counted_among_the_rows_that_a_limit_is_about(on):
    assert sum(tally.picks for tally in check(PICKS, Design(), ("wrong", on)).limits) == 6


def test_picks_are_asked_nothing_that_the_law_does_not_cover():
    with pytest.raises(UsageError, match="rows were picked"):
        check(PICKS, Design(), ("wrong", "answered:1"))


def vacuous(scores, y, loss="wrong", on="all", delta=0.05):
    sample = rows_of(np.arange(len(y), dtype=np.float64)[:, None], y)
    table = ScoreTable(np.asarray(scores, np.float32), "somebody", "other data")
    task = task_of(sample, tables=(table,), delta=delta, question=parse_question(loss, on, classes=3))
    return assess(outcome(FIRST_TABLE, task), task)


def test_what_a_guess_does_as_well_is_vacuous_to_the_last_bit(monkeypatch):
    y = np.repeat([0, 1, 2], [50, 30, 20])
    for loss, rate in (
        ("wrong", Fraction(1, 2)),
        ("class:1", Fraction(2, 3)),
        ("confused:0:1", Fraction(1, 3)),
        ("false-alarm:1", Fraction(1, 3)),
        ("top:2", Fraction(1, 3)),
        ("cost-above:1:distance", Fraction(0)),
        ("cost-above:0:distance", Fraction(2, 3)),
    ):
        near = float(rate) if Fraction(float(rate)) >= rate else np.nextafter(float(rate), 1.0)
        for bound, is_vacuous in ((near, True), (np.nextafter(near, -1.0), False)):
            monkeypatch.setattr(offers.Terms, "bound", lambda terms, limits, bound=bound: bound)
            assert vacuous(np.eye(3)[y], y, loss).is_vacuous is is_vacuous, (loss, bound)


def test_parts_are_vacuous_when_one_of_them_says_nothing():
    y = np.repeat([0, 1, 2], [50, 48, 2])
    right = np.eye(3)[y]
    assert not vacuous(right, y, on="each class", delta=0.3).is_vacuous
    right[y == 2] = 0.0
    assert vacuous(right, y, on="each class", delta=0.3).is_vacuous


def test_classes_beside_a_claim_are_what_a_claim_on_them_would_say():
    task = task_of()
    found = outcome(PICKS, task)
    rows = bound_classes(assess(found, task), task)
    alone = assess(found, replace(task, question=parse_question("wrong", EACH_CLASS)))
    for row, tally, term in zip(rows, alone.limits, alone.terms.each, strict=True):
        assert (row.errors, row.n, row.picks) == (tally.errors, tally.n, tally.picks)
        assert row.bound == replace(term, bits=24).limit(0.05)


@pytest.mark.parametrize("form", FORMS)
def test_the_second_program_accepts_every_form(form):
    certificate, _, assessed = issued(form)
    assert certificate.form == form
    assert certificate.claim.bound == assessed.bound
    assert certificate.known.rows == assessed.outcome.known_rows
    assert certificate.claim.assurance == ("recounted" if form in (FIRST_TABLE, TABLE) else "replayed")
    assert certificate.message.bits == sum(bits for _, bits in certificate.message.ledger)


@pytest.mark.parametrize("lie", ["an error less", "a bit less", "a row more"])
def test_a_lie_is_never_issued(lie):
    task = task_of()
    found = assess(outcome(FIRST_TABLE, task), task)
    tally = found.limits[0]
    if lie == "a bit less":
        found = replace(found, ledger=(("form", 1),))
    else:
        change = {"errors": tally.errors - 1} if lie == "an error less" else {"n": tally.n + 1}
        found = replace(found, limits=(replace(tally, **change),))
    with pytest.raises(RefusedError, match="not issued") as refused:
        issue(found, task)
    assert refused.value.reasons


def test_what_the_format_was_developed_on_is_said():
    task = task_of(tables=(replace(table_of(), of="digits of the library"),))
    assessed = assess(outcome(FIRST_TABLE, task), task)
    assert any("developed on this very sample" in line for line in issue(assessed, task).declarations)


def test_a_loss_that_no_counted_row_can_have_is_refused():
    with pytest.raises(DataError, match="nothing can be said"):
        vacuous(np.eye(3)[np.zeros(9, int)], np.zeros(9, int), "class:1")


def test_a_base_is_known_and_makes_the_claim_conditional():
    base = {"0.weight": np.zeros((3, 4), np.float32), "0.bias": np.zeros(3, np.float32)}
    made = Made("a network of zeros", "nothing", 60, float32_sha256(base))
    certificate, _, _ = issued(NETWORK, base=KnownTensors(made, base), sample=written_clusters(300))
    assert (certificate.known.rows, certificate.known.base) == (60, made)
    assert certificate.claim.assurance == "replayed on declared inputs"
    assert "provided that the base never saw" in certificate.sentence
