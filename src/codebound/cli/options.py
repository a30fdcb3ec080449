"""The options that several verbs share, each declared once."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
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


def option(help: str, panel: str | None = None, *names: str, **given: Any) -> Any:
    """An option of a verb, on a panel of its help page; the name of the parameter is its usual name."""
    return typer.Option(*names, help=help, rich_help_panel=panel, **given)


def _require_source(spec: str | None) -> str | None:
    """Refuse a sample that is nowhere, before torch is loaded."""
    from codebound.sample.formats.catalogue import KNOWN
    from codebound.sample.load import load_sample

    if spec is not None and spec.lower() not in KNOWN:
        path = Path(re.split("[:@]", spec)[0]).expanduser()
        if not path.exists() and (path.suffix or ":" not in spec):
            load_sample(spec)  # which says what it is not
    return spec


class SplitRole(str, Enum):
    """Splits of a dataset."""

    train = "train"
    test = "test"


_MODEL = "Zoo name such as mlp:depth=5,width=784, or package.module:factory."
_WEIGHTS = "Trained weights: safetensors, or a checkpoint (default: untrained)."
_DATA = "The sample: name, .npz file, table.csv:LABELS, image folder, or package.module:factory."

Model = Annotated[str, option(_MODEL)]
SomeModel = Annotated[str | None, option(f"Architecture of the network. {_MODEL}")]
Data = Annotated[str, option(_DATA, callback=_require_source)]
DataArgument = Annotated[str, typer.Argument(help=_DATA, show_default=False)]
Weights = Annotated[Path | None, option(_WEIGHTS, None, "--network", exists=True)]
Role = Annotated[SplitRole, option("Which split of a named dataset.")]
DataFolder = Annotated[Path | None, option("Folder that holds the named dataset.")]
Test = Annotated[
    str | None,
    option(
        "Test sample, never used for any choice, written like the data; a known name gives its test split."
    ),
]
Holdout = Annotated[
    float | None,
    option(
        "Keep this fraction of the data away from the sample and use it like --test; same for every seed."
    ),
]
Delta = Annotated[float, option("Failure probability over the draw of the sample.")]
AllowCopies = Annotated[
    bool,
    option("Declare copies, more than one example in a hundred, to be independent draws that are equal."),
]
CertificateFolder = Annotated[
    Path, typer.Argument(help="The folder that certify wrote, or the certificate in it.", exists=True)
]
BaseBeside = Annotated[
    Path | None, option("Safetensors file of the base, if it is not beside the certificate.", exists=True)
]
WeightsBeside = Annotated[
    Path | None,
    option("The file g.safetensors, if it is needed and not beside the certificate.", exists=True),
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
    option("Evaluate examples in parallel, on the CPU: local or ray. The result is the same.", PARALLEL),
]
Workers = Annotated[int | None, option("Processes (default: one for each core).", PARALLEL)]
Address = Annotated[
    str | None, option("Of a Ray cluster, such as auto or host:6379 (default: start Ray here).", PARALLEL)
]


@dataclass(frozen=True, slots=True)
class Key:
    """Key of ``--known``, ``--claim`` or ``--run``."""

    kind: Any
    words: str
    default: Any = None


KEYS = {
    "known": {
        "share": Key(float, "part of the sample that is learned from, such as 0.5; errors count on the rest"),
        "base": Key(Path, "weights of --model that were neither trained nor selected on the sample"),
        "says": Key(str, "where base or scores come from, in words: part of the certificate"),
        "helper": Key(str, "module:function that makes a network of the share, or weights made of it alone"),
        "encoder": Key(
            str, "module:factory of a frozen map that turns pictures, rows or texts into features"
        ),
        "scores": Key(
            list[Path], "scores of every row by a model of yours, .npy or .safetensors; again for each table"
        ),
    },
    "claim": {
        "loss": Key(
            str, "class:C, confused:C:D, false-alarm:C, top:K, cost-above:L:COSTS or missed", "wrong"
        ),
        "on": Key(
            str,
            "answered:T, predicted:C, 'each class', 'each group', 'one row a cluster' or 'any row of a "
            "cluster'",
            "all",
        ),
        "by-class": Key(bool, "true bounds the error on every class too; all of these hold at once", False),
        "order": Key(str, "rows (a hash chooses the known share) or file (the first rows: time)", "rows"),
        "clusters": Key(Path, "cluster of each row: a column of the table, or numbers (.npy): patients"),
        "groups": Key(Path, "group of each row, likewise; groups are numbered in the order of their names"),
        "input-range": Key(
            str, "LOW:HIGH of all stored values that can occur: bounds the error of the network itself"
        ),
    },
    "run": {
        "effort": Key(str, "quick (no training), standard or max, in place of --minutes", "standard"),
        "device": Key(str, "cpu or cuda, where networks are trained; errors count on the CPU", "cpu"),
        "engine": Key(str, "local (processes of this machine) or ray: counts errors in parallel"),
        "workers": Key(int, "processes of the engine"),
        "address": Key(str, "of a Ray cluster, such as auto"),
        "data-folder": Key(Path, "folder that holds the named dataset"),
    },
}
"""Keys of the three options of certify that are tables."""


def keys_of(table: str, title: str) -> Any:
    """The option of a table: ``KEY=VALUE``, as often as there are keys."""
    shown = [
        f"{key}: {each.words}{f' (default: {each.default})' if isinstance(each.default, str) else ''}."
        for key, each in KEYS[table].items()
    ]
    return Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="\n\n".join((title, *shown)), callback=_with_file),
    ]


def _with_file(context: typer.Context, parameter: typer.CallbackParam, given: list[str] | None) -> list[str]:
    """Pairs of the command line, then of the config file."""
    pairs = given or []
    keys = {pair.partition("=")[0] for pair in pairs}
    below = (context.default_map or {}).get(parameter.name or "", [])
    return [*(pair for pair in below if pair.partition("=")[0] not in keys), *pairs]


Known = keys_of("known", "Known before any error is counted.")
Claim = keys_of("claim", "Error that is bounded, and on which examples.")
Run = keys_of("run", "Settings that no claim depends on.")


def pairs_of(table: Mapping[str, Any]) -> Iterator[str]:
    """Pairs of a config table, as on the command line."""
    for key, value in table.items():
        for each in value if isinstance(value, list) else [value]:
            text = str(each).lower() if isinstance(each, bool) else str(each)
            yield f"{key.replace('_', '-')}={text}"


def read_keys(table: str, pairs: list[str] | None) -> dict[str, Any]:
    """Return all keys of a table with their values or defaults.

    Example:
        >>> read_keys("run", ["effort=quick"])["effort"]
        'quick'
    """
    keys = KEYS[table]
    found: dict[str, Any] = {key: each.default for key, each in keys.items()}
    for pair in pairs or []:
        key, is_pair, text = pair.partition("=")
        if key not in keys or not is_pair:
            (nearest,) = difflib.get_close_matches(key, keys, n=1, cutoff=0.0)
            wrong = f"--{table} has no key {key!r}" if is_pair else f"--{table} takes KEY=VALUE, not {pair!r}"
            raise UsageError(f"{wrong}; did you mean {nearest}=...? Its keys: {', '.join(keys)}.")
        is_list = keys[key].kind == list[Path]
        found[key] = [*(found[key] or []), Path(text)] if is_list else _read_value(table, key, text)
    return {key.replace("-", "_"): value for key, value in found.items()}


def _read_value(table: str, key: str, text: str) -> Any:
    kind = KEYS[table][key].kind
    try:
        return {"true": True, "false": False}[text] if kind is bool else kind(text)
    except (KeyError, ValueError) as error:
        form = {bool: "true or false", int: "a whole number", float: "a number"}[kind]
        raise UsageError(f"--{table} {key}=... is {form}. Got {text!r}.") from error


def start_engine(
    kind: str | None, workers: int | None, address: str | None
) -> AbstractContextManager[Engine | None]:
    """The engine that was asked for, if any."""
    from codebound.run.job import open_engine

    if kind is None:
        if workers is not None or address is not None:
            raise UsageError("workers and address belong to an engine: give it too.")
        return nullcontext()
    return open_engine(kind, workers=workers, address=address)
