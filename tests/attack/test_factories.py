"""Attacks through the code of a factory: what it may not hold, and what it may not look at.

Every attack is a module whose certificate is in order, names what it can, and claims nothing, so that only
the code can be the reason to refuse. The honest network beside them is accepted.
"""

import cbound_writer as writer
import pytest
import torch
from attack.crafting import X, Y, refused
from attack.networks import (
    ATTACKS,
    CHANGES,
    NUMBERS,
    SAMPLE,
    AnotherAlone,
    EachByItself,
    Plain,
    Random,
    Residual,
)
from torch import Tensor, nn

from codebound.certification import certify
from codebound.run.errors import CodeboundError
from codebound_networks.reading.source_file import load_file
from codebound_verify import Refused, verify
from codebound_verify.factories.factory import message_state, parts_sha256, sources
from codebound_verify.factories.graph import trace


def message_of(module: nn.Module, *, version: int = 2) -> writer.Message:
    codes = {
        name: writer.raw(each.numpy()) if each.any() else writer.zero(tuple(each.shape))
        for name, each in message_state(module).items()
    }
    return writer.Message(None, codes, version=version)


def certificate(factory, *, version: int = 2) -> bytes:
    """A file about the module of a factory as it is; every example may be an error."""
    module = factory().eval()
    state, message = message_state(module), message_of(module, version=version)
    if version == 1:
        named = {"name": "tests:model", "graph_sha256": parts_sha256(module)}
    else:
        try:
            named = writer.factory(trace(module, input_shape=X.shape[1:], carried=tuple(state)).sha256)
        except Refused:
            named = writer.factory()
    fields = writer.header(message, X, Y, errors=len(Y), classes=3, architecture=named)
    return writer.write_as(version, message, fields)


@pytest.mark.few(2)
@pytest.mark.parametrize("version", [1, 2, 3])
def test_an_honest_residual_network_is_accepted(version):
    verdict = verify(certificate(Residual, version=version), X, Y, factory=Residual)
    assert verdict.reasons == ()


@pytest.mark.parametrize("name", ATTACKS)
def test_the_verifier_refuses(name):
    factory, because = ATTACKS[name]
    verdict = refused(certificate(factory), because, factory=factory)
    assert all(because in reason for reason in verdict.reasons), "nothing else is wrong with it"


@pytest.mark.few(3)
@pytest.mark.parametrize("version", [1, 3])
@pytest.mark.parametrize(
    "name", ["a plain attribute", "a global of the module", "dropout", "ranks in the batch"]
)
def test_the_verifier_refuses_in_files_of_other_versions(name, version):
    factory, because = ATTACKS[name]
    refused(certificate(factory, version=version), because, factory=factory)


PAID = {  # what the code hides is lifted into the message, and paid for
    "a plain attribute",
    "the sample in a tuple",
    "a global of the module",
    "a closure",
    "an array that becomes a tensor",
    "a literal tensor",
    "a buffer that is not saved",
    "weights in the sizes of tensors",
}


@pytest.mark.few(3)
@pytest.mark.parametrize("name", sorted(set(ATTACKS) - PAID))
def test_certify_refuses(name):
    module = ATTACKS[name][0]().eval()
    words = (
        "cannot be read|no function of one|the code of this|no operation of torch|draws random|remembers|"
        "counts its calls|it reads memory or files that nobody has written for it"
    )
    with pytest.raises(CodeboundError, match=words):
        certify(module, SAMPLE, factory="tests:model", method="prune", effort="quick")


@pytest.mark.thorough
@pytest.mark.parametrize("name", sorted(PAID))
def test_certify_makes_the_message_pay_for_what_is_hidden(name, tmp_path):
    torch.manual_seed(0)
    found = certify(ATTACKS[name][0]().eval(), SAMPLE, method="prune", effort="quick")
    honest = sum(tensor.numel() for tensor in Plain().state_dict().values())
    assert sum(tensor.numel() for tensor in found.network.state_dict().values()) > honest
    assert not any(f"{abs(number):.3f}" in found.source for row in NUMBERS for number in row)
    (tmp_path / "written.py").write_text(found.source)
    made = load_file(tmp_path / "written.py").make
    assert verify(found.certificate.to_bytes(), X, Y, factory=made).reasons == ()


def test_certify_says_what_to_do():
    with pytest.raises(CodeboundError, match=r"nn\.Dropout"):
        certify(Random().eval(), SAMPLE, method="prune", effort="quick")


def test_certify_accepts_the_honest_network():
    found = certify(Residual().eval(), SAMPLE, factory="tests:model", method="prune", effort="quick")
    assert found.certificate.helper.architecture.graph_sha256 is not None


def test_a_module_that_cannot_be_copied_is_refused():
    class Single(Plain):
        def forward(self, x: Tensor) -> Tensor:
            return self.last(x.flatten(1))

        def __deepcopy__(self, memo):
            raise RuntimeError("there is only one")

    refused(certificate(Single), "does not take the tensors: RuntimeError", factory=Single)


def test_other_constants_have_another_hash():
    """A number of the code is part of the function, and so of its name."""

    class Scaled(Plain):
        factor = 2.0

        def forward(self, x: Tensor) -> Tensor:
            return self.last(x.flatten(1) * self.factor)

    data = certificate(Scaled)
    assert verify(data, X, Y, factory=Scaled).reasons == ()
    Scaled.factor = 3.0
    refused(data, "its graph has SHA-256", factory=Scaled)


class TestTrustedCode:
    """Code that cannot be traced, and a reader who says that he trusts it."""

    def data(self, factory=EachByItself) -> bytes:
        module = factory().eval()
        message = message_of(module)
        named = writer.factory(None, sources(module))
        return writer.write(
            message, writer.header(message, X, Y, errors=len(Y), classes=3, architecture=named)
        )

    def test_it_is_refused_without_the_flag(self):
        refused(self.data(), "--trust-code", factory=EachByItself)

    def test_it_is_an_assumption_with_the_flag(self):
        verdict = verify(self.data(), X, Y, factory=EachByItself, trust_code=True)
        assert verdict.reasons == ()
        assert verdict.assumptions[0].startswith("TRUSTED, not checked: the code of")
        assert sources(EachByItself())[0][1] in verdict.assumptions[0]

    def test_other_code_is_not_trusted(self, monkeypatch):
        data = self.data()
        monkeypatch.setattr(
            "codebound_verify.factories.factory.sources", lambda module: (("nets", "0" * 64),)
        )
        refused(data, "Factory: its code is", factory=EachByItself, trust_code=True)

    def test_code_without_a_file_is_not_trusted(self):
        data = certificate(EachByItself)  # names a graph that it does not have, and no sources
        refused(data, "Factory: its code is", factory=EachByItself, trust_code=True)

    @pytest.mark.parametrize("name", ["dropout", "noise that torch does not see", "a counter of calls"])
    def test_trust_does_not_make_a_function(self, name):
        factory = ATTACKS[name][0]
        refused(self.data(factory), CHANGES, factory=factory, trust_code=True)

    def test_trust_does_not_excuse_company(self):
        refused(self.data(AnotherAlone), "rest of the batch", factory=AnotherAlone, trust_code=True)

    def test_certify_with_trust(self):
        module = EachByItself().eval()
        found = certify(
            module, SAMPLE, factory="tests:model", trust_code=True, method="prune", effort="quick"
        ).certificate
        assert found.helper.architecture.graph_sha256 is None
        assert any("TRUSTED, not checked" in line for line in found.declarations)
        assert verify(found.to_bytes(), X, Y, factory=EachByItself).bound is None
        assert verify(found.to_bytes(), X, Y, factory=EachByItself, trust_code=True).reasons == ()
