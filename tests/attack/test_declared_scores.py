"""Attacks through the scores of a base that no message describes, and honest ones beside them.

The verifier runs no code of others: what it counts is a table with a hash. So what can go wrong is the table.
"""

from dataclasses import replace

import numpy as np
import pytest
from attack.networks import ATTACKS, SAMPLE, EachByItself, Residual
from worlds.requests import request

from codebound.certificate.verification import verify
from codebound.certification import certify
from codebound.known.provenance import Origin, Pretrained, remember
from codebound.request import Known
from codebound.run.errors import CertificateError, CodeboundError, UsageError

SAYS = "made by hand"


def certified(module, **options):
    return certify(
        SAMPLE, network=module, method="scores", **request(base=Pretrained(module, SAYS), **options)
    )


@pytest.fixture(scope="module")
def found():
    return certified(Residual().eval())


def test_honest_scores_are_declared_and_accepted(found):
    (table,) = found.certificate.known.tables
    assert (table.by, table.rows, table.columns) == (SAYS, 0, 3)
    assert "it is the only one that was counted" in " ".join(found.certificate.declarations)
    assert found.certificate.limit.errors <= found.original_errors
    assert verify(found.certificate, found.sample, tables=[found.tables[0].arrays]).reasons == ()


@pytest.mark.parametrize("change", ["a score", "a score of a known row", "rows", "columns", "picks"])
def test_another_table_is_refused(found, change):
    scores = found.tables[0].scores.copy()
    if change.startswith("a score"):
        scores[-1 if "known" in change else 0, 0] = np.nextafter(scores[0, 0], np.float32(9))
    scores = {"rows": scores[::-1].copy(), "columns": scores[:, [1, 0, 2]]}.get(change, scores)
    arrays = {"scores": np.ascontiguousarray(scores)}
    arrays |= {"picks": np.arange(3)} if change == "picks" else {}
    verdict = verify(found.certificate, found.sample, tables=[arrays])
    assert not verdict.is_accepted
    assert verdict.reasons


def test_fewer_errors_than_the_table_has_are_refused(found):
    claim = found.certificate.claim
    limits = (replace(claim.limits[0], errors=claim.limits[0].errors - 1),)
    lie = replace(found.certificate, claim=replace(claim, limits=limits))
    assert not verify(lie, found.sample, tables=[found.tables[0].arrays]).is_accepted


@pytest.mark.few(4)
@pytest.mark.parametrize("name", sorted(ATTACKS))
def test_a_network_that_is_no_function_of_one_example_has_no_scores(name):
    words = "cannot be read|no function of one|draws random|counts its calls|remembers|the code of this"
    with pytest.raises(CodeboundError, match=words):
        certified(ATTACKS[name]().eval())


def test_a_base_that_was_trained_on_the_sample_is_refused():
    module = Residual().eval()
    remember(module, Origin(SAMPLE.sha256))
    with pytest.raises(CertificateError, match="trained on this very sample"):
        certified(module)


@pytest.mark.parametrize("method", ["prune", "naive"])
def test_no_message_is_made_of_it(method):
    module = Residual().eval()
    with pytest.raises(CertificateError, match="is no chain of layers"):
        certify(SAMPLE, network=module, method=method)
    with pytest.raises(CertificateError, match="is no chain of layers"):
        certify(SAMPLE, network=module, method=method, known=Known(base=Pretrained(module, SAYS)))


def test_code_that_cannot_be_read_is_said_to_be_so():
    with pytest.raises(CodeboundError, match="cannot be read"):
        certified(EachByItself().eval())


@pytest.mark.parametrize("rows", [-1, 201])
def test_scores_of_more_rows_than_there_are_are_refused(found, rows):
    table = replace(found.tables[0], rows=rows)
    with pytest.raises(UsageError, match=f"made from {rows} of the examples"):
        certify(SAMPLE, method="scores", known=Known(scores=table))
