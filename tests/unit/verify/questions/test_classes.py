"""Errors on every class, and limits that hold at once."""

import cbound_writer as writer
import numpy as np
import pytest
from scipy.stats import beta
from worlds.literal import float32, linear_logits, wrong

from codebound_verify.header import parse_header
from codebound_verify.networks.chain import described_chain
from codebound_verify.networks.evaluate import chain_evaluator
from codebound_verify.questions.classes import class_table
from codebound_verify.versions import VERSIONS

CASE = writer.linear_case(400)
X, Y = CASE.x, np.asarray(CASE.y)
HEADER = parse_header(writer.canonical(CASE.fields), VERSIONS[2])
TENSORS = float32(CASE.message.tensors)
CHAIN = described_chain((("linear", 3, True),), (1, 2, 2), 3)
EVALUATOR = chain_evaluator(CHAIN, TENSORS, header=HEADER)


def test_a_table_of_classes_holds_at_once():
    for row in class_table(HEADER, Y, lambda own: (0, EVALUATOR.count_errors(X[own], Y[own]))):
        own = wrong(linear_logits(X, TENSORS), Y)[row.label == Y]
        assert (row.errors, row.n, row.picks) == (own.sum(), len(own), 0)
        level = HEADER.delta / 3 * 2.0**-HEADER.code_bits
        assert row.bound == pytest.approx(
            float(beta.isf(level, row.errors + 1, row.n - row.errors)), rel=1e-9
        )
