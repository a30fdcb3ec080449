"""Any learner: gradient boosting on a known share, then with picks; the certificate is a file for others.

Run: python examples/scikit_learner.py
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from sklearn.ensemble import GradientBoostingClassifier

import codebound as cb


def main() -> None:
    """Prints the claim of both methods, and what the second program says of the files."""
    digits = cb.load_sample("digits")
    images, labels = digits.x.reshape(digits.n, -1), digits.y
    learner = GradientBoostingClassifier(n_estimators=10, max_features="sqrt", random_state=0)
    with tempfile.TemporaryDirectory() as folder:
        ways: list[dict[str, Any]] = [{}, {"method": "picks", "share": 0.3, "batch": 20}]
        for settings in ways:
            model = cb.CertifiedClassifier(learner, **settings).fit(images, labels)
            print(model.claim_)
            print("; ".join(map(str, model.result_.certificate.counts)))
            saved = model.result_.save_to(Path(folder) / model.method)
            print(saved.result["verdict"], saved.result["assurance"])


if __name__ == "__main__":
    main()
