"""A sealed test set: what a ledger holds, and every way to tamper with it, lose it or spend it."""

import hashlib
import json
import operator
import shutil
from functools import reduce

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import beta
from worlds.files import rechained, sha256_of

from codebound.bounds.facts import LookFacts
from codebound.bounds.held_out import looked_risk
from codebound.holdout.from_files import load_predictions, load_scores, load_values
from codebound.holdout.ledger import read_ledger
from codebound.holdout.sealed import SealSettings, Values, identity, look, seal
from codebound.run.errors import CertificateError, DataError, FormatError, UsageError
from codebound.sample.arrays import from_arrays
from codebound.sample.losses import parse_loss
from codebound_verify.holdout.ledger import verify_ledger

N, COST = 400, "cost-above:1:distance"


pytestmark = pytest.mark.usefixtures("own_cache")


def scores(data, errors: int) -> torch.Tensor:
    """What a network says that errs on the first examples."""
    told = data.y.copy()
    told[:errors] = (told[:errors] + 1) % 3
    return torch.nn.functional.one_hot(torch.from_numpy(told), 4).double()


def tried(path, data, name: str, errors: int, **options):
    return look(path, data, scores(data, errors), name=name, identity=sha256_of(name), **options)


def sealed(tmp_path, data, **plan):
    path = tmp_path / "made.looks.jsonl"
    seal(data, SealSettings(**plan), path)
    return path


@pytest.fixture
def data():
    """400 examples of four classes, with labels of three of them."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(400, 3)).astype("f4"), rng.integers(0, 3, 400)
    return from_arrays(x, y, name="made", role="test", classes=4)


@pytest.fixture
def path(tmp_path, data):
    """A ledger with three looks by levels, the second of them in vain."""
    path = sealed(tmp_path, data, looks=10, target=0.2, step=0.01)
    for name, errors in (("a", 40), ("b", 60), ("c", 18)):
        tried(path, data, name, errors)
    return path


def reasons(content: bytes, **options) -> str:
    verdict = verify_ledger(content, **options)
    assert verdict.verdict == "REFUSE"
    return " ".join(verdict.reasons)


def test_a_look_tells_a_level_or_that_nothing_was_better(path):
    answers = [each["answer"] for each in read_ledger(path).looks]
    assert answers == [40, None, 20]


def test_bounds_are_those_of_the_statement(path):
    first, second, third = read_ledger(path).looks
    told = {"n": N, "delta": 0.05, "looks": 10}
    assert first["bound"] == looked_risk(LookFacts(errors=40, **told)).value
    assert second["bound"] is None
    # improvement (1 of 2) to one of 100 levels, then none (1 of 4)
    paid = float(np.log2(2 * 100 * 4))
    assert third["answer_bits"] == pytest.approx(paid)
    bound = looked_risk(LookFacts(errors=20, number=3, answer_bits=paid, **told)).value
    assert third["bound"] == pytest.approx(bound, rel=1e-9)
    assert [each["meets"] for each in (first, second, third)] == [True, None, True]


def test_the_second_program_accepts_it_and_the_data(path, data):
    verdict = verify_ledger(path.read_bytes(), data=(data.x, data.y), head=read_ledger(path).head)
    assert verdict.is_accepted
    assert (verdict.looks, verdict.best_model, verdict.is_met, verdict.is_final) == (3, "c", True, False)


def test_networks_that_the_seal_lists_pay_for_no_answers(tmp_path, data):
    path = sealed(tmp_path, data, looks=5, models=tuple(sha256_of(str(i)) for i in range(5)))
    for i in range(5):
        last = tried(path, data, str(i), 20 + i).looks[-1]
        assert (last["listed"], last["answer"], last["answer_bits"]) == (True, 20 + i, 0.0)
        assert last["bound"] == looked_risk(LookFacts(errors=20 + i, n=N, delta=0.05, looks=5)).value
    with pytest.raises(UsageError, match="spent or kept"):
        tried(path, data, "another", 3)


def test_exact_answers_are_paid_by_whoever_comes_later(tmp_path, data):
    path = sealed(tmp_path, data, looks=3, answers="exact")
    tried(path, data, "a", 20)
    last = tried(path, data, "b", 17).looks[-1]
    assert (last["answer"], last["answer_bits"]) == (17, pytest.approx(np.log2(N + 1)))


def test_one_look_is_the_hold_out_limit(tmp_path, data):
    path = sealed(tmp_path, data)
    (only,) = tried(path, data, "a", 20).looks
    assert (only["answer"], only["bound"]) == (20, looked_risk(LookFacts(errors=20, n=N, delta=0.05)).value)
    with pytest.raises(UsageError, match="the 1 look that was planned is spent"):
        tried(path, data, "b", 19)


def test_pass_or_fail_costs_little_and_meets_the_target_when_it_passes(tmp_path, data):
    path = tmp_path / "pass.jsonl"
    (level,) = seal(data, SealSettings(looks=20, answers="pass", target=0.1), path).seal["levels"]
    for i in range(18):
        assert tried(path, data, str(i), level + 1).looks[-1]["answer"] is None
    passed = tried(path, data, "good", level).looks[-1]
    assert (passed["answer"], passed["meets"]) == (level, True)
    assert passed["answer_bits"] < 4.0


def test_a_target_out_of_reach_is_refused_at_the_seal(tmp_path, data):
    with pytest.raises(UsageError, match="not even without an error"):
        seal(data, SealSettings(looks=20, answers="pass", target=0.01), tmp_path / "pass.jsonl")


def test_a_final_look_tells_the_errors_and_closes(path, data):
    last = tried(path, data, "c", 18, is_final=True).looks[-1]
    assert (last["answer"], last["final"]) == (18, True)
    assert verify_ledger(path.read_bytes()).is_final
    with pytest.raises(UsageError, match="closed"):
        tried(path, data, "d", 1)


@pytest.mark.thorough
def test_an_open_plan_goes_on(tmp_path, data):
    path = sealed(tmp_path, data, looks=None)
    for i in range(30):
        ledger = tried(path, data, str(i), 200 - i)
    assert len(ledger.looks) == 30


def test_a_network_is_tried_once(path, data):
    with pytest.raises(UsageError, match="look 1 was at this very network"):
        tried(path, data, "a", 40)


# tampering


@pytest.mark.parametrize("gone", [0, 1, 2])
def test_a_line_that_was_removed_is_noticed(path, gone):
    lines = path.read_bytes().splitlines(keepends=True)
    assert "line" in reasons(b"".join(lines[:gone] + lines[gone + 1 :]))


def test_lines_in_another_order_are_noticed(path):
    lines = path.read_bytes().splitlines(keepends=True)
    assert "does not follow" in reasons(b"".join([lines[0], lines[2], lines[1], lines[3]]))


@pytest.mark.parametrize(
    ("key", "value"),
    [("target", 0.3), ("delta", 0.1), ("looks", 3), ("levels", [50, 40, 30]), ("fault", "top:2")],
)
def test_a_seal_that_was_changed_afterwards_is_noticed(path, key, value):
    head = read_ledger(path).head
    seal_line, *looks = map(json.loads, path.read_bytes().splitlines())
    changed = json.dumps({**seal_line, key: value}, sort_keys=True, separators=(",", ":")).encode()
    rest = path.read_bytes().split(b"\n", 1)[1]
    assert "does not follow" in reasons(changed + b"\n" + rest)
    forged = rechained([{**seal_line, key: value}, *looks])
    assert verify_ledger(forged, head=head).verdict == "REFUSE"


@pytest.mark.parametrize(
    ("place", "change", "says"),
    [
        (3, {"bound": 0.05}, "prints the bound"),
        (3, {"answer_bits": 0.0}, "charges 0.0 bits"),
        (3, {"listed": True, "answer_bits": 0.0}, "the seal does not"),
        (3, {"answer": 44}, "prints the bound"),
        (3, {"meets": False}, "meets"),
        (2, {"bound": 0.5}, "no answer"),
        (1, {"answer": 41}, "prints the bound"),
        (3, {"answer": None, "bound": None, "meets": None, "final": True}, "is not the last"),
        (1, {"final": True}, "lines follow"),
        (3, {"date": "2020-01-01T00:00:00Z"}, "dated before"),
        (3, {"answer": 401}, "out of range: answer"),
        (3, {"answer": True}, "out of range: answer"),
        (3, {"extra": 1}, "with the keys"),
        (0, {"n": 500}, "out of range: examples"),
        (0, {"delta": 0}, "out of range: delta"),
        (0, {"models": ["00" * 32] * 2}, "out of range: models"),
        (0, {"looks": None, "models": ["00" * 32]}, "more networks"),
        (0, {"levels": [10, 20]}, "must be whole numbers that fall"),
        (0, {"fault": "class:4"}, "does not fit"),
        (0, {"version": 3}, "out of range: version"),
    ],
)
def test_a_forged_line_with_the_right_hashes_is_refused(path, place, change, says):
    lines = [json.loads(line) for line in path.read_bytes().splitlines()]
    lines[place] = {**lines[place], **change}
    assert says in reasons(rechained(lines))


def test_a_look_more_than_planned_is_refused(path):
    lines = [json.loads(line) for line in path.read_bytes().splitlines()]
    lines[0]["looks"] = 2
    first = looked_risk(LookFacts(errors=40, n=N, delta=0.05, looks=2)).value
    lines[1]["bound"] = first
    assert "more than were planned" in reasons(rechained(lines))


@pytest.mark.parametrize(
    "content", [b"", b"\n", b"{}\n", b"[]\n", b"{", b"\xff\n", b'{"a": 1}\n', b"[" * 9999 + b"\n"]
)
def test_what_is_no_ledger_is_refused(content):
    assert verify_ledger(content).verdict == "REFUSE"


def test_a_ledger_cut_at_its_end_is_noticed_by_the_head(path):
    head = read_ledger(path).head
    shortened = b"".join(path.read_bytes().splitlines(keepends=True)[:-1])
    assert verify_ledger(shortened).is_accepted  # nothing in it shows what is missing
    assert "no line has that hash" in reasons(shortened, head=head)


# copies


def test_the_same_examples_are_not_sealed_twice(path, tmp_path, data):
    with pytest.raises(UsageError, match=r"sealed before: .* has 3 looks"):
        seal(data, SealSettings(), tmp_path / "again.jsonl")
    with pytest.raises(UsageError, match="never replaced"):
        seal(data, SealSettings(), path)


@pytest.mark.parametrize("form", ["another order", "float64", "minus zeros"])
def test_the_same_examples_are_not_sealed_again_in_another_form(form, tmp_path):
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 9, (400, 5)).astype("u1"), rng.integers(0, 3, 400)
    first = from_arrays(x, y, name="made", role="test", classes=3)
    seal(first, SealSettings(), tmp_path / "first.jsonl")
    order = rng.permutation(400)
    other = {
        "another order": (x[order], y[order]),
        "float64": (x.astype("f8"), y),
        "minus zeros": (np.where(x, x, -0.0).astype("f4")[order], y[order]),
    }[form]
    with pytest.raises(UsageError, match="sealed before"):
        seal(from_arrays(*other, name="again", role="test"), SealSettings(), tmp_path / "again.jsonl")
    assert not (tmp_path / "again.jsonl").exists()
    others = from_arrays(x, (y + 1) % 3, name="other labels", role="test")
    seal(others, SealSettings(), tmp_path / "other.jsonl")


def test_values_are_not_sealed_again_in_another_order(tmp_path):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(400, 2)), rng.normal(size=400)
    settings = SealSettings(loss=parse_loss("residual:0.1"))
    seal(Values("first", x, y), settings, tmp_path / "first.jsonl")
    with pytest.raises(UsageError, match="sealed before"):
        seal(Values("again", x[::-1].copy(), y[::-1].copy()), settings, tmp_path / "again.jsonl")


def test_an_older_copy_of_a_ledger_cannot_be_looked_through(path, tmp_path, data):
    copy = tmp_path / "copy.looks.jsonl"
    shutil.copy(path, copy)
    tried(path, data, "d", 10)
    with pytest.raises(UsageError, match="lacks a look"):
        tried(copy, data, "e", 10)
    assert len(read_ledger(copy).looks) == 3


def test_a_look_that_this_machine_did_not_remember_is_remembered_by_the_next(path, tmp_path, data):
    """As after a kill between the two files: what was left goes, and an older copy is refused."""
    copy = tmp_path / "copy.looks.jsonl"
    shutil.copy(path, copy)
    (memory,) = (tmp_path / "cache" / "sealed").iterdir()
    before = memory.read_bytes()
    tried(path, data, "d", 10)
    memory.write_bytes(before)
    memory.with_name(f".{memory.name}.0.partial").write_bytes(b"half")
    with pytest.raises(UsageError, match="this very network"):
        tried(path, data, "d", 10)  # the plan allows no second look at it
    assert [each.name for each in memory.parent.iterdir()] == [memory.name]
    with pytest.raises(UsageError, match="lacks a look"):
        tried(copy, data, "e", 10)


def test_a_ledger_from_another_machine_goes_on_here(path, data, tmp_path, monkeypatch):
    monkeypatch.setenv("CODEBOUND_CACHE", str(tmp_path / "elsewhere"))
    assert len(tried(path, data, "d", 20).looks) == 4


def test_a_damaged_ledger_stops_the_look_before_it_is_made(path, data):
    path.write_bytes(path.read_bytes().replace(b'"delta":0.05', b'"delta":0.5'))
    with pytest.raises(FormatError, match="does not follow"):
        tried(path, data, "d", 20)


def test_other_examples_are_refused(path, data):
    other = from_arrays(data.x + 1, data.y, name="other", role="test", classes=4)
    with pytest.raises(DataError, match=r"not what .* seals"):
        tried(path, other, "d", 20)
    assert "sealed were 400" in reasons(path.read_bytes(), data=(other.x, other.y))


def test_examples_that_were_repeated_are_no_test_set(tmp_path, data):
    twice = data.select([*range(N), *range(5)], role="test")
    with pytest.raises(CertificateError, match="5 examples of 405 occur before, more than one in 100"):
        seal(twice, SealSettings(), tmp_path / "twice.jsonl")
    assert not (tmp_path / "twice.jsonl").exists()
    assert seal(twice, SealSettings(), tmp_path / "twice.jsonl", allow_copies=True).seal["n"] == N + 5


# losses


def test_a_class_has_its_own_examples(tmp_path, data):
    path, ones = tmp_path / "class.jsonl", int((data.y == 1).sum())
    assert seal(data, SealSettings(loss=parse_loss("class:1")), path).seal["n"] == ones
    wrong = int((data.y[:90] == 1).sum())
    (only,) = tried(path, data, "a", 90).looks
    assert only["answer"] == wrong
    assert verify_ledger(path.read_bytes(), data=(data.x, data.y)).is_accepted
    lines = [json.loads(line) for line in path.read_bytes().splitlines()]
    lines[0]["n"] += 1
    lines[1]["bound"] = looked_risk(LookFacts(errors=wrong, n=ones + 1, delta=0.05)).value
    assert "is about" in reasons(rechained(lines), data=(data.x, data.y))


def test_a_class_without_examples_says_so(tmp_path, data):
    with pytest.raises(DataError, match="no example that the loss class:3 is about"):
        seal(data, SealSettings(loss=parse_loss("class:3")), tmp_path / "none.jsonl")


def test_a_loss_that_never_occurs_is_bounded_by_its_examples(tmp_path, data):
    path = sealed(tmp_path, data, loss=parse_loss("confused:2:3"))
    (only,) = tried(path, data, "a", 50).looks
    assert only["answer"] == 0
    assert only["bound"] == pytest.approx(1.0 - 0.05 ** (1.0 / int((data.y == 2).sum())), rel=1e-9)


# tables of classes, costs above a limit, and values


def limit(errors: int, n: int, level: float) -> float:
    return 1.0 if errors == n else float(beta.ppf(1.0 - level, errors + 1, n - errors))


def test_a_table_of_classes_holds_at_once_with_the_bound(tmp_path, data):
    path = sealed(tmp_path, data, by_class=True)
    after = tried(path, data, "a", 30)
    (line,) = after.looks
    assert after.seal["version"] == 2
    assert line["bound"] == pytest.approx(limit(30, N, 0.025), rel=1e-9)
    sizes = np.bincount(data.y, minlength=4)
    wrong = np.bincount(data.y[:30], minlength=4)
    for (errors, bound), expected, size in zip(line["by_class"], wrong, sizes, strict=True):
        assert errors == expected
        if size:
            assert bound == pytest.approx(limit(int(expected), int(size), 0.025 / 4), rel=1e-9)
        else:
            assert bound is None
    assert verify_ledger(path.read_bytes(), data=(data.x, data.y)).is_accepted


def test_answers_with_a_table_cost_more(tmp_path, data):
    path = sealed(tmp_path, data, by_class=True, looks=2, answers="exact")
    tried(path, data, "a", 30)
    last = tried(path, data, "b", 20).looks[-1]
    sizes = np.bincount(data.y, minlength=4)
    assert last["answer_bits"] == pytest.approx(np.log2(sizes + 1.0).sum())


def test_levels_tell_the_table_at_the_end_alone(tmp_path, data):
    path = sealed(tmp_path, data, by_class=True, looks=5)
    first = tried(path, data, "a", 30).looks[-1]
    assert (first["by_class"], first["bound"] is None) == (None, False)
    last = tried(path, data, "b", 20, is_final=True).looks[-1]
    assert sum(errors for errors, _ in last["by_class"]) == 20


def test_a_cost_above_a_limit_is_a_loss_like_others(tmp_path, data):
    path = sealed(tmp_path, data, loss=parse_loss(COST), looks=3)
    after = tried(path, data, "a", 30, is_final=True)
    told = (data.y[:30] + 1) % 3
    assert after.looks[-1]["answer"] == int((np.abs(told - data.y[:30]) > 1).sum())


def test_costs_are_spelled_without_those_of_a_class_for_itself(tmp_path, data):
    path = sealed(tmp_path, data, loss=parse_loss("cost-above:1:0111,2022,3303,1230"), looks=3)
    tried(path, data, "a", 30, is_final=True)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert lines[0]["fault"] == "cost-above:1:111222333123"
    verdict = verify_ledger(path.read_bytes(), data=(data.x, data.y))
    assert (verdict.verdict, verdict.loss) == ("ACCEPT", lines[0]["fault"])
    for spelling in ("0111202233031230", "11122233312", "distances", "1" * 20, ""):
        lines[0]["fault"] = f"cost-above:1:{spelling}"
        assert "does not fit" in reasons(rechained(lines))


def test_a_table_with_gaps_is_sealed_and_found_again(tmp_path, capsys):
    from codebound_verify.__main__ import main as second

    rng = np.random.default_rng(2)
    x, y = rng.normal(size=(N, 3)), rng.integers(0, 3, N)
    x[::7, 1] = np.nan
    cells = from_arrays(x, y, name="gaps", role="test", classes=4)
    assert cells.is_cells
    path = sealed(tmp_path, cells)
    tried(path, cells, "a", 30)
    np.savez(tmp_path / "gaps.npz", x=cells.x, y=y, cells=np.array(True))
    np.savez(tmp_path / "plain.npz", x=cells.x, y=y)
    assert second([str(path), "--data", str(tmp_path / "gaps.npz")]) == 0
    assert "the data are the examples that were sealed" in capsys.readouterr().out
    assert second([str(path), "--data", str(tmp_path / "plain.npz")]) == 1


@pytest.fixture
def values(tmp_path):
    rng = np.random.default_rng(1)
    x = rng.normal(size=(N, 2))
    np.savez(tmp_path / "values.npz", x=x, y=x.sum(axis=1))
    return load_values(str(tmp_path / "values.npz"))


def test_residuals_are_counted_on_values(tmp_path, values):
    path = sealed(tmp_path, values, loss=parse_loss("residual:0.5"), target=0.2)
    off = values.y.copy()
    off[:40] += 1.0
    off[40] = np.nan
    off[41] = values.y[41] + 0.5 * (1 - 1e-12)  # just within
    np.save(tmp_path / "told.npy", off)
    told = torch.from_numpy(load_predictions(tmp_path / "told.npy"))
    (line,) = look(path, values, told, name="a", identity=sha256_of("a")).looks
    assert (line["answer"], line["meets"]) == (41, True)
    assert line["bound"] == pytest.approx(limit(41, N, 0.05), rel=1e-9)
    verdict = verify_ledger(path.read_bytes(), data=(values.x, values.y))
    assert (verdict.reasons, verdict.loss) == ((), "residual:0.5")
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
        load_predictions(tmp_path / "two.npy")
    with pytest.raises(UsageError, match="no classes"):
        SealSettings(loss=parse_loss("residual:1"), by_class=True)
    with pytest.raises(UsageError, match="unknown loss"):
        parse_loss("residual:0")
    with pytest.raises(UsageError, match="PickToLearn"):
        parse_loss("residual:0.1", classes=3)


@pytest.mark.parametrize(
    ("kind", "where", "changed", "reason"),
    [
        ("by_class", "1.by_class.0.0", lambda v: v - 1, "class 0"),
        ("by_class", "1.by_class.1.1", lambda v: v * 0.9, "class 1"),
        ("by_class", "1.by_class", lambda v: None, "promises one"),
        ("by_class", "1.by_class", lambda v: v[:-1], "table of 3 classes"),
        ("by_class", "0.by_class", lambda v: [v[0] + 1, *v[1:]], "adds up to"),
        ("by_class", "1.bound", lambda v: limit(30, N, 0.05), "prints the bound"),
        (COST, "1.tally", lambda v: {"kept": N}, "out of range: tally"),
        (COST, "1.answer", lambda v: v - 1, "prints the bound"),
        (COST, "0.version", lambda v: 1, "keys"),
        (COST, "0.fault", lambda v: "cost-above:0:01,10", "does not fit"),
    ],
)
def test_a_forged_table_or_loss_is_refused(kind, where, changed, reason, tmp_path, data):
    plan = {"by_class": True} if kind == "by_class" else {"loss": parse_loss(kind)}
    path = sealed(tmp_path, data, **plan)
    tried(path, data, "a", 30)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert verify_ledger(rechained(lines)).is_accepted
    *places, last = (int(key) if key.isdecimal() else key for key in where.split("."))
    record = reduce(operator.getitem, places, lines)
    record[last] = changed(record[last])
    assert reason in reasons(rechained(lines))


# plans and files that make no sense


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"looks": 0}, "from 1 on"),
        ({"delta": 0.0}, "delta"),
        ({"target": 1.5}, "target"),
        ({"answers": "pass"}, "need a target"),
        ({"answers": "some"}, "levels, exact, pass"),
        ({"answers": "exact", "step": 0.1}, "for answers by levels"),
        ({"looks": 1, "models": ("a" * 64, "b" * 64)}, "as many looks"),
        ({"looks": None, "models": ("a" * 64,)}, "as many looks"),
    ],
)
def test_plans_that_make_no_sense_are_refused(options, says):
    with pytest.raises(UsageError, match=says):
        SealSettings(**options)


def test_predictions_are_classes_or_scores(tmp_path):
    file = tmp_path / "p.npy"
    np.save(file, np.array([2, 0]))
    assert load_scores(file, 3).tolist() == [[0, 0, 1], [1, 0, 0]]
    np.save(file, np.array([[0.1, 0.2], [0.3, 0.1]]))
    assert load_scores(file, 2).tolist() == [[0.1, 0.2], [0.3, 0.1]]
    for wrong in (np.array([3]), np.array([-1]), np.array([0.5]), np.zeros((2, 4)), np.array(["a"])):
        np.save(file, wrong)
        with pytest.raises(DataError):
            load_scores(file, 3)
    file.write_bytes(b"no array")
    with pytest.raises(DataError, match=r"no readable \.npy file"):
        load_scores(file, 3)


def test_a_network_is_named_by_its_file_and_how_it_is_built(tmp_path):
    file = tmp_path / "w"
    file.write_bytes(b"weights")
    assert identity(file, model="linear") != identity(file, model="mlp")
    assert identity(file) == hashlib.sha256(b"\nweights").hexdigest()


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> bytes:
    """The bytes of a ledger with three looks."""
    folder = tmp_path_factory.mktemp("whole")
    rng = np.random.default_rng(0)
    examples = from_arrays(rng.normal(size=(50, 2)), rng.integers(0, 2, 50), name="made", role="test")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CODEBOUND_CACHE", str(folder / "cache"))
        seal(examples, SealSettings(looks=4, target=0.5, step=0.1), folder / "a.jsonl")
        for name in ("a", "b", "c"):
            rows = torch.from_numpy(rng.normal(size=(50, 2)))
            look(folder / "a.jsonl", examples, rows, name=name, identity=sha256_of(name))
    return (folder / "a.jsonl").read_bytes()


@given(st.data())
def test_whatever_is_done_to_the_bytes_nothing_raises_and_the_head_shows_it(whole, data):
    head = hashlib.sha256(whole[:-1].rpartition(b"\n")[2]).hexdigest()
    start = data.draw(st.integers(0, len(whole)))
    end = data.draw(st.integers(start, min(len(whole), start + 40)))
    changed = whole[:start] + data.draw(st.binary(max_size=20)) + whole[end:]
    verdict = verify_ledger(changed, head=head)
    assert verdict.is_accepted == (changed == whole)
    verify_ledger(changed)
