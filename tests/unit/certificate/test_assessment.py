"""What was picked, as an assessed message: its counts, its bounds, and what it declares."""

from dataclasses import replace

import numpy as np
import pytest
from worlds.samples import written_clusters

from codebound.bounds.picked import picked_risk
from codebound.certificate.assessment import assess_picked, draft, issue
from codebound.certificate.claims import AboutG, FromPicks
from codebound.certificate.declarations import list_assumptions
from codebound.certificate.task import Task
from codebound.learn.features import ColumnFeatures
from codebound.learn.kernel_network import count_losses
from codebound.learn.picking import permutation, pick
from codebound.learn.rule import Rule
from codebound.sample.losses import WRONG, parse_loss

SAMPLE, DELTA = written_clusters(), 0.05
RULE = Rule(ColumnFeatures(False), first=30, batch=2, rounds=3)
SHARE = Rule(ColumnFeatures(False), first=200, rounds=0, tenths=5)


def assessed(rule=RULE, loss="wrong"):
    task = Task(sample=SAMPLE, delta=DELTA, claim=AboutG(loss=parse_loss(loss, classes=3)))
    return assess_picked(pick(rule, SAMPLE), task), task


@pytest.mark.parametrize("rule", [RULE, SHARE], ids=["picks", "nothing"])
def test_the_bound_is_that_of_picks_and_errors_and_has_no_looser_form(rule):
    found, task = assessed(rule)
    left = np.setdiff1d(permutation(SAMPLE.n)[rule.first :], found.picked.order)
    errors = found.errors_on(SAMPLE.select(left, role="certify"), WRONG, None)
    assert (found.facts.errors, found.facts.picks) == (errors, SAMPLE.n - rule.first - len(left))
    assert found.alone == found.bound.value == picked_risk(found.facts).value
    claim = draft(found, task).claim
    assert claim.kl == claim.hoeffding == claim.bound
    assert (found.rules, found.kind) == ((rule,), FromPicks)


def test_what_picks_nothing_goes_the_route_of_a_split_and_needs_the_third_version():
    picks, share = assessed()[0], assessed(SHARE)[0]
    assert (picks.version, share.version) == (2, 3)
    assert [each.route("picks")[0] for each in (picks, share)] == ["picks", "split"]
    assert "6 picks and " in picks.route("picks")[1]
    assert "the other 200 without picks" in share.route("picks")[1]


def test_classes_share_picks_and_errors_and_the_failure_probability():
    found, task = assessed()
    table = found.class_bounds(task, engine=None)
    assert sum(row.errors for row in table) == found.facts.errors
    assert sum(row.picks for row in table) == found.facts.picks
    assert sum(row.n for row in table) == found.facts.n
    assert all(row.bound > (row.errors + row.picks) / row.n for row in table)
    alone = assessed(loss="class:1")[0]
    assert (table[1].errors, table[1].n) == (alone.facts.errors, alone.facts.n)
    told = replace(alone.facts, delta=DELTA / 3, code_bits=found.facts.code_bits)
    assert table[1].bound == pytest.approx(picked_risk(told).value, rel=1e-12)


def test_another_loss_is_counted_of_the_same_network():
    found, _ = assessed()
    _, task = assessed(loss="class:2")
    again = found.recount(task, engine=None)
    assert again.picked is found.picked
    assert str(again.message.setting.loss) == issue(again, task).claim.loss == "class:2"


def test_its_network_is_defined_to_the_last_bit_so_nothing_is_said_about_precision():
    told, shortly = (list_assumptions(*made, made[1].helper) for made in (assessed(), assessed(SHARE)))
    assert told[-1].startswith("The message says that there are 3 classes")
    assert shortly[-1].startswith("There are 3 classes, by the labels of the first examples")
    assert shortly[-1].endswith("inputs are taken as stored.")


def test_other_data_are_counted_as_stored():
    found, _ = assessed()
    data, loss = written_clusters(90, seed=4), parse_loss("top:2", classes=3)
    assert found.errors_on(data, loss, None) == count_losses(found.network, data, loss)
