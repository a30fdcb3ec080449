"""The certificate of an assessed message, never without the consent of the second program."""

from __future__ import annotations

import datetime
import hashlib
from typing import TYPE_CHECKING

from codebound import __version__
from codebound.bounds.occam import occam_hoeffding, occam_kl
from codebound.certificate.decoding import verify
from codebound.certificate.file import Certificate, CertificateFacts, Claim, Helper
from codebound.errors import CertificateError
from codebound.progress import Progress, silent
from codebound.refs import implements

if TYPE_CHECKING:
    from codebound.certificate.assessment import Assessed
    from codebound.certificate.task import Task


@implements("I-05", kind="certificate")
def issue(assessed: Assessed, task: Task, *, progress: Progress = silent) -> Certificate:
    """The certificate of an assessed message, checked by the independent verifier before it is returned.

    Raises:
        CertificateError: The verifier refuses: the certificate was never issued.
    """
    helper = task.helper(assessed.message)
    certificate = Certificate(
        claim=_claim(assessed),
        facts=CertificateFacts(
            n=assessed.facts.n,
            errors=assessed.facts.errors,
            code_bits=assessed.bits.length,
            classes=task.sample.classes,
            sample_sha256=task.sample.sha256,
            message_sha256=hashlib.sha256(assessed.bits.data).hexdigest(),
            extra={**assessed.conclusion.counted, **task.claim.described(task)},
        ),
        helper=helper,
        ledger=assessed.ledger,
        declarations=_declarations(assessed, task, helper),
        made_by={"codebound": __version__, "date": datetime.date.today().isoformat()},
        message=assessed.bits,
    )
    verdict = verify(
        certificate,
        task.sample,
        module=task.module,
        base=task.base_tensors,
        unlabelled=task.claim.unlabelled,
        original=task.f.arrays if task.claim.is_about_f else None,
        progress=progress,
    )
    if not verdict.is_accepted:
        raise CertificateError(
            "the independent verifier refuses this certificate, so it was not issued:\n  "
            + "\n  ".join(verdict.reasons)
        )
    return certificate


def _claim(assessed: Assessed) -> Claim:
    """The bound, with looser forms of it that are easier to compute."""
    facts, bound, apart = assessed.facts, assessed.bound, assessed.conclusion.disagreement
    return Claim(
        statement=bound.ref,
        subject=bound.subject,
        delta=bound.delta,
        bound=bound.value,
        kl=max(bound.value, min(1.0, occam_kl(facts).value + apart)),
        hoeffding=max(bound.value, min(1.0, occam_hoeffding(facts).value + apart)),
        vacuous=bound.vacuous,
    )


def _declarations(assessed: Assessed, task: Task, helper: Helper) -> tuple[str, ...]:
    """What has to be true and cannot be computed: the assumptions, and the helper in words."""
    scaling = helper.scaling
    lines = [
        *([] if helper.base is None else [helper.base.declared(assessed.bound.ref)]),
        *assessed.bound.assumptions,
        f"Inputs are scaled as (x / {scaling.divisor:g} - {list(scaling.mean)}) / {list(scaling.std)}.",
    ]
    lines.append(
        "The network is run in float64, or in float32: there the largest deviation seen on the sample was "
        f"{assessed.count.float32_deviation:.1e} of the largest logit."
    )
    if helper.architecture is not None:
        lines.append(f"The architecture {helper.architecture.name} was chosen without looking at the sample.")
    lines.extend(f"About the data: {warning}" for warning in task.sample.warnings)
    return tuple(line[:400] for line in lines)
