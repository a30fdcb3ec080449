"""Look, better and abstain: counts, levels, prices, and what is refused before anything is written."""

import math
import multiprocessing

import pytest

from codebound.bounds.held_out import holdout, ladder_bits, looked_risk
from codebound.bounds.paired import PairedFacts, not_worse
from codebound.bounds.paired import better as compare
from codebound.bounds.risk import HoldoutFacts, LookFacts
from codebound.holdout.ledger import read_ledger
from codebound.holdout.seals import Abstention, Plan, seal
from codebound.holdout.sentences import best_line, naive_bound
from codebound.holdout.statements import abstain, better, look, look_at_planned
from codebound.run.errors import CodeboundError, DataError, UsageError


def clopper(errors, n, delta):
    return holdout(HoldoutFacts(errors=errors, n=n, delta=delta)).value


def test_one_planned_look_is_the_limit_of_a_test_set(answers):
    path = seal(answers, Plan(look=("a",))).path
    result = look(path, "a", data=answers).statements[-1]["result"]
    assert (result["errors"], result["n"]) == (60, 400)
    assert result["bound"] == pytest.approx(clopper(60, 400, 0.05), rel=1e-9)


def test_the_best_of_two_pays_for_two(answers):
    path = seal(answers, Plan(look=("a", "b"))).path
    ledger = look_at_planned(path, data=answers)
    line = best_line(ledger)
    assert line["column"]["name"] == "b"
    assert line["result"]["bound"] == pytest.approx(clopper(25, 400, 0.025), rel=1e-9)
    assert naive_bound(ledger, line) == pytest.approx(clopper(25, 400, 0.05), rel=1e-9)


def test_an_open_look_pays_for_all_answers_before_it(answers):
    path = seal(answers, Plan(look=("a",), better=[("a", "b")], looks=4, tell="exact")).path
    look(path, "a", data=answers)
    better(path, "a", "b", data=answers)
    result = look(path, "b", data=answers).statements[-1]["result"]
    bits = math.log2(401) + math.log2(math.comb(402, 2))
    facts = LookFacts(errors=25, n=400, delta=0.05, looks=4, answer_bits=bits)
    assert result["bound"] == pytest.approx(looked_risk(facts).value, rel=1e-9)


def test_a_plan_without_an_end_gives_later_looks_less(answers):
    path = seal(answers, Plan(looks="open", tell="exact")).path
    look(path, "a", data=answers)
    result = look(path, "b", data=answers).statements[-1]["result"]
    facts = LookFacts(errors=25, n=400, delta=0.05, looks=None, number=2, answer_bits=math.log2(401))
    assert result["bound"] == pytest.approx(looked_risk(facts).value, rel=1e-9)


def test_levels_tell_little_and_cost_little(answers):
    ledger = seal(answers, Plan(looks=5))
    levels = ledger.seal["levels"]
    look(ledger.path, "b", data=answers)
    ledger = look(ledger.path, "a", data=answers)
    assert [line["result"] and line["result"]["errors"] for line in ledger.statements] == [25, None]
    assert ledger.answer_bits == pytest.approx(ladder_bits([25, None], levels), rel=1e-9)
    ledger = look(ledger.path, "b", data=answers, is_final=True)
    assert ledger.statements[-1]["result"]["errors"] == 25
    with pytest.raises(UsageError, match="is closed"):
        look(ledger.path, "b", data=answers, is_final=True)


def test_better_is_the_paired_statement(answers):
    path = seal(answers, Plan(better=[("a", "b")])).path
    result = better(path, "a", "b", data=answers).statements[-1]["result"]
    expected = compare(PairedFacts(a_only=40, b_only=5, n=400, delta=0.05))
    assert (result["a_only"], result["b_only"], result["n"], result["shown"]) == (40, 5, 400, True)
    assert result["limit"] == pytest.approx(expected.limit, abs=1e-9)


def test_a_margin_is_a_claim_of_its_own(answers):
    path = seal(answers, Plan(better=[("b", "a")], margin=0.2)).path
    with pytest.raises(UsageError, match="no look left"):
        better(path, "b", "a", data=answers)  # without the margin it is another statement
    result = better(path, "b", "a", margin=0.2, data=answers).statements[-1]["result"]
    expected = not_worse(PairedFacts(a_only=5, b_only=40, n=400, delta=0.05), 0.2)
    assert (result["shown"], result["limit"]) == (expected, None)


def test_groups_share_half_of_the_level(answers):
    path = seal(answers, Plan(look=("a",), group="topic")).path
    line = look(path, "a", data=answers).statements[-1]
    assert line["result"]["bound"] == pytest.approx(clopper(60, 400, 0.025), rel=1e-9)
    assert [each["errors"] for each in line["groups"]] == [45, 15]
    assert line["groups"][1]["bound"] == pytest.approx(clopper(15, 100, 0.0125), rel=1e-9)


def test_a_class_is_a_group(answers):
    line = look(seal(answers, Plan(look=("a",), group="label")).path, "a", data=answers).statements[-1]
    assert sum(each["errors"] for each in line["groups"]) == 60


def test_any_row_of_a_cluster(answers):
    path = seal(answers, Plan(look=("a",), better=[("a", "b")], cluster="patient", claim="any")).path
    result = look(path, "a", data=answers).statements[-1]["result"]
    assert (result["errors"], result["n"]) == (12, 80)
    result = better(path, "a", "b", data=answers).statements[-1]["result"]
    assert (result["a_only"], result["b_only"]) == (8, 1)


def test_precision_counts_what_is_said(answers):
    path = seal(answers, Plan(look=("a",), loss="precision:spam")).path
    result = look(path, "a", data=answers).statements[-1]["result"]
    pairs = list(zip(answers["label"], answers["a"], strict=True))
    assert result["n"] == sum(a == "spam" for _, a in pairs)
    assert result["errors"] == sum(a == "spam" != y for y, a in pairs)


@pytest.mark.parametrize("rule", ["sequence", "choice"])
def test_a_threshold_is_found_on_its_grid(answers, rule):
    how = Abstention(column="b", scores="conf", risk=0.05, thresholds=(0.6, 0.3, 0.1, 0.0), rule=rule)
    path = seal(answers, Plan(abstain=[how])).path
    result = abstain(path, how, data=answers).statements[-1]["result"]
    assert (result["answered"], result["wrong"]) == ([160, 280, 360, 400], [5, 5, 5, 25])
    part = 2 if rule == "sequence" else 8
    limits = [clopper(k, m, 0.05 / part) for k, m in zip(result["wrong"], result["answered"], strict=True)]
    if rule == "sequence":
        assert limits[0] > 0.05  # the first fails, so the others are not tried
        assert (result["chosen"], result["share"]) == (None, None)
    else:
        assert result["chosen"] == max(i for i, limit in enumerate(limits) if limit <= 0.05)
        answered = result["answered"][result["chosen"]]
        assert result["share"] == pytest.approx(1 - clopper(400 - answered, 400, 0.05 / 8), rel=1e-9)


def test_a_score_that_is_no_number_is_not_answered(answers):
    answers["conf"][399] = "high"
    how = Abstention(column="b", scores="conf", risk=0.5, thresholds=(0.5,))
    result = abstain(seal(answers, Plan(abstain=[how])).path, how, data=answers).statements[-1]["result"]
    assert result["answered"] == [199]


def test_an_empty_answer_is_wrong(answers):
    path = seal(answers, Plan(looks=1)).path
    answers["c"] = [None, *answers["label"][1:]]
    assert look(path, "c", data=answers).statements[-1]["result"]["errors"] == 1


def test_answers_that_are_no_column(answers):
    path = seal(answers, Plan(looks=1)).path
    line = look(path, "p.npy", data=answers, answers=answers["label"]).statements[-1]
    assert (line["column"]["name"], line["result"]["errors"]) == ("p.npy", 0)
    with pytest.raises(DataError, match="there are 399 answers"):
        look(path, "q.npy", data=answers, answers=answers["label"][1:])


@pytest.mark.parametrize("column", ["label", "topic", "patient", "prompt"])
def test_a_sealed_column_cannot_be_replaced(answers, column):
    plan = Plan(look=("a",), inputs="prompt", group="topic", cluster="patient", claim="row")
    path = seal(answers, plan).path
    before = path.read_bytes()
    answers[column] = [*answers[column][1:], answers[column][0]]
    with pytest.raises(DataError, match=f"column '{column}' is not what was sealed"):
        look(path, "a", data=answers)
    with pytest.raises(DataError, match="no column"):
        look(path, "a", data={key: each for key, each in answers.items() if key != column})
    assert path.read_bytes() == before


def test_a_planned_column_cannot_be_replaced(answers):
    path = seal(answers, Plan(look=("a",))).path
    answers["a"] = answers["label"]
    with pytest.raises(DataError, match="cells were changed since the seal"):
        look(path, "a", data=answers)


def test_fewer_rows_are_not_what_was_sealed(answers):
    path = seal(answers, Plan(look=("a",))).path
    with pytest.raises(DataError, match="it has 300 rows, and 400 were sealed"):
        look(path, "a", data={key: each[:300] for key, each in answers.items()})


def test_nothing_is_said_twice_or_beyond_the_plan(answers):
    path = seal(answers, Plan(look=("a",))).path
    look(path, "a", data=answers)
    with pytest.raises(UsageError, match="is line 2 of"):
        look(path, "a", data=answers)
    with pytest.raises(UsageError, match="is spent"):
        look(path, "b", data=answers)
    with pytest.raises(UsageError, match="is spent"):
        better(path, "a", "b", data=answers)


def test_a_comparison_needs_something_of_delta(answers):
    path = seal(answers, Plan(looks=9, tell="exact")).path
    for column in ("a", "b"):  # some eight hundred bits each
        grid = tuple(i / 250 for i in range(250, 0, -1))
        abstain(path, Abstention(column=column, scores="conf", risk=0.5, thresholds=grid), data=answers)
    with pytest.raises(UsageError, match="too little of delta is left"):
        better(path, "a", "b", data=answers)


def _look(path, column, data, seen):
    try:
        look(path, column, data=data)
        seen.put("")
    except CodeboundError as error:
        seen.put(str(error))


def test_two_writers_lose_nothing(answers):
    names = [f"m{count}" for count in range(6)]
    for count, name in enumerate(names):
        answers[name] = [*answers["a"][: count + 1], *answers["label"][count + 1 :]]
    path = seal(answers, Plan(look=names)).path
    context = multiprocessing.get_context("fork")
    seen = context.Queue()
    workers = [context.Process(target=_look, args=(path, name, answers, seen)) for name in names]
    for each in workers:
        each.start()
    told = [seen.get(timeout=60) for _ in workers]
    for each in workers:
        each.join()
    assert all(not each or "a line of" in each for each in told), told
    assert len(read_ledger(path).statements) == told.count("") >= 1


def test_a_table_that_was_no_file_is_given_again(answers):
    path = seal(answers, Plan(look=("a",))).path
    with pytest.raises(UsageError, match="give it again"):
        look(path, "a")
