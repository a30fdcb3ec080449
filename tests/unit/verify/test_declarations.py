"""What no file can show is said as far as it applies, in the verifier's own words (section 10)."""

from types import SimpleNamespace

import pytest

from codebound_verify.header import Made, Original, Sample, Table, Unlabelled
from codebound_verify.words import list_assumptions

TABLE = Table(by="a forest, seed 3", of="MNIST", rows=40, sha256="ab" * 32, columns=3, picks=None)
MADE = Made(by="an encoder", of="other pictures", rows=0, sha256="cd" * 32)


def said(*, form="usual split", table=None, equal=0, developed=None, original=None, **changes) -> str:
    plain = {"rows": 300, "sha256": "", "input_shape": (4,), "classes": 3, "order": "rows", "salt": ""}
    plain |= {"seal": "", "copies": "any", "clusters": None, "groups": None}
    known = SimpleNamespace(rows=40, features=changes.pop("features", None), base=changes.pop("base", None))
    header = SimpleNamespace(
        sample=Sample(**plain | changes),
        known=known,
        claim=SimpleNamespace(delta=0.05, on="all"),
        original=original,
    )
    return "\n".join(list_assumptions(header, form=form, table=table, copies=equal, developed=developed))


def test_what_always_has_to_be_true_is_always_said():
    text = said()
    for words in (
        "Independent draws from where new data come from: the rows after the first 40.",
        "Fixed before any result",
        "delta = 0.05",
        "as a random function does",
        "sum of their deltas",
        "does not depend on what it holds",
    ):
        assert words in text
    for words in (
        "table of scores,",
        "base,",
        "encoded",
        "salt was",
        "unlabelled",
        "this very sample",
        "forest",
    ):
        assert words not in text


ORIGINAL = Original(None, None, "", Unlabelled(disagreements=1, rows=500, sha256=""))
DOMAIN = Original((("linear", 2, 0),), (-1.0, 2.5), "", None)
CASES = [
    ({"form": "first table", "table": TABLE}, "only one that was counted|'a forest, seed 3'|first 40 rows"),
    ({"form": "first table", "table": TABLE}, "others are listed and paid for. Nothing in the file"),
    ({"form": "network", "base": MADE}, "The base, of SHA-256 cdcd|'other pictures'"),
    ({"features": MADE}, "What encoded the inputs, of SHA-256 cdcd|'an encoder'"),
    ({"original": ORIGINAL}, "The 500 unlabelled inputs|none was left out|answers of f|f, what is said"),
    ({"original": DOMAIN}, "from -1.0 to 2.5"),
    ({"salt": "ab", "seal": "on paper"}, "on paper|Nothing in the file shows that this salt was the only"),
    ({"order": "file"}, "independent draws, or of time"),
    ({"copies": "independent"}, "separate draws"),
    ({"copies": "repeated", "equal": 12}, "stored more than once|12 rows are copies"),
    ({"order": "clusters", "clusters": "ab"}, "the clusters after the first 40|their clusters"),
    ({"groups": "ab"}, "their groups"),
    ({"developed": "MNIST"}, "developed on this very sample: choices among what it lists are paid for|MNIST"),
]


@pytest.mark.parametrize(("changes", "words"), CASES, ids=lambda each: str(each)[:40])
def test_what_applies_is_said(changes, words):
    text = said(**changes)
    for each in words.split("|"):
        assert each in text


def test_picks_of_a_table_have_a_rule_and_a_classifier_that_runs_is_run_as_it_was_counted():
    picked = Table(by="a", of="b", rows=40, sha256="ab" * 32, columns=3, picks=17)
    assert "The 17 picks were made by a rule" in said(form="first table", table=picked)
    assert "is run as it was counted" in said()
    assert "is run as it was counted" not in said(form="first table", table=TABLE)
