import json
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file
from torch import nn
from worlds.networks import normed_and_dropped
from worlds.samples import random_labels

from codebound.run.errors import CodeboundError, FormatError, UsageError
from codebound.sample.dataset import Sample, Scaling
from codebound_networks.train.config import Step, TrainConfig
from codebound_networks.train.harness import fit
from codebound_networks.train.runs import epochs_on_disk, load_epochs

SGD = TrainConfig(
    optimizer="sgd", learning_rate=0.05, schedule=Step(every=2, multiply=0.5), epochs=5, batch_size=16
)
ADAM = TrainConfig(optimizer="adam", learning_rate=0.01, epochs=5, batch_size=16)


class PowerCutError(Exception):
    pass


def noise(seed: int = 0) -> Sample:
    return random_labels(70, shape=(4,), classes=3, seed=seed)


def net(width: int = 12, seed: int = 0) -> nn.Module:
    return normed_and_dropped(width, dropout=0.3, seed=seed)


def cut_after(epoch):
    def cut(at, network):
        if at == epoch:
            raise PowerCutError

    return cut


def interrupted(config, out, *, after=3):
    """A run that dies in the epoch after its checkpoint of epoch ``after - 1``."""
    with pytest.raises(PowerCutError):
        fit(net(), noise(), config, out=out, on_epoch=cut_after(after))


def facts(result):
    return (
        result.weights_sha256,
        result.train_errors,
        [(row.epoch, row.loss, row.running_errors, row.learning_rate) for row in result.history],
    )


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "config", [SGD, ADAM, replace(SGD, momentum=0.0)], ids=["sgd", "adam", "no momentum"]
)
def test_an_interrupted_run_ends_with_the_same_bits(config, tmp_path):
    whole = fit(net(), noise(), config)
    interrupted(config, tmp_path / "run")
    assert epochs_on_disk(tmp_path / "run") == 2
    seen = []
    result = fit(net(), noise(), config, out=tmp_path / "run", on_epoch=lambda at, _: seen.append(at))
    assert seen == [3, 4, 5]
    assert result.resumed_from == 2
    assert facts(result) == facts(whole)


@pytest.mark.parametrize("config", [SGD, ADAM], ids=["sgd", "adam"])
def test_equality_of_bits_has_teeth_without_the_optimiser_state(config, tmp_path, monkeypatch):
    whole = fit(net(), noise(), config)
    interrupted(config, tmp_path / "run")
    monkeypatch.setattr(torch.optim.Optimizer, "load_state_dict", lambda self, state: None)
    assert facts(fit(net(), noise(), config, out=tmp_path / "run")) != facts(whole)


def test_a_run_folder_changes_nothing_and_holds_what_it_should(tmp_path):
    out = tmp_path / "new" / "run"
    result = fit(net(), noise(), ADAM, out=out)
    assert facts(result) == facts(fit(net(), noise(), ADAM))
    assert {path.name for path in out.iterdir()} == {
        "config.json",
        "rows.bin",
        "history.jsonl",
        "model.safetensors",
        "result.json",
    }
    assert json.loads((out / "config.json").read_text())["schedule"] == "constant"
    assert json.loads((out / "result.json").read_text())["weights_sha256"] == result.weights_sha256
    assert [json.loads(line)["epoch"] for line in (out / "history.jsonl").read_text().splitlines()] == [
        1,
        2,
        3,
        4,
        5,
    ]
    saved = load_file(out / "model.safetensors")
    assert all(torch.equal(saved[name], value) for name, value in result.model.state_dict().items())


def test_the_same_run_writes_the_same_weights_file(tmp_path):
    for name in ("one", "two"):
        fit(net(), noise(), SGD, out=tmp_path / name)
    one, two = (tmp_path / name / "model.safetensors" for name in ("one", "two"))
    assert one.read_bytes() == two.read_bytes()


def test_a_finished_run_is_read_and_not_trained_again(tmp_path):
    first = fit(net(), noise(), ADAM, out=tmp_path, test_set=noise(1))
    again = fit(net(), noise(), ADAM, out=tmp_path, test_set=noise(1), on_epoch=cut_after(1))
    assert facts(again) == facts(first)
    assert again.record() == first.record()
    assert again.resumed_from == again.epochs == 5
    assert all(
        torch.equal(a, b) for a, b in zip(first.model.parameters(), again.model.parameters(), strict=True)
    )
    assert not again.model.training


def test_what_drafts_wrote_into_a_history_is_left_out(tmp_path):
    first = fit(net(), noise(), ADAM, out=tmp_path)
    path = tmp_path / "history.jsonl"
    rows = [json.loads(line) | {"measures": {}} for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert fit(net(), noise(), ADAM, out=tmp_path).history == first.history
    path.write_text("{}\n")
    with pytest.raises(FormatError, match="history"):
        fit(net(), noise(), ADAM, out=tmp_path)


def test_checkpoints_may_be_rarer(tmp_path):
    config = TrainConfig(epochs=5, batch_size=16, checkpoint_every=2)
    interrupted(config, tmp_path, after=4)
    assert epochs_on_disk(tmp_path) == 2
    assert fit(net(), noise(), config, out=tmp_path).resumed_from == 2


@pytest.mark.few(6)
@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"config": TrainConfig(epochs=6, batch_size=16, learning_rate=0.01)}, "epochs is 5 there, 6 here"),
        (
            {"config": TrainConfig(epochs=5, batch_size=16, learning_rate=0.02)},
            "learning_rate is 0.01 there, 0.02 here",
        ),
        ({"train_set": noise(1)}, "data_sha256 is "),
        ({"train_set": replace(noise(), scaling=Scaling(2.0))}, "scaling is 'Scaling(divisor=1.0"),
        ({"test_set": noise(1)}, "test_sha256 is None there"),
        ({"model": net(13)}, "architecture is 'Sequential with 123 parameters"),
        ({"model": net(seed=1)}, "start_sha256 is "),
    ],
)
@pytest.mark.parametrize("finished", [False, True])
def test_another_run_is_refused_with_what_differs(change, named, finished, tmp_path):
    if finished:
        fit(net(), noise(), ADAM, out=tmp_path)
    else:
        interrupted(ADAM, tmp_path)
    arguments = {"model": net(), "train_set": noise(), "config": ADAM, "test_set": None, **change}
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(UsageError, match=r"holds another run") as refusal:
        fit(
            arguments["model"],
            arguments["train_set"],
            arguments["config"],
            test_set=arguments["test_set"],
            out=tmp_path,
        )
    assert named in str(refusal.value)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_folder_that_is_no_run_is_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("precious")
    (tmp_path / ".download.partial").write_text("also")
    with pytest.raises(UsageError, match=r"is not empty and holds no run"):
        fit(net(), noise(), ADAM, out=tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"thesis.tex", ".download.partial"}
    with pytest.raises(UsageError, match="cannot be used"):
        fit(net(), noise(), ADAM, out=tmp_path / "thesis.tex")


def test_the_rest_of_a_write_that_was_killed_is_cleared_away(tmp_path):
    (tmp_path / ".config.json.0123.partial").write_text("{")
    fit(net(), noise(), ADAM, out=tmp_path)
    assert not list(tmp_path.glob("*.partial"))


def flip(content: bytes) -> bytes:
    return content[:-9] + bytes([content[-9] ^ 1]) + content[-8:]


@pytest.mark.parametrize(
    "damage",
    [lambda content: content[:-20], lambda content: content[:30], lambda content: b"", flip],
    ids=["tail cut", "header cut", "empty", "bit flipped"],
)
def test_a_damaged_checkpoint_is_refused_by_name(damage, tmp_path):
    interrupted(ADAM, tmp_path)
    path = tmp_path / "checkpoint.safetensors"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(FormatError, match=r"checkpoint\.safetensors"):
        fit(net(), noise(), ADAM, out=tmp_path)


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("model.safetensors", flip),
        ("model.safetensors", lambda content: content[:-20]),
        ("result.json", lambda content: b"{}"),
        ("result.json", lambda content: b"[]"),
        ("history.jsonl", lambda content: content[:-20]),
        ("config.json", lambda content: b"{"),
    ],
)
def test_a_damaged_result_is_refused_by_name(name, damage, tmp_path):
    fit(net(), noise(), ADAM, out=tmp_path)
    path = tmp_path / name
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(CodeboundError, match=name.replace(".", r"\.")):
        fit(net(), noise(), ADAM, out=tmp_path)


def test_kept_epochs_hold_the_weights_after_each_of_them(tmp_path):
    seen = {}

    def look(epoch, network):
        seen[epoch] = {name: value.clone() for name, value in network.state_dict().items()}

    fit(net(), noise(), SGD, on_epoch=look)
    keeping = replace(SGD, keep_every=2)
    interrupted(keeping, tmp_path / "run")
    assert list(load_epochs(tmp_path / "run")) == [2]
    fit(net(), noise(), keeping, out=tmp_path / "run")
    kept = load_epochs(tmp_path / "run")
    assert list(kept) == [2, 4, 5]
    for epoch, path in kept.items():
        weights = load_file(path)
        assert weights.keys() == seen[epoch].keys()
        assert all(torch.equal(value, seen[epoch][name]) for name, value in weights.items())
    assert keeping.record() == SGD.record()  # what is kept does not determine the weights
    with pytest.raises(FormatError, match=r"config\.json"):
        load_epochs(tmp_path / "absent")
    with pytest.raises(UsageError, match="keep_every"):
        replace(SGD, keep_every=-1)
