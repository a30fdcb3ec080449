"""The network that one has, bounded through a certificate of another: how often the two differ is counted.

R(f) <= R(g) + P(f and g differ): the first term by any certificate about g (picks, a split, a message), the
second by fresh unlabelled inputs. The failure probabilities add up.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from codebound.bounds.numerics import float_above
from codebound.bounds.original import through_disagreement
from codebound.bounds.risk import HoldoutFacts, check_delta, percent
from codebound.certificate.decoding import decode
from codebound.certificate.evaluate import parts_of, winners
from codebound.certificate.file import Certificate
from codebound.certificate.verification import verify
from codebound.run.errors import CertificateError, UsageError
from codebound.sample.counting import Verdicts, count
from codebound.sample.dataset import require_disjoint
from codebound.sample.order import Design, arrange
from codebound.sample.questions import Question
from codebound_networks.about_f.batch_independence import require_one_example
from codebound_networks.views.rebuild import with_weights

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray
    from torch import nn

    from codebound.sample.dataset import Sample


@dataclass(frozen=True, slots=True, kw_only=True)
class DisagreementBound:
    """A bound on the risk of f through that of g."""

    bound: float  # on the risk of f
    delta: float  # failure probability, of both draws together
    statement: str  # of the certificate about g
    bound_of_g: float  # what it says
    disagreements: int  # unlabelled inputs on which f and g differ, or one of them is ambiguous
    n_unlabelled: int  # those that count, copies as the certificate reads them

    @property
    def sentence(self) -> str:
        """Conclusion in words."""
        return (
            f"With probability at least 1 - {self.delta:g} over both draws, the network f errs on at most "
            f"{percent(self.bound)} of new data ({percent(self.bound_of_g)} for g by {self.statement}, and "
            "the limit on how often they differ), if the unlabelled inputs were used for no choice."
        )


def bound_through(
    certificate: Certificate | Path | str,
    f: nn.Module,
    *,
    sample: Sample,
    unlabelled: Sample,
    delta: float = 0.025,
    base: Mapping[str, NDArray[np.float32]] | None = None,
    weights: Path | str | None = None,
    tables: Sequence[Mapping[str, NDArray[Any]]] = (),
) -> DisagreementBound:
    """Bounds the risk of f by a certificate about g and by how often f and g differ on unlabelled inputs.

    Args:
        certificate: About g; it is verified first.
        f: Any network of one example, with as many outputs as there are classes; it is run in float64.
        sample: The sample of the certificate.
        unlabelled: Fresh inputs, used for no choice whatsoever, none of them in the sample.
        delta: Failure probability of the limit on the disagreement, beside that of the certificate.
        base: The tensors of the base, where the message codes differences.
        weights: The file of a classifier that was learned from the sample.
        tables: Declared tables of scores, where the certificate names some beside g.

    Raises:
        CertificateError: The verifier refuses the certificate, or it is about another network than g.
    """
    check_delta(delta)
    found = certificate if isinstance(certificate, Certificate) else Certificate.load(certificate)
    if found.claim.subject != "g" or not found.question.is_plain or found.sample.clusters is not None:
        raise CertificateError("a bound goes through a certificate about the errors of g on every row.")
    if found.has_table:
        raise CertificateError("a bound goes through a network, and of this g the scores alone are declared.")
    total = Fraction(delta) + Fraction(found.claim.delta)
    if total >= 1:
        raise UsageError(f"both failure probabilities together are below 1. Got {float(total)}.")
    require_disjoint(unlabelled, sample)
    beside = weights if found.is_learned else None
    verdict = verify(found, sample, base=base, weights=beside, tables=tables)
    if not verdict.is_accepted:
        raise CertificateError("the verifier refuses the certificate:\n  " + "\n  ".join(verdict.reasons))
    require_one_example(f, unlabelled)
    g = decode(found, base=base, weights=weights)
    agree = find_agreements(f, g, unlabelled, takes_stored=found.is_learned)
    errors, n = count_disagreements(agree, unlabelled, copies=found.sample.copies)
    return DisagreementBound(
        bound=through_disagreement(found.claim.bound, HoldoutFacts(errors=errors, n=n, delta=delta)),
        delta=float_above(total),
        statement=found.statement,
        bound_of_g=found.claim.bound,
        disagreements=errors,
        n_unlabelled=n,
    )


@torch.no_grad()
def find_agreements(
    f: nn.Module, g: nn.Module, unlabelled: Sample, *, takes_stored: bool
) -> NDArray[np.bool_]:
    """Inputs on which the two clearly predict the same. To g they go scaled, or as they are stored."""
    f = with_weights(f, f.state_dict()).double().eval()
    g = g if takes_stored else g.double().eval()
    parts = []
    for at in parts_of(unlabelled):
        x = torch.from_numpy(unlabelled.x[at])
        scaled = unlabelled.scaling.apply(x, torch.float64)
        of_f, is_sure_of_f = winners(f(scaled))
        of_g, is_sure_of_g = winners(g(x if takes_stored else scaled))
        parts.append((is_sure_of_f & is_sure_of_g & (of_f == of_g)).numpy())
    return np.concatenate(parts)


def count_disagreements(agree: NDArray[np.bool_], unlabelled: Sample, *, copies: str) -> tuple[int, int]:
    """Disagreements and inputs, counted like errors among rows with copies (docs/format.md, 6.3 and 9.1)."""
    fresh, every = arrange(unlabelled, Design(order="file", copies=copies)), np.ones_like(agree)
    (tally,) = count(
        fresh,
        Verdicts(agree, every, every),
        question=Question(),
        known=np.zeros(0, np.int64),
        classes=np.zeros(1, np.int64),
    )
    return tally.errors, tally.n
