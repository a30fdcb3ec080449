"""An outcome of every form on one small sample, made in no time: what certificates are issued of."""

from dataclasses import replace

import numpy as np

from codebound.bits.plain_code import FIRST_TABLE, NETWORK, PICKS, SPLIT, TABLE, USUAL_SPLIT, TableChoice
from codebound.certificate.offers import assess, issue, network_outcome, rule_outcome, table_outcome
from codebound.known.score_tables import ScoreTable
from codebound.learn.picking import carry_out, usual_split
from codebound.learn.rule import Rule
from codebound.request import Task
from codebound_networks.chains.chain import Chain
from codebound_networks.chains.message import Message
from codebound_networks.chains.operations import Linear
from codebound_networks.codes.tensors import Adaptive, Dense
from worlds.samples import BIAS, WEIGHT, written_clusters

CHAIN = Chain((1, 2, 2), (Linear(3, True),))
CODES = {
    "0.weight": Adaptive(WEIGHT.astype(np.int32), -3, 2),
    "0.bias": Dense(BIAS.astype(np.int32), 1, 1),
}
SAMPLE = written_clusters(240)


def table_of(sample=SAMPLE, *, rows=0, picks=None, seed=0) -> ScoreTable:
    """Scores of a linear network with noise, two of which are equal in some rows."""
    noise = np.random.default_rng(seed).normal(scale=0.4, size=(sample.n, 3))
    scores = sample.x.reshape(sample.n, 4) / 16.0 @ WEIGHT.T + noise
    scores[::40] = 0.0
    return ScoreTable(scores.astype(np.float32), "a network of somebody", "other data", rows, picks)


def task_of(sample=SAMPLE, **given) -> Task:
    """A task with two tables, one made from the first 60 rows."""
    if "tables" not in given:
        given["tables"] = (table_of(sample), table_of(sample, rows=60, seed=1))
    return Task(**{"sample": sample, "delta": 0.05} | given)


def outcome(form, task):
    """The outcome of a form: a fixed one, good or not."""
    if form in (FIRST_TABLE, TABLE):
        choice = TableChoice() if form == FIRST_TABLE else TableChoice(2, 11, (1, 0, -1))
        return table_outcome(choice, task.tables[choice.table - 1], task.sample)
    if form == NETWORK:
        return network_outcome(Message(replace(task.options, theta_index=None), CHAIN, CODES), task)
    if form == USUAL_SPLIT:
        return rule_outcome(usual_split(task.arranged), task.arranged)
    rule, first = (
        (Rule(batch=2, rounds=3), 30)
        if form == PICKS
        else (Rule(gamma_index=6), 3 * task.arranged.units // 10)
    )
    return rule_outcome(carry_out(rule, task.arranged, form=form, first=first), task.arranged)


def issued(form, **given):
    """A certificate of this form, with its task and what was assessed."""
    task = task_of(**given)
    assessed = assess(outcome(form, task), task)
    return issue(assessed, task), task, assessed


FORMS = (USUAL_SPLIT, FIRST_TABLE, TABLE, SPLIT, PICKS, NETWORK)
