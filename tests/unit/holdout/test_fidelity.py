"""Fidelity of a compressed classifier: disagreements on fresh inputs, without labels."""

from codebound.bounds.held_out import holdout
from codebound.bounds.risk import HoldoutFacts
from codebound.holdout.seals import Plan, seal
from codebound.holdout.sentences import describe_line
from codebound.holdout.statements import faithful


def test_disagreements_are_bounded_without_labels(answers):
    del answers["label"]
    ledger = faithful(answers, "a", "b")
    line = ledger.statements[-1]
    assert (line["result"]["errors"], line["result"]["n"]) == (45, 400)
    expected = holdout(HoldoutFacts(errors=45, n=400, delta=0.05)).value
    assert abs(line["result"]["bound"] - expected) < 1e-9
    assert ledger.seal["label"]["is"] == "answers"
    assert "b answers unlike the original on at most" in describe_line(ledger, line)


def test_the_labels_of_the_same_rows_can_be_sealed_too(answers):
    faithful(answers, "a", "b")
    assert seal(answers, Plan(look=("b",)), label="label", out="test.ledger.jsonl").seal["n"] == 400
