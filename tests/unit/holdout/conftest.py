"""A table of answers to seal."""

import random

import pytest


@pytest.fixture
def answers(own_cache, tmp_path, monkeypatch):
    """Columns of 400 rows; a errs on 60, b on 20 of the same rows and on 5 others."""
    monkeypatch.chdir(tmp_path)
    rng = random.Random(7)
    labels = [rng.choice(("ham", "spam")) for _ in range(400)]

    def wrong_on(rows):
        return [("spam" if y == "ham" else "ham") if i in rows else y for i, y in enumerate(labels)]

    return {
        "label": labels,
        "a": wrong_on(range(60)),
        "b": wrong_on([*range(20), *range(395, 400)]),
        "conf": [i / 400 for i in range(400)],
        "prompt": [f"question {i}" for i in range(400)],
        "topic": ["north" if i % 4 else "south" for i in range(400)],
        "patient": [str(i // 5) for i in range(400)],
    }
