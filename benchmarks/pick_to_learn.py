"""Pick-to-Learn as published beside our rule: the same features, the same learner, one process.

    python benchmarks/pick_to_learn.py
    python benchmarks/pick_to_learn.py --data mnist --examples 10000

Pick-to-Learn (Paccagnan, Campi and Garatti 2023) adds the example that the network gets most wrong, one at a
time, until none is wrong; everything it picked counts. Ours starts from examples that are not counted, picks
batches of examples that are wrong but not hopeless, stops at a coded number of rounds, and counts the rest.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import torch
from ratios import beside

from codebound.bits.plain_code import PICKS
from codebound.bounds.held_out import picked_risk
from codebound.bounds.risk import PickedFacts, percent
from codebound.certificate.offers import rule_outcome
from codebound.learn.features import FilterFeatures, prepare
from codebound.learn.learner import Learner
from codebound.learn.picking import carry_out
from codebound.learn.rule import Rule
from codebound.sample.load import load_sample
from codebound.sample.order import Arranged, Design, arrange

DELTA = 0.05
START = 10  # examples that Pick-to-Learn starts from, one for each class on average
FIRST = 100  # examples that ours learns from without counting them


def as_published(rule: Rule, arranged: Arranged, most: int) -> tuple[int, int]:
    """Picks and remaining errors of Pick-to-Learn: the worst example, one at a time, until none is wrong."""
    sample = arranged.sample
    learner = Learner(
        rule,
        sample,
        prepare(rule, arranged, FIRST),
        classes=np.arange(sample.classes),
        capacity=START + most,
    )
    is_picked = np.zeros(sample.n, dtype=bool)
    rows = arranged.places[:START]
    with torch.no_grad():
        for _ in range(most):
            is_picked[rows] = True
            learner.add(torch.from_numpy(rows))
            coefficients = learner.ridge.coefficients()
            margin = learner.margins(learner.rows.outputs(coefficients)).numpy()
            wrong = (margin <= 0.0) & ~is_picked
            if not wrong.any():
                break
            rows = np.array([np.where(wrong, margin, np.inf).argmin()])
    return int(is_picked.sum()), int(wrong.sum())


def main() -> None:
    """Runs both and prints them side by side."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--data", default="digits", choices=("digits", "mnist", "fashion-mnist"))
    parser.add_argument("--examples", type=int, default=0, help="the first so many; 0: all")
    parser.add_argument("--most", type=int, default=600, help="picks after which Pick-to-Learn is stopped")
    asked = parser.parse_args()
    sample = load_sample(asked.data)
    if asked.examples:
        sample = sample.select(np.arange(min(asked.examples, sample.n)), role="train")
    pool = 2 if sample.input_shape[1] < 16 else 4
    batch = 2 if sample.n < 5000 else 10
    rule = Rule(FilterFeatures(True, 3, pool), copies=2, ridge_index=8, batch=batch, rounds=54)
    arranged = arrange(sample, Design())

    start = time.perf_counter()
    picks, errors = as_published(rule, arranged, asked.most)
    published = time.perf_counter() - start
    theirs = picked_risk(PickedFacts(picks=picks, errors=errors, n=sample.n, delta=DELTA)).value

    start = time.perf_counter()
    learned = carry_out(rule, arranged, form=PICKS, first=FIRST, patience=True)
    own = time.perf_counter() - start
    bits = rule_outcome(learned, arranged).encoded[0].length
    facts = PickedFacts(
        picks=learned.last.picks,
        errors=learned.last.errors,
        n=sample.n - FIRST,
        code_bits=bits,
        delta=DELTA,
    )
    ours = picked_risk(facts).value

    rows = [
        ("Pick-to-Learn", published, picks, errors, 0, theirs),
        ("codebound", own, facts.picks, facts.errors, bits, ours),
    ]
    print(f"{asked.data}, {sample.n} examples, delta {DELTA}")
    print(f"{'':14} {'seconds':>8} {'picks':>6} {'errors':>6} {'bits':>5} {'certified':>10}")
    for name, seconds, chosen, wrong, length, bound in rows:
        print(f"{name:14} {seconds:8.1f} {chosen:6} {wrong:6} {length:5} {percent(bound):>10}")
    print(f"ratio of the bounds {theirs / ours:.2f}, of the times {published / own:.2f}")
    peer = "Pick-to-Learn as published"
    beside(f"certified error of {asked.data}", ours=100 * ours, theirs=100 * theirs, peer=peer, unit="%")
    beside(f"picking and learning {asked.data}", ours=own, theirs=published, peer=peer)


if __name__ == "__main__":
    main()
