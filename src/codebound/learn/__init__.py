"""Rules that both programs replay: features, kernel ridge regression, picking."""
