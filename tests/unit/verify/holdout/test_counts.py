"""Counts that are made again: what a table must have, and what is said of another one."""

import copy
import random

import pytest
from ledger_writer import Ledger

from codebound_verify.holdout.ledger import verify_ledger


@pytest.fixture(scope="module")
def sealed():
    draw = random.Random(1)
    label = [draw.choice("ab") for _ in range(30)]
    table = {
        "label": label,
        "one": [draw.choice(["a", "b", ""]) for _ in label],
        "q": [str(at) for at in range(30)],
    }
    table["site"] = [draw.choice("xy") for _ in label]
    made = Ledger(table, {"looks": 2}, groups="site", inputs="q")
    made.look("one")
    return table, made


CHANGES = {
    "a row is missing": (lambda t: {name: cells[1:] for name, cells in t.items()}, "rows = 29"),
    "rows in another order": (lambda t: {name: cells[::-1] for name, cells in t.items()}, "sealed as label"),
    "a label was changed": (
        lambda t: t | {"label": ["b", *t["label"][1:]]} | {"label": t["label"][::-1]},
        "label",
    ),
    "a question was changed": (lambda t: t | {"q": ["x", *t["q"][1:]]}, "sealed as inputs"),
    "a group was changed": (lambda t: t | {"site": t["site"][::-1]}, "sealed as groups"),
    "columns of different length": (lambda t: t | {"one": t["one"][1:]}, "not equally long"),
    "no column": (lambda t: {}, "not equally long"),
    "half of a character": (lambda t: t | {"one": ["\ud800", *t["one"][1:]]}, "half of one"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_another_table_is_refused(sealed, name):
    table, made = sealed
    change, said = CHANGES[name]
    verdict = verify_ledger(made.content, table=change(copy.deepcopy(table)))
    assert verdict.verdict == "REFUSE"
    assert said in verdict.reasons[0]


def test_columns_that_are_not_there_are_said(sealed):
    table, made = sealed
    assert verify_ledger(made.content, table=table).recounted == 1
    less = {name: cells for name, cells in table.items() if name not in ("one", "q")}
    verdict = verify_ledger(made.content, table=less)
    assert (verdict.verdict, verdict.recounted) == ("ACCEPT", 0)
    assert "counts that were not made again" in " ".join(verdict.assumptions)
    renamed = {name.upper(): [f" {cell} " for cell in cells] for name, cells in table.items()}
    assert verify_ledger(made.content, table=renamed).recounted == 1


def test_an_empty_label_is_refused():
    table = {"label": ["a", "b", "a"], "one": ["a", "b", "b"]}
    made = Ledger(table, {"looks": 1})
    table["label"] = ["a", " ", "a"]
    other = Ledger(table, {"looks": 1})
    assert "row 2 of the column of label is empty" in verify_ledger(other.content, table=table).reasons[0]
    assert verify_ledger(made.content).is_accepted
