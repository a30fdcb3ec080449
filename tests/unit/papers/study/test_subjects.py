"""The network of a study: given, read from files, or trained here; and its certificates."""

import pytest
import torch
from safetensors.torch import save_file
from worlds.networks import Skipping, mlp
from worlds.samples import clouds

import codebound as cb
from codebound.certificate.file import Certificate
from codebound.run.errors import UsageError
from codebound.run.extensions import Studies, Study
from codebound_networks.codes.choose import best_tensor_code
from codebound_networks.train.config import TrainConfig
from codebound_networks.train.harness import fit
from codebound_papers.compress.compressors import round_weight
from codebound_papers.study.subjects import subject


def codes_of(about, levels=15):
    return {view.name: round_weight(view.weight.detach(), levels).code for view in about.network.layers}


def test_without_a_network_one_is_trained_on_four_fifths():
    about = subject("mlp:widths=8", epochs=2)
    assert (about.sample.n, about.test_set.n, sorted(about.by_epoch)) == (1437, 360, [0, 1, 2])
    assert about.words("compare").endswith("--data digits --holdout 0.2 --margin-share 0.05")
    assert about.words("measure").endswith("--data digits")
    assert "--input-shape 1x8x8 --classes 10" in about.words("sketch")
    assert any("held out" in note for note in about.notes)


def test_a_network_that_is_given_gets_no_tests_that_it_may_have_seen(tmp_path):
    net = mlp(64, 8, 10, flat=True)
    state = {"linear1.weight": net[1].weight, "linear1.bias": net[1].bias}
    state |= {"linear2.weight": net[3].weight, "linear2.bias": net[3].bias}
    save_file({name: each.detach() for name, each in state.items()}, tmp_path / "w.safetensors")
    about = subject("mlp:widths=8", "digits", weights=tmp_path / "w.safetensors")
    assert about.test_set is None
    assert about.errors(about.f)[1] is None
    assert torch.equal(next(about.f.parameters()), net[1].weight)


def test_the_folder_of_a_training_has_the_network_at_every_epoch(tmp_path):
    from codebound_networks.reading.loading import load_model

    sample = clouds(90, classes=3, features=4)
    start = load_model("linear", input_shape=(4,), classes=3)
    run = fit(start, sample, TrainConfig(epochs=3, keep_every=1), out=tmp_path / "run")
    about = subject("linear", sample, weights=tmp_path / "run")
    assert sorted(about.by_epoch) == [1, 2, 3]
    assert torch.equal(next(about.f.parameters()), next(run.model.parameters()))


def test_g_is_the_network_that_its_certificate_is_about():
    sample = clouds(120, classes=3, features=5, apart=6.0)
    about = subject(mlp(5, 6, 3), sample)
    codes = codes_of(about)
    found = about.certify(codes)
    assert isinstance(found, Certificate)
    g = about.build({name: torch.from_numpy(code.weights()) for name, code in codes.items()})
    assert found.limit.errors / sample.n == pytest.approx(about.errors(g)[0], abs=1.5 / sample.n)


def test_what_is_no_chain_has_a_reason_and_no_certificate():
    about = subject(Skipping(5, 3), clouds(60, classes=3, features=5))
    said = about.certify(codes_of(about))
    assert isinstance(said, str)
    assert "read more than once" in said
    g = about.build({view.name: torch.zeros_like(view.weight) for view in about.network.layers})
    assert float(next(g.parameters()).detach().abs().max()) == 0.0


def test_widths_are_those_of_a_perceptron():
    about = subject("mlp:depth=2,width=8,bias=false", epochs=1)
    assert about.widen(5) == "mlp:depth=2,bias=false,width=5"
    assert next(about.like(spec=about.widen(5)).parameters()).shape == (5, 64)
    for spec in ("linear", "mlp:widths=8"):
        with pytest.raises(UsageError, match="other widths are those of mlp"):
            subject(spec, epochs=1).widen(5)


def test_a_module_has_no_architecture_to_train_others_by():
    about = subject(mlp(4, 3), clouds(30, classes=3, features=4))
    with pytest.raises(UsageError, match="by an architecture"):
        about.like(label_shuffle=1.0)


def test_a_folder_without_weights_is_refused(tmp_path):
    with pytest.raises(Exception, match=r"config\.json"):
        subject("linear", "digits", weights=tmp_path)


def test_codes_of_any_kind_are_taken():
    about = subject(mlp(4, 3), clouds(40, classes=3, features=4))
    (view,) = about.network.layers
    zero = best_tensor_code(torch.zeros_like(view.weight).int().numpy(), step=0)
    assert about.certify({view.name: zero}).message.bits > 0


def test_the_product_types_what_the_papers_bring():
    """The product imports no paper: a protocol names the calls, and this is where both are seen."""
    assert set(Studies.__annotations__) <= set(cb.study.__all__)
    assert all(getattr(cb.study, name) for name in Studies.__annotations__)
    assert cb.study.sketch is cb.sketch
    assert all(hasattr(cb.study.StudyResult, name) for name in Study.__annotations__)
