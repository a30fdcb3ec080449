"""Certificates that the verifier accepts only with a base or with unlabelled inputs beside them."""

from functools import cache

import numpy as np
import pytest
import torch
from torch import nn
from worlds.samples import clouds

import codebound
from codebound.known.provenance import Pretrained
from codebound.run.errors import CertificateError, UsageError
from codebound.sample.dataset import Sample
from codebound_papers.compare.table import compare
from codebound_papers.measure.record import MeasureSettings

PLAN = MeasureSettings(examples=10)
WORDS = "drawn from other clusters"


def clusters(n: int, *, seed: int, role: str = "train") -> Sample:
    return clouds(n, features=5, apart=3.0, seed=seed, role=role, in_turn=True)


SAMPLE, FRESH = clusters(150, seed=0), clusters(100, seed=1, role="unlabelled")


@torch.no_grad()
def near_identity(scale: float) -> nn.Module:
    net = nn.Sequential(nn.Linear(5, 3), nn.ReLU(), nn.Linear(3, 3))
    stream = np.random.default_rng(2)
    for weight in net.parameters():
        noise = torch.from_numpy(stream.normal(size=tuple(weight.shape)).astype(np.float32))
        weight.copy_(scale * noise)
        if weight.dim() == 2:
            weight += 2.0 * torch.eye(*weight.shape)
    return net


@cache
def from_base():
    base = Pretrained(near_identity(0.1), WORDS)
    return codebound.certify(
        SAMPLE,
        network=near_identity(0.12),
        method="naive",
        known=codebound.Known(base=base),
        run=codebound.Run(effort="quick"),
    )


@cache
def about_f():
    return codebound.certify(
        SAMPLE,
        network=near_identity(0.12),
        method="lowrank",
        claim=codebound.Claim(unlabelled=FRESH),
        run=codebound.Run(effort="quick"),
    )


def other_base():
    return {name: tensor.numpy() + 1.0 for name, tensor in near_identity(0.1).state_dict().items()}


def test_each_certificate_gets_what_it_was_made_with():
    sources = [found.certificate for found in (from_base(), about_f())]
    assert [each.statement for each in sources] == ["C-2", "C-12b"]
    table = compare(
        near_identity(0.12),
        SAMPLE,
        certificates=sources,
        bases=[other_base(), from_base().base],
        unlabelled=FRESH,
        settings=PLAN,
    )
    rows = {row.name: row for row in table.rows if row.kind == "certified"}
    for number, source in enumerate(sources, start=1):
        row = rows[f"Certificate (given {number})"]
        assert (row.value, row.subject) == (source.claim.bound, source.claim.subject)
    declared = "DECLARED, not checked: the base never saw the examples that are counted."
    for name, row in rows.items():  # of its certificate, and of what follows from that
        assert (declared in row.note) == name.startswith("Certificate (given 1)")
    assert f"Certificate (given 1). {declared}" in table.notes


@pytest.mark.parametrize(("bases", "reason"), [((), "--base"), ((other_base(),), "Base: ")])
def test_without_its_base_a_certificate_is_refused(bases, reason):
    with pytest.raises(CertificateError, match=reason):
        compare(
            near_identity(0.12), SAMPLE, certificates=[from_base().certificate], bases=bases, settings=PLAN
        )


@pytest.mark.parametrize(
    ("unlabelled", "reason"), [(None, "--unlabelled"), (clusters(100, seed=7, role="unlabelled"), "SHA-256")]
)
def test_without_its_unlabelled_inputs_a_certificate_is_refused(unlabelled, reason):
    with pytest.raises(CertificateError, match=reason):
        compare(
            near_identity(0.12),
            SAMPLE,
            certificates=[about_f().certificate],
            unlabelled=unlabelled,
            settings=PLAN,
        )


@pytest.mark.parametrize("given", [{"bases": [other_base()]}, {"unlabelled": FRESH}])
def test_what_belongs_to_a_certificate_needs_one(given):
    with pytest.raises(UsageError, match="give the certificate too"):
        compare(near_identity(0.12), SAMPLE, settings=PLAN, **given)
