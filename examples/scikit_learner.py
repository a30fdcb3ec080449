"""A bound for any learner: gradient boosting picks its examples, and the certificate is run again.

Run: python examples/scikit_learner.py
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from sklearn.ensemble import GradientBoostingClassifier

import codebound as cb
from codebound.any_learner.rerun_file import RerunCertificate, load_examples, rerun, rerun_certificate
from codebound.bounds.risk import percent

LEARNER = "scikit_learner:make"


def make() -> cb.PickToLearn:
    """The learner, with all that is fixed before the sample is seen."""
    learner = GradientBoostingClassifier(n_estimators=10, max_features="sqrt", random_state=0)
    return cb.PickToLearn(learner, apart=0, batch=20, growth=0.5)


def main() -> None:
    """Prints the claim, how it came about, and whether the learner does the same again."""
    images, labels = load_examples("digits")
    model = make().fit(images, labels)
    print(model.claim_)
    for stage in model.stages_:
        print(f"  {stage.picks} picks, {stage.errors} errors: {percent(stage.bound.value)}")

    with tempfile.TemporaryDirectory() as folder:
        path = rerun_certificate(model, LEARNER).save(Path(folder) / "boosted.json")
        print(rerun(RerunCertificate.load(path), images, labels, learner=LEARNER).verdict)


if __name__ == "__main__":
    main()
