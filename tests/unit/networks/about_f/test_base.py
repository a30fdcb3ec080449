"""Certificates of networks that were fine-tuned from a base: what is coded, declared and refused."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn
from worlds.networks import mlp

from codebound.certificate.decoding import decode
from codebound.certificate.verification import verify
from codebound.certification import certify
from codebound.known.provenance import Pretrained
from codebound.methods.search import UnsuitedError
from codebound.request import Claim, Known, Run
from codebound.run.errors import CertificateError, ModelError, UsageError
from codebound.run.tensor_files import float32_sha256
from codebound.sample.arrays import from_arrays
from codebound_networks.about_f.base import load_base
from codebound_networks.chains.chain import Chain
from codebound_networks.chains.operations import Linear, MaxPool
from codebound_networks.methods import subspace_networks as subspace
from codebound_networks.train.config import TrainConfig
from codebound_networks.train.harness import fit

STREAM = np.random.default_rng(0)
CENTRES = STREAM.normal(size=(3, 6)).astype(np.float32) * 1.5
WORDS = "trained on other clusters"


def clusters(n, seed=0, name="clusters", shape=(6,)):
    stream = np.random.default_rng(seed)
    y = stream.integers(3, size=n)
    x = CENTRES[y] + stream.normal(size=(n, 6)).astype(np.float32)
    return from_arrays(x.reshape(n, *shape), y, name=name, classes=3)


SAMPLE = clusters(300)


def two_layers(hidden=8, classes=3, seed=0):
    return mlp(6, hidden, classes, seed=seed)


def solved(hidden=8):
    """A network that classifies by the nearest centre, so that nothing needs to be trained here."""
    model = two_layers(hidden)
    with torch.no_grad():
        centres = torch.from_numpy(CENTRES)
        model[0].weight.zero_()
        model[0].bias.zero_()
        model[2].weight.zero_()
        model[0].weight[:3] = centres
        model[0].bias[:3] = 20.0 - 0.5 * centres.square().sum(1)
        model[2].weight[:, :3] = torch.eye(3)
        model[2].bias.zero_()
    return model


def shifted(model, names, by=0.25):
    """A copy in which some tensors differ by little: fine-tuned by hand."""
    other = two_layers(model[0].out_features)
    other.load_state_dict(model.state_dict())
    with torch.no_grad():
        for name in names:
            other.get_parameter(name).view(-1)[0] += by
    return other


@pytest.fixture(scope="module")
def base():
    return Pretrained(solved(), WORDS)


def test_only_the_difference_is_coded_and_the_declaration_comes_first(base):
    fine_tuned = shifted(base.network, ["2.weight"])
    found = certify(
        SAMPLE, network=fine_tuned, method="prune", known=Known(base=base), run=Run(effort="quick")
    )
    alone = certify(SAMPLE, network=fine_tuned, method="prune", run=Run(effort="quick"))
    certificate = found.certificate
    assert (certificate.statement, certificate.limit.n) == ("C-2", SAMPLE.n)
    assert certificate.message.bits < 100 < alone.certificate.message.bits
    assert certificate.claim.bound < alone.certificate.claim.bound
    assert certificate.known.base.by == WORDS
    assert certificate.known.base.sha256 == float32_sha256(found.base)
    assert certificate.declarations[0].startswith(f"Base: {WORDS}, made of other data;")
    verdict = verify(certificate, SAMPLE, base=found.base)
    assert verdict.is_accepted
    assert any(WORDS in each for each in verdict.assumptions)
    again = decode(certificate, base=found.base).state_dict()
    assert all(torch.equal(again[name], value) for name, value in found.network.state_dict().items())


@pytest.mark.thorough
def test_a_base_that_is_f_costs_next_to_nothing_and_everything_rests_on_its_declaration(base):
    found = certify(
        SAMPLE, network=base.network, method="prune", known=Known(base=base), run=Run(effort="quick")
    )
    assert found.certificate.message.bits < 60
    assert not found.certificate.claim.vacuous
    by_scores = certify(SAMPLE, network=base.network, known=Known(base=base), run=Run(effort="quick"))
    assert (by_scores.method, by_scores.certificate.message.bits) == ("scores", 2)


@pytest.mark.parametrize("method", ["naive", "lowrank", "project", "sketch"])
def test_every_compressor_codes_the_difference(method, base):
    fine_tuned = shifted(base.network, ["0.weight", "2.weight", "0.bias"])
    if method == "sketch":
        with pytest.raises(UnsuitedError, match="recovers no layer"):
            certify(
                SAMPLE, network=fine_tuned, method=method, known=Known(base=base), run=Run(effort="quick")
            )
        return
    found = certify(
        SAMPLE, network=fine_tuned, method=method, known=Known(base=base), run=Run(effort="quick")
    )
    assert found.certificate.known.base is not None
    assert found.certificate.limit.errors < 100  # 200 by guessing


@pytest.mark.parametrize("method", ["conv", "lottery", "imp"])
def test_methods_that_leave_the_base_say_so(method, base):
    with pytest.raises(UnsuitedError, match=r"base|convolutions"):
        certify(SAMPLE, network=base.network, method=method, known=Known(base=base))


@pytest.mark.parametrize("method", ["auto", "prune"])
def test_statements_about_f_may_have_a_base_too(base, method):
    fine_tuned = shifted(base.network, ["2.weight"])
    fresh = from_arrays(clusters(200, 1).x, None, name="fresh", role="unlabelled")
    found = certify(
        SAMPLE,
        network=fine_tuned,
        method=method,
        known=Known(base=base),
        claim=Claim(unlabelled=fresh),
        run=Run(effort="quick"),
    )
    assert (found.certificate.statement, found.certificate.claim.subject) == ("C-12b", "f")
    assert found.certificate.known.base is not None
    assert not found.certificate.claim.vacuous
    low, high = float(SAMPLE.x.min()), float(SAMPLE.x.max())
    found = certify(
        SAMPLE,
        network=fine_tuned,
        method=method,
        known=Known(base=base),
        claim=Claim(input_range=(low, high)),
        run=Run(effort="quick"),
    )
    assert found.certificate.statement == "C-12a"
    assert not found.certificate.claim.vacuous  # theta covers the distance to f, not that to zero
    with pytest.raises(UsageError, match="not both"):
        certify(SAMPLE, network=fine_tuned, known=Known(base=base, share=0.5))


class TestSubspace:
    @pytest.fixture(autouse=True)
    def _short(self, monkeypatch):
        monkeypatch.setattr(subspace, "_STEPS", {"standard": 60, "max": 60})
        monkeypatch.setattr(subspace, "_RUNS", {"standard": 2, "max": 2})
        monkeypatch.setattr(subspace, "_EVALUATIONS", {"standard": 100, "max": 100})

    @pytest.mark.thorough
    def test_it_starts_at_the_base(self, base):
        found = certify(SAMPLE, network=base.network, method="subspace", known=Known(base=base))
        assert found.method == "subspace"
        alone = certify(SAMPLE, network=base.network, method="subspace")
        assert found.certificate.limit.errors < 60
        assert set(found.network.state_dict()) == set(found.base)  # biases too: the base has them
        assert alone.certificate.known.base is None
        assert not any("bias" in name for name in alone.network.state_dict())

    @pytest.mark.thorough
    def test_auto_leaves_it_out_where_the_scores_of_the_base_say_enough(self, base):
        found = certify(SAMPLE, network=base.network, known=Known(base=base))
        assert "more than guessing" in found.skipped["subspace"]  # scores take two bits
        assert "the same as subspace" in found.skipped["subspace-f"]

    @pytest.mark.thorough
    def test_around_the_base_of_a_split(self, base, monkeypatch):
        monkeypatch.setattr("codebound_networks.methods.inputs._PRIOR_STEPS", 50)
        found = certify(SAMPLE, network=base.network, method="subspace", known=Known(share=0.5))
        assert (found.certificate.statement, found.certificate.limit.n) == ("C-10", 150)
        made = found.certificate.known.base
        assert (made.by, made.of, made.rows) == ("the same architecture, trained anew", "no other data", 150)

    @pytest.mark.few(1)
    @pytest.mark.parametrize("has_base", [True, False])
    def test_batch_norms_are_folded_and_it_is_said(self, has_base):
        module = nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, 3))
        base = Pretrained(module, WORDS) if has_base else None
        found = certify(SAMPLE, network=module, method="subspace", known=Known(base=base))
        assert "Batch norms are folded (1): a method that trains anew does so without them." in found.notes
        assert not any(isinstance(part, nn.BatchNorm1d) for part in found.network.modules())


def test_a_base_of_another_architecture_names_the_tensor(base):
    with pytest.raises(ModelError, match=r"tensor 0\.weight has shape \(9, 6\); f has \(8, 6\)"):
        certify(SAMPLE, network=two_layers(8), known=Known(base=Pretrained(two_layers(9), WORDS)))
    with pytest.raises(ModelError, match=r"the base is no network like f: .* 5 outputs, the sample 3"):
        certify(SAMPLE, network=two_layers(8), known=Known(base=Pretrained(two_layers(8, classes=5), WORDS)))
    deeper = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 3))
    with pytest.raises(ModelError, match=r"tensor 1\.weight has shape \(3, 8\); f has \(8, 8\)"):
        certify(SAMPLE, network=deeper, known=Known(base=base))
    image = clusters(100, shape=(1, 6, 1))
    first, second = (
        Chain((1, 6, 1), (*front, Linear(3, True))).build(
            {"0.weight": torch.ones(3, 6), "0.bias": torch.ones(3)}
        )
        if not front
        else Chain((1, 6, 1), (*front, Linear(3, True))).build(
            {f"{len(front)}.weight": torch.ones(3, 6), f"{len(front)}.bias": torch.ones(3)}
        )
        for front in ((), (MaxPool(1),))
    )
    with pytest.raises(ModelError, match="another network than f"):
        certify(image, network=first, known=Known(base=Pretrained(second, WORDS)))


@pytest.mark.thorough
def test_a_base_of_other_operations():
    def module(slope):
        return nn.Sequential(nn.Linear(6, 5), nn.LeakyReLU(slope), nn.Linear(5, 3))

    with pytest.raises(ModelError, match="not the operations"):
        certify(SAMPLE, network=module(0.1), known=Known(base=Pretrained(module(0.2), WORDS)))


class TestLoading:
    def save(self, path, model, **changes):
        tensors = {name: value.clone() for name, value in model.state_dict().items()}
        tensors |= {name.replace("_", "."): value for name, value in changes.items()}
        save_file({name: value for name, value in tensors.items() if value is not None}, path)
        return path

    def test_the_whole_network(self, tmp_path):
        model, f = two_layers(seed=1), two_layers(seed=2)
        before = {name: value.clone() for name, value in f.state_dict().items()}
        found = load_base(self.save(tmp_path / "b.safetensors", model), f, sample=SAMPLE, says=WORDS)
        assert (found.says, found.zeroed, found.name) == (WORDS, (), WORDS)
        assert all(
            torch.equal(value, model.state_dict()[name]) for name, value in found.network.state_dict().items()
        )
        assert all(torch.equal(value, before[name]) for name, value in f.state_dict().items())

    def test_a_torch_checkpoint_and_words_from_its_name(self, tmp_path):
        torch.save({"state_dict": two_layers(seed=1).state_dict()}, tmp_path / "old.pt")
        assert load_base(tmp_path / "old.pt", two_layers(), sample=SAMPLE).says == "the file old.pt"

    @pytest.mark.parametrize(
        "changes",
        [
            {"2_weight": None, "2_bias": None},
            {"2_bias": None},
            {"2_weight": torch.ones(7, 8), "2_bias": torch.ones(7)},
        ],
        ids=["missing", "half missing", "seven classes"],
    )
    def test_a_last_layer_that_does_not_fit_starts_at_zero(self, changes, tmp_path):
        path = self.save(tmp_path / "b.safetensors", two_layers(seed=1), **changes)
        found = load_base(path, two_layers(), sample=SAMPLE)
        assert found.zeroed == ("2.weight", "2.bias")
        assert not found.network[2].weight.any()
        assert not found.network[2].bias.any()
        assert found.network[0].weight.equal(two_layers(seed=1)[0].weight)

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"0_weight": torch.ones(8, 7)}, r"0\.weight \(8, 7\) instead of \(8, 6\)"),
            ({"0_weight": None}, r"missing from the file: 0\.weight"),
            ({"5_weight": torch.ones(2)}, r"unknown to the network: 5\.weight"),
            ({"0_bias": torch.full((8,), torch.nan)}, r"NaN or infinity in 0\.bias"),
            ({"0_bias": torch.full((8,), 0.1, dtype=torch.float64)}, r"would change values: 0\.bias"),
        ],
        ids=["shape", "missing", "unknown", "nan", "float64"],
    )
    def test_other_layers_have_to_fit(self, changes, message, tmp_path):
        path = self.save(tmp_path / "b.safetensors", two_layers(seed=1), **changes)
        with pytest.raises(ModelError, match=message):
            load_base(path, two_layers(), sample=SAMPLE)

    def test_a_run_folder_that_was_trained_on_the_sample(self, tmp_path):
        path = self.save(tmp_path / "model.safetensors", two_layers(seed=1))
        (tmp_path / "result.json").write_text(json.dumps({"data_sha256": SAMPLE.sha256}))
        with pytest.raises(CertificateError, match="trained on this very sample"):
            load_base(path, two_layers(), sample=SAMPLE)
        load_base(path, two_layers(), sample=clusters(300, 1))
        for other in ("[]", "{}", "not json"):
            (tmp_path / "result.json").write_text(other)
            load_base(path, two_layers(), sample=SAMPLE)

    @pytest.mark.parametrize(("data", "is_said"), [("clusters", 1), ("clusters:test", 1), ("mnist", 0)])
    def test_a_run_folder_that_names_data_of_the_same_name(self, data, is_said, tmp_path):
        """It may be another part of them: that no row is shared is then part of what is declared."""
        path = self.save(tmp_path / "model.safetensors", two_layers(seed=1))
        (tmp_path / "result.json").write_text(json.dumps({"data_sha256": "0" * 64, "data": data}))
        assert SAMPLE.name == "clusters"
        found = load_base(path, two_layers(), sample=SAMPLE, says="somebody's")
        assert (f"trained on {data!r}, data of the same name" in found.name) == is_said

    @pytest.mark.parametrize("rows", [range(40, 300), range(300), range(270, 300), range(300, 400)])
    def test_a_run_folder_that_was_trained_on_rows_of_the_sample(self, rows, tmp_path):
        whole = clusters(400, 3, name="all of them")
        fit(two_layers(), whole.select(range(300), role="train"), TrainConfig(epochs=1), out=tmp_path / "run")
        sample = replace(whole.select(rows, role="train"), name="elsewhere")
        if rows[0] >= 300:
            assert (
                load_base(tmp_path / "run" / "model.safetensors", two_layers(), sample=sample).same_data == ""
            )
            return
        words = "this very sample" if len(rows) == 300 else f"{len(rows)} of the {len(rows)} inputs"
        with pytest.raises(CertificateError, match=f"was trained on {words}"):
            load_base(tmp_path / "run" / "model.safetensors", two_layers(), sample=sample)

    def test_the_weights_of_an_epoch_of_a_run_that_was_killed(self, tmp_path):
        (tmp_path / "config.json").write_text(json.dumps({"data_sha256": SAMPLE.sha256}))
        (tmp_path / "epochs").mkdir()
        path = self.save(tmp_path / "epochs" / "000003.safetensors", two_layers(seed=1))
        with pytest.raises(CertificateError, match="trained on this very sample"):
            load_base(path, two_layers(), sample=SAMPLE)

    @pytest.mark.parametrize("statement", ["C-2", "C-10"])
    def test_the_base_beside_a_certificate_is_one_again_unless_it_saw_a_part(self, statement, tmp_path):
        record = {"data_sha256": SAMPLE.sha256, "statement": statement}
        (tmp_path / "result.json").write_text(json.dumps(record))
        paths = [self.save(tmp_path / f"{name}.safetensors", two_layers(seed=1)) for name in ("g", "base")]
        for path in paths[: 1 if statement == "C-2" else 2]:
            with pytest.raises(CertificateError, match="trained on this very sample"):
                load_base(path, two_layers(), sample=SAMPLE)
        if statement == "C-2":
            load_base(paths[1], two_layers(), sample=SAMPLE)

    @pytest.mark.parametrize("says", [" ", "a\nb", "x" * 201])
    def test_words_that_cannot_be_printed_in_one_line(self, says):
        with pytest.raises(UsageError, match="one line"):
            Pretrained(two_layers(), says)
