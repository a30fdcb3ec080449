"""Sealing: everything that is fixed, and every table or plan that is refused."""

import numpy as np
import pytest

from codebound.holdout.answers import as_table, column_sha256
from codebound.holdout.ledger import read_ledger
from codebound.holdout.seals import Abstention, Plan, seal, with_files
from codebound.run.errors import CertificateError, DataError, UsageError


def grid(**changed):
    return Abstention(**{"column": "b", "scores": "conf", "risk": 0.1, "thresholds": (0.5, 0.25), **changed})


def test_the_seal_has_every_column_by_its_hash(answers):
    plan = Plan(
        look=("a", "b"), better=[("a", "b")], inputs="prompt", group="topic", cluster="patient", claim="any"
    )
    told = seal(answers, plan).seal
    assert (told["rows"], told["n"], told["clusters"]["units"]) == (400, 80, 80)
    assert told["label"]["sha256"] == column_sha256(answers["label"])
    assert told["groups"]["names"] == ["north", "south"]
    assert told["groups"]["sizes"] == [80, 80]  # with five rows each, every cluster has both
    assert told["inputs"]["copies"] == 0
    assert [each["kind"] for each in told["planned"]] == ["look", "look", "better"]
    assert (told["looks"], told["levels"]) == (3, None)


def test_without_a_plan_every_other_column_is_listed(answers):
    told = seal({key: answers[key] for key in ("label", "a", "b")}).seal
    assert [each["column"]["name"] for each in told["planned"]] == ["a", "b"]


def test_looks_without_columns_list_nothing(answers):
    told = seal(answers, Plan(looks=20)).seal
    assert (told["planned"], told["looks"]) == ([], 20)
    assert told["levels"][:2] == [395, 390]  # steps of a quarter of the root
    assert told["levels"][-1] == 0


def test_the_target_becomes_a_level(answers):
    told = seal(answers, Plan(looks=10, target=0.1)).seal
    assert len(told["levels"]) == 1
    with pytest.raises(UsageError, match="not even without an error"):
        seal(answers, Plan(looks=10, target=0.001), out="other.jsonl")


@pytest.mark.parametrize("again", ["same", "other order", "fewer columns", "other types"])
def test_rows_are_sealed_once_on_one_machine(answers, again):
    seal(answers, Plan(look=("a",)))
    if again == "other order":
        answers = {key: each[::-1] for key, each in answers.items()}
    elif again == "fewer columns":
        answers = {key: answers[key] for key in ("label", "b")}
    elif again == "other types":
        answers = {key: [f" {cell}" for cell in each] for key, each in answers.items()}
    with pytest.raises(UsageError, match="were sealed before"):
        seal(answers, Plan(look=("b",)), out="other.jsonl")


def test_rows_in_the_same_order_of_labels_are_other_rows(answers):
    seal({"label": [0] * 200 + [1] * 200}, Plan(looks=1))
    seal({"label": [0] * 200 + [1] * 200, "new": [0] * 400}, Plan(looks=1), out="other.jsonl")


def test_a_seal_is_never_replaced(answers):
    path = seal(answers, Plan(look=("a",))).path
    before = path.read_bytes()
    with pytest.raises(UsageError, match="exists already"):
        seal({"label": [1, 0] * 9}, Plan(looks=1), out=path)
    assert path.read_bytes() == before
    assert read_ledger(path).content == before


def test_copies_of_inputs_have_to_be_declared(answers):
    answers["prompt"][:8] = ["again"] * 8
    with pytest.raises(CertificateError, match="7 rows of 400 repeat the inputs"):
        seal(answers, Plan(look=("a",), inputs="prompt"))
    assert seal(answers, Plan(look=("a",), inputs="prompt", allow_copies=True)).seal["inputs"]["copies"] == 7


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"look": ["c"]}, "no column 'c'"),
        ({"look": ["prompt"]}, "no cell of column 'prompt' is a label"),
        ({"look": ["a", "a"]}, "planned twice"),
        ({"look": ["a"], "looks": "open"}, "lists no statement"),
        ({"look": ["a", "b"], "looks": 1}, "2 statements are planned"),
        ({"better": [("a", "a")]}, "same answers in every row"),
        ({"abstain": [grid()], "group": "topic"}, "no limits for groups"),
        ({"better": [("a", "b")], "loss": "precision:ham"}, "other than precision"),
        ({"looks": 9, "tell": "levels", "group": "topic"}, "exact answers"),
        ({"looks": 1, "loss": "class:eggs"}, "no label. Labels: 'ham', 'spam'"),
        ({"looks": 1, "loss": "residual:1"}, "needs numbers as labels"),
        ({"look": ["a"], "group": "nobody"}, "no column 'nobody'"),
    ],
)
def test_a_plan_that_does_not_fit_gets_one_sentence(answers, changed, says):
    with pytest.raises((UsageError, DataError), match=says):
        seal(answers, Plan(**changed))


@pytest.mark.parametrize(
    "changed",
    [
        {"delta": 0.7}, {"cluster": "patient"}, {"claim": "row"}, {"looks": 0},
        {"cluster": "c", "claim": "all"},
        {"target": 1.0}, {"margin": 1.0}, {"tell": "all"}, {"tell": "exact", "target": 0.1},
    ],
)  # fmt: skip
def test_numbers_out_of_range_are_refused(changed):
    with pytest.raises(UsageError):
        Plan(**changed)


@pytest.mark.parametrize(
    "changed",
    [{"risk": 0.0}, {"thresholds": ()}, {"thresholds": (0.1, 0.2)}, {"thresholds": (0.1, 0.1)},
     {"thresholds": (float("nan"),)}, {"thresholds": (float("inf"),)}, {"rule": "better"}],
)  # fmt: skip
def test_a_grid_falls(changed):
    with pytest.raises(UsageError):
        grid(**changed)


@pytest.mark.parametrize("column", ["label", "topic", "patient"])
def test_an_empty_cell_is_named_by_its_row(answers, column):
    answers[column][6] = float("nan")
    with pytest.raises(DataError, match=rf"row 7 has no value \(empty or NaN\) in column '{column}'"):
        seal(answers, Plan(look=("a",), group="topic", cluster="patient", claim="row"))


def test_labels_of_any_kind(answers):
    assert seal({"label": [True, False] * 9, "m": [1, 0] * 9}).seal["n"] == 18


def test_files_of_answers_are_columns(tmp_path):
    table = as_table({"label": ["yes", "no"]})
    np.save(tmp_path / "p.npy", np.array(["yes", "no"]))
    np.save(tmp_path / "scores.npy", np.zeros((2, 2)))
    (tmp_path / "cut.npy").write_bytes(b"\x93NUMPY")
    name = str(tmp_path / "p.npy")
    assert with_files(table, [name, "label"], "").cells(name) == ("yes", "no")
    for broken, says in (("scores", "one answer for each row"), ("cut", "no sound"), ("none", "no sound")):
        with pytest.raises(DataError, match=says):
            with_files(table, [str(tmp_path / f"{broken}.npy")], "")
