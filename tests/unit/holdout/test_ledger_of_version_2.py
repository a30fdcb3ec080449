"""Ledgers of version 2: tables of classes, costs above a limit, and values; told, paid for, and forged."""

import json

import numpy as np
import pytest
import torch
from scipy.stats import beta
from worlds.files import rechained, sha256_of

from codebound.holdout.from_files import load_values, predicted_values
from codebound.holdout.sealed import SealSettings, Values, look, seal
from codebound.run.errors import DataError, UsageError
from codebound.sample.losses import parse_fault
from codebound_verify.holdout.ledger import verify_ledger

N, CLASSES = 400, 4


pytestmark = pytest.mark.usefixtures("own_cache")


def scores(data, errors: int = 30) -> torch.Tensor:
    """What a network says that errs on the first examples."""
    told = data.y.copy()
    told[:errors] = (told[:errors] + 1) % 3
    return torch.nn.functional.one_hot(torch.from_numpy(told), CLASSES).double()


def limit(errors: int, n: int, level: float) -> float:
    return 1.0 if errors == n else float(beta.ppf(1.0 - level, errors + 1, n - errors))


def sealed(tmp_path, data, **plan):
    path = tmp_path / "made.looks.jsonl"
    seal(data, SealSettings(**plan), path)
    return path


def test_a_table_of_classes_holds_at_once_with_the_bound(tmp_path, data):
    path = sealed(tmp_path, data, by_class=True)
    after = look(path, data, scores(data), name="a", identity=sha256_of("a"))
    (line,) = after.looks
    assert after.seal["version"] == 2
    assert line["bound"] == pytest.approx(limit(30, N, 0.025), rel=1e-9)
    sizes = np.bincount(data.y, minlength=CLASSES)
    wrong = np.bincount(data.y[:30], minlength=CLASSES)
    for (errors, bound), expected, size in zip(line["by_class"], wrong, sizes, strict=True):
        assert errors == expected
        if size:
            assert bound == pytest.approx(limit(int(expected), int(size), 0.025 / CLASSES), rel=1e-9)
        else:
            assert bound is None
    assert verify_ledger(path.read_bytes(), data=(data.x, data.y)).is_accepted


def test_answers_with_a_table_cost_more(tmp_path, data):
    path = sealed(tmp_path, data, by_class=True, looks=2, answers="exact")
    look(path, data, scores(data), name="a", identity=sha256_of("a"))
    last = look(path, data, scores(data, 20), name="b", identity=sha256_of("b")).looks[-1]
    sizes = np.bincount(data.y, minlength=CLASSES)
    assert last["answer_bits"] == pytest.approx(np.log2(sizes + 1.0).sum())


def test_levels_tell_the_table_at_the_end_alone(tmp_path, data):
    path = sealed(tmp_path, data, by_class=True, looks=5)
    first = look(path, data, scores(data), name="a", identity=sha256_of("a")).looks[-1]
    assert (first["by_class"], first["bound"] is None) == (None, False)
    last = look(path, data, scores(data, 20), name="b", identity=sha256_of("b"), is_final=True).looks[-1]
    assert sum(errors for errors, _ in last["by_class"]) == 20


def test_a_cost_above_a_limit_is_a_fault_like_others(tmp_path, data):
    path = sealed(tmp_path, data, fault=parse_fault("cost-above:1:distance"), looks=3)
    after = look(path, data, scores(data), name="a", identity=sha256_of("a"), is_final=True)
    told = (data.y[:30] + 1) % 3
    assert after.looks[-1]["answer"] == int((np.abs(told - data.y[:30]) > 1).sum())


@pytest.fixture
def values(tmp_path):
    rng = np.random.default_rng(1)
    x = rng.normal(size=(N, 2))
    np.savez(tmp_path / "values.npz", x=x, y=x.sum(axis=1))
    return load_values(str(tmp_path / "values.npz"))


def test_residuals_are_counted_on_values(tmp_path, values):
    path = tmp_path / "values.looks.jsonl"
    seal(values, SealSettings(fault=parse_fault("residual:0.5"), target=0.2), path)
    off = values.y.copy()
    off[:40] += 1.0
    off[40] = np.nan
    off[41] = values.y[41] + 0.5 * (1 - 1e-12)  # just within
    np.save(tmp_path / "told.npy", off)
    told = torch.from_numpy(predicted_values(tmp_path / "told.npy"))
    (line,) = look(path, values, told, name="a", identity=sha256_of("a")).looks
    assert (line["answer"], line["meets"]) == (41, True)
    assert line["bound"] == pytest.approx(limit(41, N, 0.05), rel=1e-9)
    verdict = verify_ledger(path.read_bytes(), data=(values.x, values.y))
    assert (verdict.reasons, verdict.fault) == ((), "residual:0.5")
    wrong = verify_ledger(path.read_bytes(), data=(values.x, values.y + 1.0))
    assert "sealed were" in wrong.reasons[0]


def test_what_is_no_value_is_refused(tmp_path, values):
    np.savez(tmp_path / "bad.npz", x=values.x, y=np.where(np.arange(N) == 3, np.nan, values.y))
    with pytest.raises(DataError, match="finite"):
        load_values(str(tmp_path / "bad.npz"))
    with pytest.raises(DataError, match="No such file"):
        load_values(str(tmp_path / "none.npz"))
    np.save(tmp_path / "two.npy", np.zeros((N, 2)))
    with pytest.raises(DataError, match="one number"):
        predicted_values(tmp_path / "two.npy")
    with pytest.raises(UsageError, match="no classes"):
        SealSettings(fault=parse_fault("residual:1"), by_class=True)
    with pytest.raises(UsageError, match="unknown fault"):
        parse_fault("residual:0")
    with pytest.raises(UsageError, match="PickToLearn"):
        parse_fault("residual:0.1", classes=3)
    assert isinstance(values, Values)


def put(where: str, value):
    def change(lines):
        *path, last = where.split(".")
        record = lines[int(path[0])]
        for key in path[1:]:
            record = record[int(key) if isinstance(record, list) else key]
        record[int(last) if isinstance(record, list) else last] = value(
            record[int(last) if isinstance(record, list) else last]
        )

    return change


FORGED = {
    "a class with fewer errors": ("by_class", put("1.by_class.0.0", lambda v: v - 1), "class 0"),
    "a class with a smaller bound": ("by_class", put("1.by_class.1.1", lambda v: v * 0.9), "class 1"),
    "no table": ("by_class", put("1.by_class", lambda v: None), "promises one"),
    "a class left out": ("by_class", put("1.by_class", lambda v: v[:-1]), "table of 3 classes"),
    "other sizes": ("by_class", put("0.by_class", lambda v: [v[0] + 1, *v[1:]]), "adds up to"),
    "a bound at the whole level": (
        "by_class",
        put("1.bound", lambda v: limit(30, N, 0.05)),
        "prints the bound",
    ),
    "a tally": ("cost-above:1:distance", put("1.tally", lambda v: {"kept": N}), "out of range: tally"),
    "fewer that cost too much": (
        "cost-above:1:distance",
        put("1.answer", lambda v: v - 1),
        "prints the bound",
    ),
    "version 1": ("cost-above:1:distance", put("0.version", lambda v: 1), "keys"),
    "other costs": ("cost-above:1:distance", put("0.fault", lambda v: "cost-above:0:01,10"), "does not fit"),
}


@pytest.mark.parametrize("name", FORGED)
def test_a_forged_line_is_refused(name, tmp_path, data):
    kind, change, reason = FORGED[name]
    plan = {"by_class": True} if kind == "by_class" else {"fault": parse_fault(kind)}
    path = sealed(tmp_path, data, **plan)
    look(path, data, scores(data), name="a", identity=sha256_of("a"))
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert verify_ledger(rechained(lines)).is_accepted
    change(lines)
    verdict = verify_ledger(rechained(lines))
    assert verdict.verdict == "REFUSE"
    assert any(reason in each for each in verdict.reasons), verdict.reasons
