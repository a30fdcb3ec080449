"""Any learner: gradient boosting picks its examples, and for others its scores are declared and counted.

Run: python examples/scikit_learner.py
"""

from __future__ import annotations

from sklearn.ensemble import GradientBoostingClassifier

import codebound as cb
from codebound.bounds.risk import percent
from codebound.known.score_tables import ScoreTable
from codebound.sample.order import Design, arrange


def make() -> GradientBoostingClassifier:
    """The learner, with all that is fixed before the sample is seen."""
    return GradientBoostingClassifier(n_estimators=10, max_features="sqrt", random_state=0)


def main() -> None:
    """Prints the claim of picks and how it came about, then a certificate of declared scores."""
    digits = cb.load_dataset("digits")
    images, labels = digits.x.reshape(digits.n, -1), digits.y
    model = cb.PickToLearn(make(), apart=0, batch=20, growth=0.5).fit(images, labels)
    print(model.claim_)
    for stage in model.stages_:
        print(f"  {stage.picks} picks, {stage.errors} errors: {percent(stage.bound.value)}")

    known, _ = arrange(digits, Design()).split(1000)  # places of the first 1,000 rows, by a hash of each
    learner = make().fit(images[known], labels[known])
    scores = learner.predict_proba(images).astype("float32")
    table = ScoreTable(scores, by="gradient boosting, 10 trees, seed 0", of="the known share", rows=1000)
    found = cb.certify(None, digits, scores=table, method="scores", effort="quick")
    print(found)
    print(cb.verify(found.certificate, digits, tables=[table.arrays]).first_line)


if __name__ == "__main__":
    main()
