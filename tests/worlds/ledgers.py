"""Lines of ledgers and watches by hand, as docs/ledger.md has them: no chain, limits from the bounds."""

import numpy as np

from codebound.bounds.held_out import holdout
from codebound.bounds.monitoring import Mixture
from codebound.bounds.paired import PairedFacts, better, not_worse
from codebound.bounds.risk import HoldoutFacts

LEVEL = 0.05 / 6
NAMES = ("arithmetic", "dates", "geography", "history")
SIZES = (300, 250, 250, 200)
GROUPS = {"column": "topic", "names": list(NAMES), "sha256": "dd" * 32, "sizes": list(SIZES)}


def column(name):
    return {"name": name, "sha256": "ab" * 32}


def limit(errors, n, level=LEVEL):
    return holdout(HoldoutFacts(errors=errors, n=n, delta=level)).value


def seal(**changed):
    return {
        "kind": "seal",
        "version": 1,
        "date": "2026-11-19T10:00:00Z",
        "previous": "0" * 64,
        "data": "answers.csv",
        "rows": 1000,
        "label": {"column": "label", "is": "label", "sha256": "aa" * 32},
        "inputs": {"column": "question", "copies": 3, "sha256": "cc" * 32},
        "groups": None,
        "clusters": None,
        "loss": ["wrong"],
        "n": 1000,
        "delta": 0.05,
        "looks": 6,
        "planned": [],
        "levels": None,
    } | changed


def look(name, errors, n=1000, *, by_group=()):
    groups = [
        {"errors": count, "n": size, "bound": limit(count, size, LEVEL / 8)}
        for count, size in zip(by_group, SIZES, strict=False)
    ]
    return {
        "kind": "look",
        "date": "2026-11-19T10:01:00Z",
        "column": column(name),
        "final": False,
        "groups": groups or None,
        "result": {"errors": errors, "n": n, "bound": limit(errors, n)},
    }


def pair_result(a_only, b_only, n=1000, *, margin=0.0, level=LEVEL):
    facts = PairedFacts(a_only=a_only, b_only=b_only, n=n, delta=level)
    counts = {"a_only": a_only, "b_only": b_only, "n": n}
    if margin:
        return counts | {"shown": not_worse(facts, margin), "limit": None}
    found = better(facts)
    return counts | {"shown": found.is_better, "limit": found.limit}


def pair(a, b, a_only, b_only, *, margin=0.0, by_group=()):
    groups = [
        pair_result(*counts, size, margin=margin, level=LEVEL / 8)
        for counts, size in zip(by_group, SIZES, strict=False)
    ]
    return {
        "kind": "better",
        "date": "2026-11-19T10:02:00Z",
        "a": column(a),
        "b": column(b),
        "margin": margin,
        "groups": groups or None,
        "result": pair_result(a_only, b_only, margin=margin),
    }


def abstain(name, *, chosen=2):
    result = {"n": 1000, "answered": [400, 600, 750, 880, 960], "wrong": [3, 6, 10, 25, 40], "chosen": chosen}
    return {
        "kind": "abstain",
        "date": "2026-11-19T10:03:00Z",
        "column": column(name),
        "scores": column("confidence"),
        "risk": 0.03,
        "rule": "sequence",
        "thresholds": [0.95, 0.9, 0.8, 0.7, 0.5],
        "result": result | {"share": None if chosen is None else 0.7125},
    }


def watch(outcomes, *, certificate=None, size=500, group_alarm=None):
    mixture, lines = Mixture(bound=0.05, alpha=0.01), []
    groups = None if group_alarm is None else {"column": "topic", "names": ["dates", "history"]}
    first = {
        "kind": "watch",
        "version": 1,
        "date": "2026-11-01T10:00:00Z",
        "previous": "0" * 64,
        "stream": "live.csv",
        "bound": 0.05,
        "alpha": 0.01,
        "certificate": certificate,
        "loss": ["wrong"],
        "groups": groups,
        "clusters": None,
    }
    for start in range(0, len(outcomes), size):
        part = np.asarray(outcomes[start : start + size])
        mixture.update(part)
        errors = (np.flatnonzero(part) + 1).tolist()
        told = [
            {"alarm": group_alarm, "errors": errors, "labels": len(part)},
            {"alarm": None, "errors": [], "labels": 0},
        ]
        line = {"kind": "batch", "date": "2026-11-19T10:00:00Z", "labels": len(part), "errors": errors}
        lines.append(line | {"alarm": mixture.alarm_at, "groups": told if groups else None})
    return [first, *lines]


def stream(seed, *parts):
    """Outcomes, for each part so many labels and their error."""
    rng = np.random.default_rng(seed)
    return np.concatenate([rng.random(n) < p for n, p in parts]).astype(int)


def every_page():
    """Lines of a page by its name: each kind of statement, yes and no, with and without groups."""
    by_group = (9, 20, 6, 12)
    return {
        "looks": [
            seal(groups=GROUPS),
            look("prompt_terse", 91),
            look("prompt_stepwise", 47, by_group=by_group),
            look("prompt_with_examples_and_a_long_name", 62),
        ],
        "better": [
            seal(),
            pair("prompt_terse", "prompt_stepwise", 60, 20),
            pair("prompt_stepwise", "prompt_examples", 40, 35, margin=0.02),
            pair("prompt_examples", "prompt_stepwise", 35, 40),
        ],
        "all": [
            seal(groups=GROUPS),
            look("prompt_stepwise", 47, by_group=by_group),
            pair("prompt_terse", "prompt_stepwise", 60, 20, by_group=((20, 3), (10, 9), (20, 4), (10, 4))),
            abstain("prompt_stepwise"),
        ],
        "sealed": [seal()],
        "alarm": watch(
            stream(3, (3000, 0.03), (1500, 0.1)), certificate={"delta": 0.05, "sha256": "ee" * 32}
        ),
        "quiet": watch(stream(4, (2500, 0.03))),
        "few": watch(stream(5, (7, 0.3))),
        "begun": watch(stream(6, (0, 0.3))),
        "groups": watch(stream(7, (800, 0.03)), group_alarm=120),
    }
