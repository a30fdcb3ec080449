"""Attacks through the scores of a base that no message describes, and honest ones beside them.

The verifier runs no code of others: what it counts is a table with a hash. So what can go wrong is the table.
"""

from dataclasses import replace

import numpy as np
import pytest
from attack.networks import ATTACKS, SAMPLE, EachByItself, Residual

from codebound.certificate.file import Certificate
from codebound.certificate.verification import verify
from codebound.certification import certify
from codebound.known.base import Pretrained
from codebound.known.provenance import Origin, remember
from codebound.run.errors import CertificateError, CodeboundError

SAYS = "made by hand"


def certified(module, **options):
    return certify(module, SAMPLE, base=Pretrained(module, SAYS), method="biases", **options)


@pytest.fixture(scope="module")
def found():
    return certified(Residual().eval())


def test_honest_scores_are_declared_and_accepted(found):
    declared = " ".join(found.certificate.declarations)
    assert f"{SAYS}), which was fixed without looking at this sample" in declared
    assert found.sample.x.shape == (SAMPLE.n, 3)
    assert found.certificate.facts.errors <= found.original_errors
    assert verify(found.certificate, found.sample, base=found.base).reasons == ()


@pytest.mark.parametrize("change", ["a score", "a label", "an order"])
def test_another_table_is_refused(found, change):
    x, y = found.sample.x.copy(), found.sample.y.copy()
    if change == "a score":
        x[0, 0] = np.nextafter(x[0, 0], np.float32(9))
    elif change == "a label":
        y[0] = (y[0] + 1) % 3
    else:
        x, y = x[::-1], y[::-1]
    verdict = verify(found.certificate, replace(found.sample, x=x, y=y), base=found.base)
    assert any("the sample has SHA-256" in reason for reason in verdict.reasons)


def test_fewer_errors_than_the_table_has_are_refused(found):
    certificate = Certificate.from_bytes(found.certificate.to_bytes())
    facts = replace(certificate.facts, errors=certificate.facts.errors - 1)
    verdict = verify(replace(certificate, facts=facts), found.sample, base=found.base)
    assert any(f"errors on the {SAMPLE.n} examples" in reason for reason in verdict.reasons), verdict.reasons


@pytest.mark.few(5)
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


@pytest.mark.few(1)
@pytest.mark.parametrize("method", ["prune", "subspace", "naive", "mbp", "vector-project"])
def test_no_message_is_made_of_it_and_it_is_said_what_can_be_done(method):
    module = Residual().eval()
    advice = r"(?s)is no chain of layers .* give it as a base .*bound_through"
    with pytest.raises(CertificateError, match=advice):
        certify(module, SAMPLE, method=method)
    with pytest.raises(CertificateError, match="is no chain of layers"):
        certify(module, SAMPLE, base=Pretrained(module, SAYS), method=method)


def test_code_that_cannot_be_read_is_said_to_be_so():
    with pytest.raises(CodeboundError, match="cannot be read"):
        certified(EachByItself().eval())
