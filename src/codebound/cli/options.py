"""The options that several verbs share, each declared once."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from codebound.cli.console import Format
from codebound.run.errors import UsageError

if TYPE_CHECKING:
    from codebound.run.job import Engine

# panels of the help pages
RUN = "Run and results"
PARALLEL = "In parallel"
BASE = "Certificates of a fine-tuned network"


def option(help: str, panel: str | None = None, *names: str) -> Any:
    """An option of a verb, on a panel of its help page; the name of the parameter is its usual name."""
    return typer.Option(*names, help=help, rich_help_panel=panel)


class SplitRole(str, Enum):
    """Splits of a dataset."""

    train = "train"
    test = "test"


Model = Annotated[str, option("Zoo name such as mlp:depth=5,width=784, or package.module:factory.")]
Data = Annotated[
    str, option("The sample: name, .npz file, table.csv:LABELS, image folder, or package.module:factory.")
]
Weights = Annotated[
    Path | None, option("Trained weights: safetensors, or a checkpoint (default: untrained).")
]
Role = Annotated[SplitRole, option("Which split of a named dataset.")]
DataFolder = Annotated[Path | None, option("Folder that holds the named dataset.")]
Test = Annotated[
    str | None,
    option("Test sample, never used for any choice, written like --data; a known name gives its test split."),
]
Holdout = Annotated[
    float | None,
    option(
        "Keep this fraction of --data away from the sample and use it like --test; same for every --seed."
    ),
]
Delta = Annotated[float, option("Failure probability over the draw of the sample.")]
LossName = Annotated[
    str,
    option(
        "What counts: wrong, class:C (errors on class C), confused:C:D, false-alarm:C, top:K, "
        "cost-above:L:COSTS; for two classes also missed and false-alarm. See docs/losses.md."
    ),
]
Base = Annotated[
    Path | None,
    option(
        "Weights of the same architecture that were neither trained nor selected on the sample; the last "
        "layer may be missing or of another size. Only the difference to them is coded.",
        BASE,
    ),
]
BaseSays = Annotated[
    str | None, option("Where the base comes from, in words: part of the certificate.", BASE)
]
EncoderName = Annotated[
    str | None,
    option(
        "A frozen map in front of the data, of pictures, rows or texts: package.module:factory. "
        "The sample is the table of its rows; that it was fixed without the sample is declared."
    ),
]
AllowCopies = Annotated[
    bool,
    option("Declare copies, more than one example in a hundred, to be independent draws that are equal."),
]
CertificateFile = Annotated[Path, typer.Argument(help="The certificate (.cbound).")]
CertificateFolder = Annotated[
    Path, typer.Argument(help="The folder that certify wrote, or the certificate in it.")
]
BaseBeside = Annotated[
    Path | None, option("Safetensors file of the base, if it is not beside the certificate.")
]
WeightsBeside = Annotated[
    Path | None, option("The file g.safetensors, if it is needed and not beside the certificate.")
]
_TABLE = option("The .npz file to write; it must not exist.")
NewTable = Annotated[Path, _TABLE]
SomeTable = Annotated[Path | None, _TABLE]

Seed = Annotated[int, option("Seed of everything random.", RUN)]
Device = Annotated[str, option("auto, cpu, cuda or cuda:1.", RUN)]
NewFolder = Annotated[
    Path | None, option("Folder for the results; must be new (default: the next free one in runs/).", RUN)
]
SomeFolder = Annotated[
    Path | None, option("Folder for the results; must be new (default: none is written).", RUN)
]
Output = Annotated[Format, option("How to print the result.", RUN, "--format")]
Quiet = Annotated[bool, option("Nothing but the result.", RUN, "--quiet", "-q")]

EngineKind = Annotated[
    str | None,
    option(
        "Evaluate examples in parallel, on the CPU: local (processes of this machine) or ray. The result is "
        "the same.",
        PARALLEL,
    ),
]
Workers = Annotated[int | None, option("Processes (default: one for each core).", PARALLEL)]
Address = Annotated[
    str | None, option("Of a Ray cluster, such as auto or host:6379 (default: start Ray here).", PARALLEL)
]


def start_engine(
    kind: str | None, workers: int | None, address: str | None
) -> AbstractContextManager[Engine | None]:
    """The engine that was asked for, if any."""
    from codebound.run.job import open_engine

    if kind is None:
        if workers is not None or address is not None:
            raise UsageError("--workers and --address belong to --engine: give it too.")
        return nullcontext()
    return open_engine(kind, workers=workers, address=address)
