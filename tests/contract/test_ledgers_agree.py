"""Three programs on one page: the product writes, the second recounts, the third says the same."""

import random
from contextlib import suppress
from functools import cache

import mpmath
import numpy as np
import pytest
from ledger_writer import alarm_of, chance, forged, gain, mpf, says_no_more, upper, wealth, write_watch

from codebound.bounds.monitoring import Mixture
from codebound.holdout import Abstention, Plan, Watch, WatchTerms, abstain, better, look, read_ledger, seal
from codebound.holdout.answers import column_sha256, read_table
from codebound.run.errors import DataError
from codebound_verify.formulas import at_least
from codebound_verify.holdout import results
from codebound_verify.holdout.counts import column_hash
from codebound_verify.holdout.ledger import verify_ledger
from codebound_verify.holdout.rules import canonical
from codebound_verify.rooms import room

GRID = (0.8, 0.5, 0.2)
LOSSES = ("wrong", "class:a", "confused:a:b", "false-alarm:b", "precision:c")
CLUSTERS = ({}, {"cluster": "patient", "claim": "row"}, {"cluster": "patient", "claim": "any"})


@cache
def table() -> dict[str, list[str]]:
    draw = random.Random(11)
    label = [draw.choice("abc") for _ in range(80)]

    def answers(share: float) -> list[str]:
        return [draw.choice(["a", "b", "c", "", " b "]) if draw.random() < share else each for each in label]

    return {
        "label": label,
        "one": answers(0.1),
        "two": answers(0.7),
        "three": answers(0.3),
        "scores": [str(draw.choice([draw.random(), "nan", 1, "inf"])) for _ in label],
        "site": [draw.choice(["x", "y", "z\u00e9"]) for _ in label],
        "patient": [str(draw.randrange(30)) for _ in label],
        "question": [f"{at}?" for at in range(len(label))],
    }


def agree(path) -> None:
    ledger = read_ledger(path)
    verdict = verify_ledger(path.read_bytes(), table=table(), head=ledger.head)
    assert verdict.reasons == ()
    assert verdict.recounted == len(ledger.lines) - 1
    assert says_no_more(list(ledger.lines), table())


@pytest.mark.few(12)
@pytest.mark.parametrize("clusters", CLUSTERS, ids=lambda each: each.get("claim", "rows"))
@pytest.mark.parametrize("group", [None, "site", "label"])
@pytest.mark.parametrize("loss", LOSSES)
def test_what_the_product_writes_is_what_the_page_says(tmp_path, own_cache, loss, group, clusters):
    path = tmp_path / "made.ledger.jsonl"
    is_precision = loss.startswith("precision")
    pairs = [] if is_precision else [("two", "one")]
    plan = Plan(look=("one",), better=pairs, loss=loss, group=group, looks=9, inputs="question", **clusters)
    seal(table(), plan, label="label", out=path)
    look(path, "three", data=table())
    look(path, "one", data=table())
    if not is_precision:
        better(path, "two", "one", data=table())
        better(path, "one", "three", margin=0.2, data=table())
        if group is None:
            for rule in ("sequence", "choice"):
                how = Abstention(column="one", scores="scores", risk=0.4, thresholds=GRID, rule=rule)
                abstain(path, how, data=table())
    look(path, "two", data=table(), is_final=True) if not is_precision else look(path, "two", data=table())
    agree(path)


@pytest.mark.parametrize("plan", [Plan(looks=4, tell="levels"), Plan(looks="open", tell="exact")])
def test_looks_that_follow_one_another_agree(tmp_path, own_cache, plan):
    path = tmp_path / "made.ledger.jsonl"
    seal(table(), plan, label="label", out=path)
    for name in ("two", "three", "one"):
        look(path, name, data=table())
    look(path, "one", data=table(), is_final=True)
    agree(path)


@pytest.mark.parametrize("names", [None, ["x", "y"]])
def test_a_watch_agrees(tmp_path, own_cache, names):
    draw, path = random.Random(2), tmp_path / "made.watch.jsonl"
    stream = [(int(draw.random() < (0.04 if at < 150 else 0.25)), draw.choice("xy")) for at in range(300)]
    batches = [stream[at : at + 70] for at in range(0, 300, 70)]
    watch = Watch.start(path, WatchTerms(bound=0.05, alpha=0.02, groups=names or (), group=names and "site"))
    for batch in batches:
        watch.update([bad for bad, _ in batch], [name for _, name in batch] if names else None)
    right = write_watch(batches, names=names, alpha=0.02)
    for said, true in zip(watch.ledger.lines[1:], right[1:], strict=True):
        assert {key: said[key] for key in ("labels", "errors", "alarm", "groups")} == {
            key: true[key] for key in ("labels", "errors", "alarm", "groups")
        }
    assert watch.alarm_at is not None
    verdict = verify_ledger(path.read_bytes())
    assert (verdict.reasons, verdict.alarm) == ((), watch.alarm_at)
    assert verify_ledger(forged(right)).alarm == watch.alarm_at


def test_an_alarm_falls_on_the_label_that_the_sum_over_all_starts_says():
    draw = random.Random(4)
    for bound, share in ((0.05, 0.2), (0.01, 0.08), (0.3, 0.6), (0.9, 0.99)):
        outcomes = [int(draw.random() < share) for _ in range(400)]
        mixture = Mixture(bound=bound, alpha=0.01)
        mixture.update(outcomes)
        assert mixture.alarm_at == alarm_of(outcomes, bound, 0.01)
        assert abs(mixture.log_wealth - mpmath.log(wealth(outcomes, bound))) < 1e-8


@pytest.mark.parametrize("seed", range(12))
def test_limits_of_a_difference_agree_with_sums_over_all_counts(seed):
    draw = random.Random(seed)
    n = draw.choice([1, 2, 5, 12, 40, 60])
    pairs = draw.randint(0, n)
    x = draw.randint(pairs // 2, pairs)
    level, counts = mpf(draw.choice([0.5, 0.05, 1e-4])), {"a_only": x, "b_only": pairs - x}
    shown, limit = gain(x, pairs - x, n, level)
    assert results.may_say(bool(shown), at_least(x, pairs, mpf(1) / 2), level)
    for change, is_right in ((-1e-8, True), (3e-6, False), (-3e-6, False)):
        printed = float(limit) + change if limit or change > 0 else 0.0
        if (printed >= 0) == bool(shown) or printed:
            found = results.is_difference(printed, **counts, n=n, level=level, is_better=bool(shown))
            assert found == (is_right or printed == 0.0 == limit)
    for t in (-0.9, -0.3, -0.01, 0.0, 0.02, 0.4):
        mine, third = (
            results.chance_of_gain(mpf(t), n=n, level=level, **counts),
            chance(x, pairs - x, n, mpf(t), level),
        )
        assert abs(min(mine, 1) - min(third, 1)) < mpf("1e-12")
    assert abs(results.upper(x, n, level) - upper(x, n, level)) < mpf("1e-12")


@pytest.mark.parametrize(
    ("raw", "cell"),
    [
        *[
            (" a\t", "a"),
            ("+007", "7"),
            ("-0.000", "0"),
            ("1.", "1"),
            ("NaN", ""),
            ("-12", "-12"),
            ("1e3", "1e3"),
        ],
        *[
            ("\u0661", "\u0661"),
            ("1234567890123456", "1234567890123456"),
            ("\u00a0a", "\u00a0a"),
            ("0.50", "0.50"),
        ],
    ],
)
def test_cells_are_the_same_to_all(raw, cell):
    from ledger_writer import clean

    from codebound.holdout import answers

    assert canonical(raw) == clean(raw) == answers.canonical_cell(raw) == cell


def test_files_are_read_alike(tmp_path):
    from ledger_writer import hash_of

    text = '\ufefflabel, one ,two\r\n"a,b", x ,1.0\r\n\r\n"a ""b""",y,nan\r\n'
    (tmp_path / "made.csv").write_bytes(text.encode())
    found = room("table").read_table(f"{tmp_path / 'made.csv'}:label")
    assert found == {"label": ["a,b", 'a "b"'], "one": [" x ", "y"], "two": ["1.0", "nan"]}
    arrays = {
        "label": np.array([1, 2]),
        "one": np.array([True, False]),
        "two": np.array([0.1, 2], np.float32),
    }
    np.savez(tmp_path / "made.npz", **arrays, text=np.array(["a", "b "]), x=np.zeros((2, 3), ">f4"))
    for name in ("made.csv", "made.npz"):
        mine, own = room("table").read_table(str(tmp_path / name)), read_table(tmp_path / name)
        for column, cells in mine.items():
            assert column_hash([canonical(each) for each in cells]) == hash_of(cells)
            assert column_sha256(own.cells(column)) == hash_of(cells)


PIECES = [
    "a",
    "b",
    '"',
    '""',
    ",",
    "\n",
    "\r\n",
    "\r",
    " ",
    "\t",
    "01",
    "1.0",
    "nan",
    "-0",
    "\ufeff",
    "\u00e9",
]
PIECES += ["\0", "\x0b", "\x1c", "\x85", "\u2028", "\u00a0", '"a,b"', '"a\nb"', "'", "\\"]


def test_both_programs_read_the_same_rows_or_neither_does(tmp_path):
    draw, file, read = random.Random(3), tmp_path / "made.csv", 0
    for _ in range(1_000):
        text = "".join(draw.choice(PIECES) for _ in range(draw.randint(1, 12)))
        file.write_bytes((draw.choice(["", "label,x\n", "\n\n a \n"]) + text).encode())
        with suppress(DataError):
            mine = {name: column_sha256(cells) for name, cells in read_table(file).columns.items()}
            second = room("table").read_table(str(file))
            assert mine == {
                name: column_hash([canonical(c) for c in cells]) for name, cells in second.items()
            }
            read += 1
    assert read > 50
