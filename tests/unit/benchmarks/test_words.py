"""Texts as vectors: the rule as its page says it, by a second way to the same numbers."""

import hashlib
import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from public_sets.words import hashed_words

WORDS = st.lists(st.sampled_from(["apple", "pear", "kiwi", "plum", "fig", "lime"]), min_size=1, max_size=40)


def expected(words: list[str], dimension: int) -> np.ndarray:
    vector = [0] * dimension
    for word in set(words):
        number = int(hashlib.sha256(word.encode()).hexdigest()[:16], 16)
        sign = 1 if number % 2 else -1
        vector[number // 2 % dimension] += sign * (math.floor(math.log2(words.count(word))) + 1)
    length = math.sqrt(sum(value * value for value in vector))
    return np.array([np.float32(value / length) if length else 0.0 for value in vector], dtype=np.float32)


@given(WORDS, st.sampled_from([7, 64, 2048]))
def test_the_rule(words, dimension):
    (row,) = hashed_words([" ".join(words)], dimension)
    assert row.dtype == np.float32
    np.testing.assert_array_equal(row, expected(words, dimension))


@given(st.lists(st.text(max_size=60), min_size=1, max_size=5))
def test_a_vector_depends_on_its_own_text_alone(texts):
    together = hashed_words(texts, 32)
    for text, row in zip(texts, together, strict=True):
        np.testing.assert_array_equal(hashed_words([text], 32)[0], row)
        assert (
            math.isclose(float(np.square(row.astype(np.float64)).sum()), 1.0, rel_tol=1e-6) or not row.any()
        )


def test_case_marks_short_and_common_words_do_not_count():
    plain, dressed = hashed_words(["apple pear pear", "The APPLE, (pear)! to be; Pear's 42 and with_"], 64)
    np.testing.assert_array_equal(plain, dressed)
    assert not hashed_words(["of the and 1234 it"], 64).any()
