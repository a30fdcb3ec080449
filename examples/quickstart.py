"""From data to a bound: train a small network on digits, test it, and see what a short message would prove.

Run: python examples/quickstart.py
"""

from __future__ import annotations

import codebound as cb
from codebound.bounds.certified import percent


def main() -> None:
    """Prints the hold-out bound and the bound that each message length would give."""
    digits = cb.load_dataset("digits")
    parts = cb.split(digits, {"train": 0.8, "test": 0.2})
    network = cb.load_model("mlp:widths=32", input_shape=digits.input_shape, classes=digits.classes)
    result = cb.fit(network, parts["train"], cb.TrainConfig(epochs=20), test_set=parts["test"])
    print(f"{result.train_errors} errors on {result.n} training examples")

    assert result.test_errors is not None and result.test_n is not None
    fresh = cb.HoldoutFacts(errors=result.test_errors, n=result.test_n, delta=0.05, classes=10, subject="f")
    print(cb.holdout(fresh).sentence)

    print("A network with these errors, decoded from a message of ... bits, would be certified at")
    for code_bits in (250, 500, 1000, 2000):
        facts = cb.OccamFacts(
            errors=result.train_errors, n=result.n, code_bits=code_bits, delta=0.05, classes=10
        )
        print(f"{code_bits:6d} bits: {percent(cb.occam_binomial(facts).value)}")


if __name__ == "__main__":
    main()
