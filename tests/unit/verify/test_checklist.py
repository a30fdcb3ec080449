"""The order of checks: all that is wrong is said, and what has no ground any more is left out."""

import re

import pytest
from file_judges import given
from file_worlds import made
from file_writer import edited, write_file

from codebound_verify import Lacking, checklist, verify
from codebound_verify.checklist import Checklist, Given
from codebound_verify.container import read_container

PASSED = (
    "the file is well-formed and its hashes are right",
    "the data are the sample that the certificate names",
    "the known rows are those that the order of the sample puts first",
    "the message begins with words of the page",
    "the message says what the header repeats, in exactly the bits that it charges",
    "the scores are those of the message: read, learned or computed again",
    "no row is counted as right that is not, and every copy as the header says",
    "errors and right rows are as stated, or fewer",
    "limits and bound follow from the counts, the bits and delta",
    "what guessing does is compared with the bound",
)


def run(name, changes=None, text=None, parts=None, **others) -> Checklist:
    world, own = made(name)
    data = edited(write_file(world, own), changes, text, parts)
    found = Checklist(read_container(data), Given(**given(world) | others))
    found.run(world.sample.x, world.sample.y)
    return found


def test_checks_are_said_in_their_order():
    found = run("first_table")
    assert (found.is_finished, found.reasons, tuple(found.passed)) == (True, [], PASSED)
    found = run("class_on_a_domain")
    assert found.passed.index("what is shown about g carries over to f") == PASSED.index(PASSED[7])
    assert any("rounding moves no score" in each for each in run("usual_split").passed)


@pytest.mark.parametrize("name", ["usual_split", "picks", "network"])
def test_a_check_that_takes_minutes_is_announced_before_it_begins(name, monkeypatch):
    heard = []
    run(name, announce=heard.append)
    assert heard == []
    monkeypatch.setattr(checklist, "LONG", 1 << 8)
    assert run(name, announce=heard.append).is_finished
    (sentence,) = heard
    assert re.fullmatch(r"It takes about \de\+\d\d multiplications: some 0 minutes on one core\.", sentence)


@pytest.mark.parametrize(
    ("changes", "reasons", "passed"),
    [
        ({"sample.sha256": "0" * 64}, ["Data: "], (0, 3)),
        ({"known.rows": 299}, ["Message: table 1 was made"], (0, 1, 2, 3)),
        ({"claim.loss": "top:1"}, ["Message: it counts"], (0, 1, 2, 3)),
        ({"claim.assurance": "replayed"}, ["Claim: assurance"], (0, 1, 2, 3)),
        ({"known.tables.0.sha256": "0" * 64}, ["Table: "], (0, 1, 2, 3, 4)),
        ({"claim.limits.0.of": "x"}, ["Claim: its limits"], (0, 1, 2, 3, 4, 5, 6, 8, 9)),
        ({"claim.bound": 0.5}, ["Claim: the bound"], (0, 1, 2, 3, 4, 5, 6, 7, 9)),
        ({"claim.vacuous": True}, ["Claim: vacuous"], (0, 1, 2, 3, 4, 5, 6, 7, 8)),
        (
            {"claim.limits.0.errors": 0, "claim.bound": 0.5, "claim.vacuous": True},
            ["Claim: wrong: ", "Claim: the limit", "Claim: the bound", "Claim: vacuous"],
            (0, 1, 2, 3, 4, 5, 6),
        ),
    ],
)
def test_a_lie_ends_what_rests_on_it_and_nothing_else(changes, reasons, passed):
    found = run("first_table", changes)
    for reason in reasons:
        assert any(each.startswith(reason) for each in found.reasons), found.reasons
    assert {each.partition(":")[0] for each in found.reasons} == {each.partition(":")[0] for each in reasons}
    assert tuple(found.passed) == tuple(PASSED[place] for place in passed)


def test_data_and_message_are_refused_side_by_side():
    found = run("first_table", {"sample.sha256": "0" * 64}, "1111111", "form 7")
    assert [each.partition(":")[0] for each in found.reasons] == ["Data", "Message"]


def test_what_is_lacking_is_said_only_if_nothing_is_wrong():
    with pytest.raises(Lacking, match="table 1"):
        run("first_table", tables=())
    found = run("first_table", {"claim.assurance": "replayed"}, tables=())
    assert [each.startswith("Claim: assurance") for each in found.reasons] == [True]


def test_only_a_network_has_a_witness():
    world, text = made("first_table")
    data = edited(write_file(world, text), witness=b"1")
    assert verify(data, world.sample.x, world.sample.y, **given(world)).reasons[0].startswith("Witness: ")


def test_a_check_that_was_left_out_is_never_an_acceptance(monkeypatch):
    monkeypatch.setattr(Checklist, "_count", lambda *_: None)
    world, text = made("first_table")
    verdict = verify(write_file(world, text), world.sample.x, world.sample.y, **given(world))
    assert (verdict.verdict, verdict.reasons) == ("REFUSE", ("Program: a check was left out.",))


def test_scores_have_as_many_classes_as_the_header_says():
    with pytest.raises(Lacking, match="groups"):
        run("each_group", groups=None)
    found = run("usual_split", {"sample.classes": 4})
    assert "sample.classes is 4; by the labels of the known rows they are 3" in found.reasons[0]
    assert found.scores is None


def test_progress_is_told_while_rows_are_evaluated():
    for name in ("usual_split", "picks", "network"):
        told = []
        run(name, progress=lambda done, total, told=told: told.append((done, total)))
        assert told[-1][0] == told[-1][1] > 0
        assert all(0 < done <= total for done, total in told)
