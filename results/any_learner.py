"""Any learner on digits: what it certifies by a share, by picks after a small one, and by a hold-out set.

    python results/any_learner.py       fits, counts, and writes results/any_learner.json
    python results/page.py              writes results/any_learner.md

The learners have the settings of scikit-learn, but for seeds and for fewer trees of gradient boosting; inputs
are divided by 16.
"""

from __future__ import annotations

import json
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
from codebound.bounds.risk import HoldoutFacts, percent
from codebound.sample.dataset import permutation

LEARNERS: dict[str, tuple[Any, int]] = {
    "logistic regression": (LogisticRegression(max_iter=1000), 1),
    "support vectors": (SVC(), 1),
    "random forest, seed 0": (RandomForestClassifier(random_state=0), 5),
    "gradient boosting, 30 trees a class": (GradientBoostingClassifier(n_estimators=30, random_state=0), 20),
}
SHARE, HELD, DELTA = 0.2, 0.2, 0.05
HEAD = """# Any learner on digits

`python results/any_learner.py` measures this: {when}. Each bound holds with probability 0.95
and is that of a certificate ([howto](../docs/howto/any_learner.md)): of the usual share, and of picks after
a fifth; n = {n}. The hold-out set has {held} examples, and no certificate. The time is of one core, for all
rounds and the second program.

| learner | share | errors | time | picks | picks, errors | time | hold-out | errors |
|---|---|---|---|---|---|---|---|---|
"""


def page(record: dict[str, Any]) -> str:
    """The page of what was measured."""
    head = HEAD.format(when=record["made"], n=record["n"], held=record["held"])
    return head + "".join(f"| {' | '.join(cells)} |\n" for cells in record["rows"])


def main() -> None:
    """Measures, and writes what was found."""
    warnings.simplefilter("ignore")  # learners that have not converged are learners too
    digits = cb.load_sample("digits")
    inputs, labels = digits.x.reshape(digits.n, -1).astype(float) / 16.0, digits.y
    rest, held = np.split(permutation(len(labels)), [math.floor((1.0 - HELD) * len(labels))])
    rows = []
    for name, (learner, batch) in LEARNERS.items():
        cells = [name]
        picking: dict[str, Any] = {"method": "picks", "share": SHARE, "batch": batch}
        for settings in ({}, picking):
            start = time.process_time()
            model = cb.CertifiedClassifier(learner, delta=DELTA, **settings).fit(inputs, labels)
            limit = model.result_.certificate.limit
            picks = "" if limit.picks is None else f"{limit.picks} + "
            cells += [
                f"**{percent(model.bound_)}**",
                f"{picks}{limit.errors} of {limit.n}",
                f"{time.process_time() - start:.0f} s",
            ]
        fresh = clone(learner).fit(inputs[rest], labels[rest])
        errors = int((fresh.predict(inputs[held]) != labels[held]).sum())
        bound = holdout(HoldoutFacts(errors=errors, n=len(held), delta=DELTA, classes=10))
        cells += [percent(bound.value), f"{errors} of {len(held)}"]
        rows.append(cells)
    made = (
        f"codebound {cb.__version__}, scikit-learn {sklearn.__version__}, Python {platform.python_version()}"
    )
    record = {"made": made, "n": len(labels), "held": len(held), "rows": rows}
    Path(__file__).with_suffix(".json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
