"""Modules of factories: those that the header names count, and what no message can carry is refused."""

import re

import cbound_writer as writer
import pytest
import torch
from torch import nn
from worlds.literal import float32, linear_logits, refused

from codebound_verify import decode_network, verify
from codebound_verify.factories.factory import message_state, parts_sha256
from codebound_verify.factories.graph import trace

CHAIN = [["linear", 3, True]]


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.one = nn.Linear(4, 3)
        self.two = self.one

    def forward(self, x):
        return self.one(x.flatten(1))


class Counting(nn.Linear):
    """Has a buffer that no message can carry."""

    def __init__(self) -> None:
        super().__init__(4, 3)
        self.register_buffer("calls", torch.zeros(1, dtype=torch.int64))


class Hidden(nn.Linear):
    def __init__(self):
        super().__init__(4, 3)
        self.register_buffer("secret", torch.ones(1), persistent=False)


class Stubborn(nn.Linear):
    def train(self, mode=True):
        return super().train(True)


def model() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(4, 3))


class TestFactory:
    def certificate(self, factory=model, copies=("1",)):
        x, y = writer.clusters()
        tensors = {}
        for i, prefix in enumerate(copies):
            tensors[f"{prefix}.weight"] = writer.adaptive(writer.WEIGHT * (1 + i), -3)
            tensors[f"{prefix}.bias"] = writer.dense(writer.BIAS, 1)
        message = writer.Message(None, tensors)
        g = float32(tensors)
        errors = writer.count(
            linear_logits(x, {"0.weight": g[f"{copies[0]}.weight"], "0.bias": g[f"{copies[0]}.bias"]}), y
        )
        module = factory().eval()
        graph = trace(module, input_shape=x.shape[1:], carried=tuple(message_state(module)))
        named = writer.factory(graph.sha256)
        fields = writer.header(message, x, y, errors=errors, classes=3, architecture=named)
        return writer.write(message, fields), x, y

    def test_accepted(self):
        data, x, y = self.certificate()
        assert verify(data, x, y, factory=model).reasons == ()
        chain, tensors = decode_network(data, factory=model)
        assert chain is None
        assert list(tensors) == ["1.weight", "1.bias"]

    def test_the_price_of_the_graph_is_said_with_the_bound_that_pays_for_it(self):
        data, x, y = self.certificate()
        verdict = verify(data, x, y, factory=model)
        (line,) = [line for line in verdict.assumptions if "Spelled out" in line]
        assert "'tests:model' was chosen without looking at the 400 examples" in line
        bits, paid = re.search(r"takes (\d+) bits; .* the bound is ([\d.]+)\.$", line).groups()
        exact = writer.binomial_limit(verdict.errors, 400, verdict.code_bits + int(bits), verdict.delta)
        assert verdict.bound < exact <= float(paid) <= exact + 1e-4

    def test_version_1_hashes_the_parts_as_its_page_says(self):
        import hashlib

        text = (
            '[["","torch.nn.modules.container.Sequential",""],'
            '["0","torch.nn.modules.flatten.Flatten","start_dim=1, end_dim=-1"],'
            '["1","torch.nn.modules.linear.Linear","in_features=4, out_features=3, bias=True"],'
            '["1.weight","torch.float32",[3,4]],["1.bias","torch.float32",[3]]]'
        )
        assert parts_sha256(model()) == hashlib.sha256(text.encode()).hexdigest()

    def test_missing_or_another_factory(self):
        data, x, y = self.certificate()
        refused(verify(data, x, y), "--model")
        other = lambda: nn.Sequential(nn.Flatten(), nn.Linear(4, 3), nn.ReLU())  # noqa: E731
        refused(verify(data, x, y, factory=other), "its graph has SHA-256")

    @pytest.mark.few(3)
    @pytest.mark.parametrize(
        ("factory", "reason"),
        [
            (lambda: 1 / 0, "calling it failed: ZeroDivisionError"),
            (lambda: 7, "returned int"),
            (lambda: Stubborn(4, 3), "training mode"),
            (Hidden, "secret is not in the state dict"),
            (Counting, "calls in the state dict is no floating-point tensor"),
            (lambda: nn.BatchNorm1d(4, track_running_stats=False), "statistics of the batch"),
        ],
    )
    def test_modules_that_no_message_can_carry(self, factory, reason):
        data, x, y = self.certificate()
        refused(verify(data, x, y, factory=factory), reason)

    def test_a_module_that_fails_or_returns_something_else(self):
        for factory, reason in (
            (lambda: nn.Sequential(nn.Linear(4, 3)), "cannot trace its module (RuntimeError"),
            (lambda: nn.Sequential(nn.Flatten(), nn.Linear(4, 3), nn.Unflatten(1, (3, 1))), "one row of"),
            (lambda: nn.Sequential(nn.Flatten(), nn.Linear(4, 2)), "its graph has SHA-256"),
        ):
            data, x, y = self.certificate()
            refused(verify(data, x, y, factory=factory), reason)

    def test_tied_tensors_must_agree(self):
        data, x, y = self.certificate(Tied, ("one", "two"))
        refused(verify(data, x, y, factory=Tied), "shares memory")
