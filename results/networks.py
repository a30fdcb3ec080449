"""Networks of timm, transformers and Lightning through every verb: ``make networks`` writes networks.md.

    pip install timm transformers lightning
    python results/networks.py --out results/networks.md      # or --only gpt2 --verbs certify,verify

Each is made from its configuration, small and untrained, for four classes: pictures of 3 x 32 x 32 or 16
tokens. Every verb ends with a result or with a sentence that names what is in the way: a traceback is a
bug.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
import tempfile
import time
import traceback
import warnings
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file
from torch import nn
from typer.testing import CliRunner

from codebound.bounds.risk import percent
from codebound.cli.main import app
from codebound.run.errors import CodeboundError
from codebound_papers.compress.catalogue import COMPRESSORS
from codebound_verify.__main__ import main as verify

HERE = Path(__file__).parent
CLASSES, TOKENS, LENGTH, SIDE = 4, 17, 16, 32
EXAMPLES = 60
SAYS = "made from its configuration, untrained"
NETWORKS = {
    "resnet10t": ("timm", "image"),
    "mobilenetv3_small": ("timm", "image"),
    "vit": ("timm", "image"),
    "bert": ("transformers", "tokens"),
    "gpt2": ("transformers", "tokens"),
    "llama": ("transformers", "tokens"),
    "lightning_module": ("lightning", "image"),
}
"""The package of a network, and what its inputs are."""
VERBS = (
    *("doctor", "measure", "compare"),
    *(f"compress {method}" for method in COMPRESSORS),
    *("certify", "certify base", "verify"),
)
HEAD = """\
# Networks of other packages through every verb

`make networks` writes this page; nobody types a word here. Each network is small, made from its configuration
and untrained, with 60 examples of four classes: what counts is that every verb ends with a result, or with a
sentence that names what is in the way. `certify` may make a network of its own, `certify base` is told that
this one has not seen the sample and counts its scores as they are declared, and `verify` is the second
program on that file.

{versions}.

"""


_MADE: list[Any] = []


def mend_torchvision() -> None:
    """Lets torchvision of PyPI be imported beside a torch without CUDA: its operators are in neither.

    timm and transformers import it; none of the networks here has use for its operators.
    """
    try:
        import torchvision  # noqa: F401
    except RuntimeError:
        for name in [each for each in sys.modules if each.partition(".")[0] == "torchvision"]:
            del sys.modules[name]
        library: Any = torch.library.Library  # has no types
        _MADE.append(library("torchvision", "DEF"))
        for name in ("nms", "qnms"):
            _MADE[0].define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    except ImportError:
        return


def resnet10t() -> nn.Module:
    """The smallest residual network of timm, 4.9 million numbers."""
    import timm

    made: nn.Module = timm.create_model("resnet10t", num_classes=CLASSES)
    return made


def mobilenetv3_small() -> nn.Module:
    """Depthwise convolutions, squeeze and excitation, hard swish."""
    import timm

    made: nn.Module = timm.create_model("mobilenetv3_small_050", num_classes=CLASSES)
    return made


def vit() -> nn.Module:
    """A vision transformer with a class token and learned positions."""
    import timm

    made: nn.Module = timm.create_model(
        "vit_tiny_patch16_224",
        img_size=SIDE,
        patch_size=8,
        embed_dim=48,
        depth=2,
        num_heads=3,
        num_classes=CLASSES,
    )
    return made


def bert() -> nn.Module:
    """An encoder of texts."""
    from transformers import BertConfig, BertForSequenceClassification

    config = BertConfig(
        vocab_size=TOKENS,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=LENGTH,
        num_labels=CLASSES,
    )
    network: nn.Module = BertForSequenceClassification(config)
    return network


def gpt2() -> nn.Module:
    """A decoder with learned positions; its last layer reads the last token that is no padding."""
    from transformers import GPT2Config, GPT2ForSequenceClassification

    config = GPT2Config(
        vocab_size=TOKENS,
        n_positions=LENGTH,
        n_embd=16,
        n_layer=2,
        n_head=2,
        num_labels=CLASSES,
        pad_token_id=0,
    )
    network: nn.Module = GPT2ForSequenceClassification(config)
    return network


def llama() -> nn.Module:
    """A decoder with rotary positions, root mean square norms and gated layers."""
    from transformers import LlamaConfig, LlamaForSequenceClassification

    config = LlamaConfig(
        vocab_size=TOKENS,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=LENGTH,
        num_labels=CLASSES,
        pad_token_id=0,
    )
    network: nn.Module = LlamaForSequenceClassification(config)
    return network


def lightning_module() -> nn.Module:
    """A module with its training inside, as its users write it."""
    import lightning

    class Classifier(lightning.LightningModule):
        def __init__(self, width: int = 8) -> None:
            super().__init__()
            self.save_hyperparameters()
            self.body = nn.Sequential(nn.Conv2d(3, width, 3, stride=2), nn.BatchNorm2d(width), nn.ReLU())
            self.head = nn.Linear(width, CLASSES)
            self.loss = nn.CrossEntropyLoss()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            logits: torch.Tensor = self.head(self.body(x).mean((2, 3)))
            return logits

        def training_step(self, batch: tuple[torch.Tensor, torch.Tensor], index: int) -> torch.Tensor:
            x, y = batch
            loss: torch.Tensor = self.loss(self(x), y)
            return loss

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.Adam(self.parameters())

    return Classifier()


@dataclass(frozen=True)
class Outcome:
    """Outcome of a verb: ``result``, ``refused`` in words, or ``traceback``."""

    kind: str
    words: str
    seconds: float


def write_samples(folder: Path) -> None:
    """Pictures and tokens of four classes that can be told apart."""
    random = np.random.default_rng(0)
    y = np.arange(EXAMPLES) % CLASSES
    x = random.integers(0, 128, (EXAMPLES, 3, SIDE, SIDE)) + 32 * y[:, None, None, None]
    np.savez(folder / "image.npz", x=x.astype("uint8"), y=y)
    tokens = 1 + (random.integers(0, 8, (EXAMPLES, LENGTH)) + 2 * y[:, None]) % (TOKENS - 1)
    np.savez(folder / "tokens.npz", x=tokens, y=y)


def command(name: str, verb: str, folder: Path) -> list[str]:
    """The words of a verb for a network."""
    words, kind = verb.split(), NETWORKS[name][1]
    data = ["--data", str(folder / f"{kind}.npz")]
    model = ["--model", f"networks:{name}"]
    out = folder / "-".join([name, *words])
    match words:
        case ["doctor"]:
            shape = f"3x{SIDE}x{SIDE}" if kind == "image" else str(LENGTH)
            return ["doctor", *model, "--input-shape", shape, "--classes", str(CLASSES)]
        case ["compress", method]:
            return ["compress", *model, *data, "--method", method, "--out", str(out)]
        case ["certify", *base]:
            known = [f"base={_weights(name, folder)}", f"says={SAYS}"] if base else []
            words = [*(f"--known={pair}" for pair in known), "--run", "effort=quick"]
            return ["certify", data[1], *model, *words, "--out", str(out)]
    return [verb, *model, *data, "--out", str(out)]


def _weights(name: str, folder: Path) -> Path:
    """The file of a network as it is made from its configuration."""
    path = folder / f"{name}.safetensors"
    torch.manual_seed(0)
    state = getattr(sys.modules[__name__], name)().state_dict()
    save_file({key: value.clone().contiguous() for key, value in state.items()}, path)
    return path


def outcome(name: str, verb: str, folder: Path) -> Outcome:
    """Runs a verb on a network; ``verify`` checks what ``certify base`` left in the folder."""
    if str(HERE) not in sys.path:
        sys.path.insert(0, str(HERE))
    mend_torchvision()
    torch.manual_seed(0)
    start = time.perf_counter()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            kind, words = _checked(name, folder) if verb == "verify" else _run(name, verb, folder)
    except Exception:  # whatever it is, it is what the table is for
        kind, words = "traceback", traceback.format_exc()
    return Outcome(kind, words, time.perf_counter() - start)


def outcomes(name: str, verbs: list[str], folder: Path) -> dict[tuple[str, str], Outcome]:
    """Verbs on a network, one after the other."""
    return {(name, verb): outcome(name, verb, folder) for verb in verbs}


def parts(verbs: list[str]) -> list[list[str]]:
    """Verbs that do not wait for each other: ``verify`` needs what ``certify base`` leaves."""
    last = [verb for verb in verbs if verb in ("certify base", "verify")]
    return [*([last] if last else []), *([verb] for verb in verbs if verb not in last)]


def _run(name: str, verb: str, folder: Path) -> tuple[str, str]:
    result = CliRunner().invoke(app, command(name, verb, folder))
    if isinstance(result.exception, CodeboundError):
        return "refused", str(result.exception)
    if result.exception is not None:
        return "traceback", "".join(traceback.format_exception(result.exception))
    return "result", _told(verb, folder / "-".join([name, *verb.split()]), result.stdout + result.stderr)


def _told(verb: str, out: Path, printed: str) -> str:
    """The one number of a result that says most."""
    record = json.loads((out / "result.json").read_text()) if (out / "result.json").is_file() else {}
    if "bound" in record:
        return f"{percent(record['bound'])} by {record['method']}, {record['code_bits']:,} bits"
    if "coded_bits" in record:
        return f"{8 * record['dense_bytes'] / record['coded_bits']:.1f} times smaller"
    if verb == "doctor":
        return next((line for line in printed.splitlines() if "tensors, entries" in line), "no sentence")
    return "measured" if verb == "measure" else "compared"


def _checked(name: str, folder: Path) -> tuple[str, str]:
    path = folder / f"{name}-certify-base" / "result.json"
    if not path.is_file():
        return "refused", "there is no certificate to verify"
    status = verify(shlex.split(json.loads(path.read_text())["verify"])[1:])
    return ("result", "ACCEPT") if status == 0 else ("traceback", f"status {status}")


def main() -> int:
    """Runs what was asked for; status 1 where anything ended in a traceback."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="Markdown file for the table")
    parser.add_argument("--only", default="", help="names of networks, with commas")
    parser.add_argument("--verbs", default="", help="verbs, with commas")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes, of one thread each")
    given = parser.parse_args()
    names = [each for each in NETWORKS if not given.only or each in given.only.split(",")]
    verbs = [each for each in VERBS if not given.verbs or each in given.verbs.split(",")]
    missing = {NETWORKS[each][0] for each in names if find_spec(NETWORKS[each][0]) is None}
    if missing:
        sys.stdout.write(f"Not installed, and left out: {', '.join(sorted(missing))}.\n")
    names = [each for each in names if NETWORKS[each][0] not in missing]
    found: dict[tuple[str, str], Outcome] = {}
    with tempfile.TemporaryDirectory() as folder:
        write_samples(Path(folder))
        with ProcessPoolExecutor(given.jobs, get_context("spawn"), torch.set_num_threads, (1,)) as pool:
            tried = [
                pool.submit(outcomes, name, part, Path(folder)) for name in names for part in parts(verbs)
            ]
            for done in as_completed(tried):
                for (name, verb), made in done.result().items():
                    found[name, verb] = made
                    sys.stdout.write(
                        f"{name:18} {verb:24} {made.seconds:6.1f} s  {made.kind}: {made.words}\n"
                    )
                sys.stdout.flush()
    if given.out is not None:
        given.out.parent.mkdir(parents=True, exist_ok=True)
        given.out.write_text(HEAD.format(versions=_versions(names)) + table(names, verbs, found))
    return int(any(each.kind == "traceback" for each in found.values()))


def table(names: list[str], verbs: list[str], found: dict[tuple[str, str], Outcome]) -> str:
    """All outcomes as Markdown: a row for each verb."""
    rows = [["", *names], ["---"] * (len(names) + 1)]
    rows += [[f"`{verb}`", *(_cell(found[name, verb]) for name in names)] for verb in verbs]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _versions(names: list[str]) -> str:
    """Packages that were tried, with their versions."""
    packages = sorted({"codebound", "torch", *(NETWORKS[name][0] for name in names)})
    return ", ".join(f"{package} {version(package)}" for package in packages)


def _cell(made: Outcome) -> str:
    words = made.words if made.kind == "result" else f"{made.kind}: {made.words}"
    return " ".join(words.split()).replace("|", "\\|")


if __name__ == "__main__":
    sys.exit(main())
