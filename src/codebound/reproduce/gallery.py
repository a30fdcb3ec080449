"""The page ``docs/reproduction.md``, from the committed results: ``python -m codebound.reproduce.gallery``.

Run it in the root of the repository after results in ``results/reproduce`` have changed.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codebound.errors import FormatError
from codebound.reproduce.cells import CELLS, write_text
from codebound.reproduce.item import ITEMS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

RESULTS = Path("results/reproduce")
PAGE = Path("docs/reproduction.md")

_MOST_ROWS = 16  # of a table on the page; longer ones are in the file of the results
_HEAD = """# Reproduction of the papers

This page is written by `python -m codebound.reproduce.gallery` from the files in `results/reproduce`.

```console
$ codebound reproduce list              # every item, what it costs, and what results are here
$ codebound reproduce S-Fig2 --quick    # makes it again; the same command continues an interrupted run
```

A run prints tables with the published numbers beside ours where the paper has any, and sentences that say
whether we agree or why not, with the ID of the erratum in [references.md](references.md). `--out` then holds
the rows, command, machines, seed and time as JSON, the figures as SVG, and the finished parts
(`*.cells.json`), which only an interrupted run needs. `--full` has the settings of the paper, `--epochs` cuts
trainings short. Trained networks are kept in the cache folder and shared between items.

Where the GPU is on a machine with nothing but PyTorch, numpy and safetensors,
`python -m codebound.reproduce ITEM --full --device cuda --out DIR` computes the parts there, of several
items (`G-Tab1 A-Fig1`), of a paper (`G`) or of `all`; with `--deadline 3000` it begins no part after 3,000
seconds and says what is left. Several such commands, for different items, may run side by side: a network
that they share is trained and measured by one of them, while the others take another one or wait.
`codebound reproduce ITEM --full --out DIR` then finds the parts finished and writes the results anywhere.
"""


def read_results(folder: Path = RESULTS) -> dict[str, dict[str, Any]]:
    """The committed results by item, in the order of the items."""
    paths = [path for path in sorted(folder.glob("*.json")) if not path.name.endswith(CELLS)]
    records = [_read(path) for path in paths]
    found = {str(record["item"]): record for record in records}
    return {id: found[id] for id in (*ITEMS, *found) if id in found}


def _read(path: Path) -> dict[str, Any]:
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        return {**record, "item": record["item"]}
    except (ValueError, KeyError, TypeError) as error:
        raise FormatError(f"{path} does not hold the results of an item: {error!r}.") from error


def cost(record: Mapping[str, Any]) -> str:
    """How long a run took, in words."""
    devices = list(dict.fromkeys(machine["device"] for machine in record["machines"]))
    on_a_core = devices == ["cpu"]
    seconds = float(record["cpu_seconds" if on_a_core else "seconds"])
    used = f"{max(seconds, 1.0):.0f} s" if seconds < 600 else f"{seconds / 60:.0f} min"
    return f"{used} of one core" if on_a_core else f"{used} on {', '.join(devices)}"


def page(results: Mapping[str, Mapping[str, Any]], *, folder: str = "../results/reproduce") -> str:
    """The text of the page.

    Args:
        results: Records of items, as `read_results` gives them.
        folder: From the page to the results.
    """
    index = [
        {
            "item": f"[{id}](#{_anchor(id)})",
            "what": record["title"],
            "command": f"`{record['command']}`",
            "time here": cost(record),
        }
        for id, record in results.items()
    ]
    return "\n".join(
        [_HEAD, *_table(index), *(line for id in results for line in _section(results[id], folder))]
    )


def _section(record: Mapping[str, Any], folder: str) -> Iterator[str]:
    stem = str(record["item"]).replace(":", "-")
    yield f"## {record['item']}"
    yield f"{record['title']}.\n"
    yield f"{record['about']}\n"
    for figure in record["figures"]:
        yield f"![{record['title']}]({folder}/{figure})\n"
    yield from (f"- {sentence}" for sentence in record["sentences"])
    yield ""
    for title, rows in record["tables"].items():
        if 0 < len(rows) <= _MOST_ROWS:
            yield f"**{title}**\n"
            yield from _table(rows)
    yield f"All rows: [{stem}.json]({folder}/{stem}.json). Made by `{record['command']}`, {cost(record)}."
    if record["deviations"]:
        yield "Deviations from the published settings:\n"
        yield from (f"- {deviation}" for deviation in record["deviations"])
    yield ""


def _table(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    columns = list(rows[0]) if rows else []
    yield f"| {' | '.join(columns)} |"
    yield f"|{'---|' * len(columns)}"
    for row in rows:
        yield f"| {' | '.join(_cell(row[column]) for column in columns)} |"
    yield ""


def _cell(value: object) -> str:
    """Four digits are enough for a page; a bar would end the cell."""
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value).replace("|", "\\|")


def _anchor(id: str) -> str:
    return "".join(letter for letter in id.lower() if letter.isalnum() or letter in "-_")


if __name__ == "__main__":
    write_text(PAGE, page(read_results()))
    sys.stdout.write(f"Written: {PAGE}.\n")
