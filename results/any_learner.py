"""Any learner on digits: what it certifies by picks, after a first share, and by a hold-out set.

    python results/any_learner.py       fits, counts, and writes results/any_learner.md

The learners have the settings of scikit-learn, but for seeds and for fewer trees of gradient boosting; inputs
are divided by 16.
"""

from __future__ import annotations

import math
import os
import platform
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import sklearn
from sklearn.base import clone
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC

import codebound as cb
from codebound.bounds.held_out import holdout
from codebound.bounds.risk import percent
from codebound.sample.dataset import permutation

LEARNERS: dict[str, tuple[Any, dict[str, Any]]] = {
    "logistic regression": (LogisticRegression(max_iter=1000), {"batch": 1}),
    "support vectors": (SVC(), {"batch": 1}),
    "random forest, seed 0": (RandomForestClassifier(random_state=0), {"batch": 5}),
    "gradient boosting, 30 trees a class": (
        GradientBoostingClassifier(n_estimators=30, random_state=0),
        {"batch": 10, "growth": 0.1},
    ),
}
SHARES, HELD = (300, 600, 900, 1200), 0.2
DELTA = 0.05
HEAD = """# Any learner on digits

`python results/any_learner.py` writes this page: {when}. Nobody but who runs the learner can
check the bounds ([howto](../docs/howto/any_learner.md)); each holds with probability 0.95. n = {n};
a first share of {first} examples is chosen with 2 bits; the hold-out set has {held}. The time is of one core,
for all rounds.

| learner | picks alone | picks, errors | time | after a share | picks, errors | time | hold-out | errors |
|---|---|---|---|---|---|---|---|---|
"""


def main() -> None:
    """Writes the page."""
    warnings.simplefilter("ignore")  # learners that have not converged are learners too
    digits = cb.load_dataset("digits")
    inputs, labels = digits.x.reshape(digits.n, -1).astype(float) / 16.0, digits.y
    rest, held = np.split(permutation(len(labels)), [math.floor((1.0 - HELD) * len(labels))])
    rows = []
    for name, (learner, settings) in LEARNERS.items():
        cells = [name]
        among: dict[str, Any] = {"first": 0, "candidates": [{"apart": each} for each in SHARES]}
        for share in ({"apart": 0}, among):
            start = time.process_time()
            model = cb.PickToLearn(learner, delta=DELTA, **settings, **share).fit(inputs, labels)
            cells += [
                f"**{percent(model.risk_bound_.value)}**",
                f"{len(model.picks_)} + {len(model.errors_)} of {model.n_}",
                f"{time.process_time() - start:.0f} s",
            ]
        fresh = clone(learner).fit(inputs[rest], labels[rest])
        errors = int((fresh.predict(inputs[held]) != labels[held]).sum())
        bound = holdout(cb.HoldoutFacts(errors=errors, n=len(held), delta=DELTA, classes=10))
        cells += [percent(bound.value), f"{errors} of {len(held)}"]
        rows.append(f"| {' | '.join(cells)} |")
    made = (
        f"codebound {cb.__version__}, scikit-learn {sklearn.__version__}, Python {platform.python_version()}"
    )
    head = HEAD.format(when=made, n=len(labels), first=" or ".join(map(str, SHARES)), held=len(held))
    Path(__file__).with_suffix(".md").write_text(head + "\n".join(rows) + "\n", encoding="utf-8")


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
