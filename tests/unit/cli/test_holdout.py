"""``codebound holdout`` from a CSV of answers to the verdict of the second program, and an alarm."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.usefixtures("empty_folder")

ROWS = 1000


@pytest.fixture
def table(own_cache):
    """Answers of two prompts: a errs on 80 rows, b on 20 of them and 20 others."""
    lines = ["label,a,b,conf,question,topic,patient"]
    for i in range(ROWS):
        label, other = ("spam", "ham") if i % 2 else ("ham", "spam")
        a = other if i < 80 else label
        b = other if i < 20 or i >= ROWS - 20 else label
        lines.append(f"{label},{a},{b},{1 - i / ROWS},what is {i}?,{'xyz'[i % 3]},p{i // 4}")
    Path("answers.csv").write_text("\n".join(lines) + "\n")
    return "answers.ledger.jsonl"


def test_from_a_csv_to_the_verdict(table, codebound):
    plan = ("--look", "a", "--look", "b", "--better", "a,b", "--inputs", "question")
    code, _, err = codebound("holdout", "seal", "answers.csv:label", *plan)
    assert code == 0, err
    code, out, err = codebound("holdout", "look", table, "--best")
    assert code == 0
    assert "for all statements at once: b is wrong on at most 5.5" in err
    assert "as if nothing else had been looked at, it would be 5.18 %: no promise" in err
    code, out, err = codebound("holdout", "better", table, "a", "b", "--format", "json")
    record = json.loads(out)
    assert record["statements"][-1]["result"]["a_only"] == 60
    assert record["statements"][-1]["result"]["b_only"] == 20
    code, out, _ = codebound("verify", table, "--data", "answers.csv:label", "--head", record["head"])
    assert (code, out.split()[0]) == (0, "ACCEPT")
    code, out, _ = codebound("holdout", "show", table, "--format", "csv")
    assert out.splitlines()[1].startswith("2,look,yes,a is wrong on at most")
    codebound("holdout", "show", table, "--html", "page.html")
    assert "b" in Path("page.html").read_text()


def test_sixty_against_twenty_show_a_gain(table, codebound):
    codebound("holdout", "seal", "answers.csv:label", "--better", "a,b")
    _, out, _ = codebound("holdout", "better", table, "a", "b", "--format", "json")
    result = json.loads(out)["statements"][0]["result"]
    assert result["shown"]
    assert result["limit"] >= 0.019


def test_a_threshold_that_was_planned_needs_no_options(table, codebound):
    grid = ("--thresholds", "0.5,0.3,0.1", "--risk", "0.12")
    codebound("holdout", "seal", "answers.csv:label", "--abstain", "b,conf", *grid)
    code, _, err = codebound("holdout", "abstain", table, "b")
    assert code == 0, err
    assert "where conf is at least 0.1, b is wrong on at most 12 % of what it answers" in err
    code, _, err = codebound("holdout", "abstain", table, "a")
    assert (code, "name --scores and --thresholds" in err) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("seal", "answers.csv"), None),
        (("seal", "answers.csv:labl"), "has no column 'labl'"),
        (("seal", "answers.csv:label", "--looks", "many"), "a number, or open"),
        (("seal", "answers.csv:label"), "no cell of column 'conf' is a label"),
        (("seal", "answers.csv:label", "--better", "a"), "takes two columns with a comma"),
        (("seal", "answers.csv:label", "--abstain", "a,conf"), "needs --thresholds"),
        (
            ("seal", "answers.csv:label", "--look", "a", "--cluster", "patient"),
            "one random row of a new cluster",
        ),
        (("look", "none.jsonl", "a"), "cannot be read"),
        (("look", "none.jsonl"), "a look is at one column"),
        (("faithful", "answers.csv", "a", "c"), "has no column 'c'"),
        (("watch", "w.watch.jsonl", "answers.csv:label", "--answers", "a"), "needs `bound`"),
    ],
)
def test_what_cannot_be_done_says_why(table, codebound, arguments, says):
    if says is None:
        arguments, says = ("seal", "answers.csv", "--look", "a", "--group", "none"), "no column 'none'"
    code, _, err = codebound("holdout", *arguments)
    assert code != 0
    assert says in err
    assert len(err.strip().splitlines()) <= 2
    assert not list(Path().glob("*.jsonl"))


def test_a_stream_is_watched_until_the_alarm(own_cache, codebound, monkeypatch):
    rows = ["1,1"] * 1000 + ["1,0", "1,1", "1,1", "1,1"] * 200
    stream = Path("stream.csv")
    command = ("holdout", "watch", "live.watch.jsonl", "stream.csv:label", "--answers", "a")
    stream.write_text("label,a\n" + "\n".join(rows[:1000]) + "\n")
    code, _, err = codebound(*command, "--bound", 0.05)
    assert (code, "No alarm in 1000 labels." in err) == (0, True)
    stream.write_text("label,a\n" + "\n".join(rows) + "\n1")  # the last row is not whole yet
    code, out, err = codebound(*command, "--format", "json")
    record = json.loads(out)
    assert code == 3
    assert (record["labels"], record["new"]) == (1800, 800)
    assert 1000 < record["alarm"] < 1300
    code, _, err = codebound(*command)
    assert (code, f"ALARM at label {record['alarm']}" in err) == (3, True)
    assert codebound("verify", "live.watch.jsonl")[0] == 0
    code, _, err = codebound(*command, "--bound", 0.1)
    assert (code, "has bound 0.05 from its first line on, and not 0.1" in err) == (2, True)
    for words in (("--alpha", 0.05), ("--loss", "class:1"), ("--group", "a", "--groups", "0,1")):
        code, _, err = codebound(*command, *words)
        assert (code, "Other terms need a new file" in err) == (2, True)
    assert codebound(*command, "--alpha", 0.01, "--bound", 0.05)[0] == 3


def test_a_certified_error_is_watched(table, codebound):
    codebound("holdout", "seal", "answers.csv:label", "--look", "b")
    codebound("holdout", "look", table, "b")
    Path("stream.csv").write_text("wrong\n" + "0\n" * 50)
    code, _, err = codebound("holdout", "watch", "w.watch.jsonl", "stream.csv:wrong", "--certificate", table)
    assert code == 0, err
    assert "is at most 0.06: 0.01 and 0.05" in err
    again = ("holdout", "watch", "v.watch.jsonl", "stream.csv:wrong", "--certificate", table)
    code, _, err = codebound(*again, "--loss", "class:1")
    assert (code, "is about another loss or claim" in err) == (2, True)
    code, _, err = codebound(*again, "--group", "wrong", "--groups", "0,1")
    assert (code, "proves no error of each group" in err) == (2, True)
    assert not Path("v.watch.jsonl").exists()


def test_the_certificate_of_a_watch_is_about_the_column_that_is_watched(table, codebound):
    codebound("holdout", "seal", "answers.csv:label", "--look", "a", "--look", "b")
    codebound("holdout", "look", table, "--best")
    limits = {
        each["column"]["name"]: each["result"]["bound"]
        for each in map(json.loads, Path(table).read_text().splitlines()[1:])
    }
    assert limits["b"] < limits["a"]
    for number, (answers, proved) in enumerate((("a", limits["a"]), ("b", limits["b"]))):
        watch = f"{number}.watch.jsonl"
        code, _, err = codebound(
            "holdout", "watch", watch, "answers.csv:label", "--answers", answers, "--certificate", table
        )
        assert code in (0, 3), err  # it alarms: all errors come first
        assert json.loads(Path(watch).read_text().splitlines()[0])["bound"] == pytest.approx(proved, rel=1e-3)
    Path("stream.csv").write_text("wrong\n0\n")  # of a or of b: nothing says so
    again = ("holdout", "watch", "c.watch.jsonl", "stream.csv:wrong", "--certificate", table)
    assert codebound(*again)[0] == 0
    kept = json.loads(Path("c.watch.jsonl").read_text().splitlines()[0])["bound"]
    assert limits["a"] <= kept < 1.001 * limits["a"]
    assert len(repr(kept)) <= len("0.09999")
    code, _, err = codebound(*again[:2], "d.watch.jsonl", *again[3:], "--bound", limits["a"] - 0.01)
    assert (code, "and not the bound" in err) == (2, True)
    assert not Path("d.watch.jsonl").exists()


def test_predictions_and_weights_are_columns_too(own_cache, codebound):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(300, 4)).astype("f4"), rng.integers(0, 3, 300)
    np.savez("test.npz", x=x, y=y)
    np.save("good.npy", np.where(np.arange(300) < 15, (y + 1) % 3, y))
    codebound("holdout", "seal", "test.npz", "--looks", 5)
    code, _, err = codebound("holdout", "look", "test.ledger.jsonl", "good.npy")
    assert (code, "good.npy is wrong on at most" in err) == (0, True)
    codebound("train", "linear", "--data", "test.npz", "--epochs", "1", "--out", "f")
    network = ("f/model.safetensors", "--model", "linear")
    code, _, err = codebound("holdout", "look", "test.ledger.jsonl", *network)
    assert code == 0, err
    assert codebound("verify", "test.ledger.jsonl", "--data", "test.npz")[0] == 0
    code, _, err = codebound(
        "holdout",
        "faithful",
        "test.npz",
        "f/model.safetensors",
        "good.npy",
        "--model",
        "linear",
        "--out",
        "same.ledger.jsonl",
    )
    assert code == 0, err
    np.savez("other.npz", x=-x, y=y)
    np.save("short.npy", y[1:])
    code, _, err = codebound(
        "holdout", "seal", "other.npz", "--look", "good.npy", "--better", "good.npy,short.npy"
    )
    assert (code, "short.npy has 299 answers, and other.npz has 300 rows" in err) == (1, True)
    code, _, err = codebound("holdout", "seal", "other.npz", "--look", "good.npy")
    assert code == 0, err
    assert codebound("holdout", "look", "other.ledger.jsonl", "good.npy", "--format", "json")[0] == 0


def test_how_often_a_compressed_one_answers_unlike_the_original(table, codebound):
    code, _, err = codebound("holdout", "faithful", "answers.csv", "a", "b")
    assert code == 0
    assert "b answers unlike the original on at most 9." in err
    watch = ("holdout", "watch", "w.watch.jsonl", "answers.csv:label", "--answers", "b")
    code, _, err = codebound(*watch, "--certificate", table)
    assert (code, "is about another loss or claim" in err) == (2, True)  # of the original, not of labels


def test_a_thousand_answers_take_less_than_a_second_without_torch(table):
    program = (
        "import sys, time; sys.modules['torch'] = None\n"
        "from codebound.cli.main import main\n"
        "for words in ('holdout seal answers.csv:label --look a', 'holdout look answers.ledger.jsonl a',\n"
        "              'verify answers.ledger.jsonl --data answers.csv:label'):\n"
        "    sys.argv = ['codebound', *words.split()]\n"
        "    try:\n        main()\n    except SystemExit as done:\n        assert not done.code\n"
        "print(time.process_time())"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "ACCEPT" in done.stdout
    assert float(done.stdout.split()[-1]) < 1.0


def test_answers_that_are_no_label_are_counted_aloud(table, codebound):
    text = Path("answers.csv").read_text().replace("spam,spam,ham", "spam,Spam.,")
    Path("answers.csv").write_text(text)
    code, _, err = codebound("holdout", "seal", "answers.csv:label", "--look", "a", "--look", "b")
    assert code == 0
    assert "a: 10 of its answers are no label, and count as errors." in err
    assert "b: 10 of its answers are no label" in err


def test_new_rows_come_through_a_pipe(own_cache, empty_folder):
    command = [sys.executable, "-m", "codebound", "holdout", "watch", "live.watch.jsonl", "stdin:wrong"]
    for rows, status in (("0\n" * 300, 0), ("1\n0\n" * 60, 3), ("0\n", 3)):
        first = ["--bound", "0.05"] if not Path("live.watch.jsonl").exists() else []
        done = subprocess.run([*command, *first], input="wrong\n" + rows, text=True, capture_output=True)
        assert done.returncode == status, done.stderr
    assert "421, 1 of them new; 60 wrong" in done.stdout
