"""The page ``results/reproduction.md``: ``python -m codebound_papers.reproduce.gallery``.

Run it in the root of the repository after results in ``results/reproduce`` have changed. Those of full runs
are in its folder ``full``.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codebound.errors import FormatError
from codebound.files import read_json, write_text
from codebound_papers.journal import JOURNAL
from codebound_papers.reproduce.items import Item, known_items

if TYPE_CHECKING:
    Record = Mapping[str, Any]

RESULTS = Path("results/reproduce")
SIZES = {"quick": Path(), "full": Path("full")}
"""Where the results of each size are, from that folder."""
PAGE = Path("results/reproduction.md")

_MOST_ROWS = 20  # of a table on the page; longer ones are in the file of the results
_VERDICTS = ("We agree", "We do not agree", "Open")
_HEAD = """# Reproduction of the papers

This page is written by `python -m codebound_papers.reproduce.gallery` from the files in `results/reproduce`;
those of full runs are in its folder `full`.

```console
$ codebound reproduce list              # every item, what it costs, and what results are here
$ codebound reproduce S-Fig2 --quick    # makes it again; the same command continues an interrupted run
```

Each item has its figure, one sentence, a table with the published numbers beside ours where the paper has
any, the command, and where its settings differ from the published ones; remarks and further tables fold out.
One rule for all three papers: **we agree** where a statement holds in all cases that were looked at (layers,
networks, strengths), **in part** where in at least half of them, **we do not agree** where in fewer and the
run has the published size, length and networks; else the question is **open**. IDs such as G-E22 are those of
[errata.md](../docs/errata.md).

`--out` holds the rows, command, machines with versions, seed and time as JSON, the figures as SVG, and the
finished parts (`*.cells.json`), which only an interrupted run needs. `--full` has the settings of the paper
but for the deviations that it lists, `--epochs` cuts trainings short. Trained networks are kept in the cache
folder and shared between items.

Where the GPU is on a machine with nothing but PyTorch, numpy and safetensors, `python -m
codebound_papers.reproduce ITEM --full --device cuda --out DIR` computes the parts there, of several items
(`G-Tab1 A-Fig1`), of a paper (`G`) or of `all`; with `--deadline 3000` it begins no part after 3,000 seconds
and says what is left. Several such commands, for different items or in folders of their own, may run side by
side: a network that they share is trained and measured by one of them, while the others take another one or
wait.
`codebound reproduce ITEM --full --out DIR` then finds the parts finished and writes the results anywhere.
With `--deadline 0` it begins none: a table of networks then has those that are finished, and names the
others. The full results below were made so: parts on a GPU by the `parts_command` of each file, figures
elsewhere. Times are those of the parts of an item; a network that several items need is trained in the time
of one of them.
"""


def read_results(folder: Path = RESULTS) -> dict[str, dict[str, dict[str, Any]]]:
    """The committed results by size and item."""
    return {size: _read_folder(folder / part) for size, part in SIZES.items()}


def _read_folder(folder: Path) -> dict[str, dict[str, Any]]:
    paths = [path for path in sorted(folder.glob("*.json")) if not path.name.endswith(JOURNAL)]
    records = {path: read_json(path, advice="Make the item again.") for path in paths}
    for path, record in records.items():
        if "item" not in record:
            raise FormatError(f"{path} does not hold the results of an item. Make the item again.")
    return {str(record["item"]): record for record in records.values()}


def cost(record: Record) -> str:
    """How long a run took, in words."""
    if all(machine["device"] == "cpu" for machine in record["machines"]):
        return f"{_duration(record['cpu_seconds'])} of one core"
    return ", ".join(
        f"{_duration(machine['seconds'])} on {machine['device']}" for machine in record["machines"]
    )


def _duration(seconds: float) -> str:
    return f"{max(seconds, 1.0):.0f} s" if seconds < 600 else f"{seconds / 60:.0f} min"


def outcome(record: Record | None) -> str:
    """Whether there are results, and what they cost.

    Example:
        >>> outcome(None)
        'not run'
    """
    if record is None:
        return "not run"
    left = len(record["not_run"])
    return cost(record) + (f"; {left} part{'s' * (left > 1)} not run" if left else "")


def page(results: Mapping[str, Mapping[str, Record]], *, folder: str = "reproduce") -> str:
    """The text of the page."""
    ids = [id for id in known_items() if any(id in records for records in results.values())]
    index = [
        {
            "item": f"[{id}](#{_anchor(id)})",
            "what": known_items()[id].title,
            "size": size,
            "command": f"`{_command(id, size, results[size].get(id))}`",
            "time here": outcome(results[size].get(id)),
        }
        for id in ids
        for size in results
    ]
    sections = (_section(id, {size: results[size].get(id) for size in reversed(SIZES)}, folder) for id in ids)
    return "\n".join([_HEAD, *_table(index), *(line for section in sections for line in section)])


def _command(id: str, size: str, record: Record | None) -> str:
    return f"codebound reproduce {id} --{size}" if record is None else str(record["command"])


def _section(id: str, records: Mapping[str, Record | None], folder: str) -> Iterator[str]:
    """An item: its largest run in full, smaller ones in a line each."""
    item = known_items()[id]
    yield f"## {id}"
    yield f"{item.title}.\n"
    yield f"{item.about}\n"
    has_been_shown = False
    for size, record in records.items():
        place = (Path(folder) / SIZES[size]).as_posix()
        if record is None:
            yield f"*{size}:* not run. `{_command(id, size, None)}` costs {getattr(item, size)}.\n"
        elif has_been_shown:
            yield f"*{size}:* {lead(record)} {_source(record, item, place)}\n"
        else:
            has_been_shown = True
            yield from _run(record, item, place)


def lead(record: Record) -> str:
    """The sentence that an item is about: its first verdict, else its first sentence."""
    sentences = list(record["sentences"])
    return str(next((each for each in sentences if each.startswith(_VERDICTS)), sentences[0]))


def _run(record: Record, item: Item, folder: str) -> Iterator[str]:
    """Figure, the sentence, ours beside printed, command and deviations; what is left folds away."""
    for figure in record["figures"]:
        yield f"![{record['title']}]({folder}/{figure})\n"
    yield f"**{lead(record)}**\n"
    tables = {title: rows for title, rows in record["tables"].items() if 0 < len(rows) <= _MOST_ROWS}
    first, *others = tables
    yield from _titled(first, tables[first])
    yield f"*{record['size']}:* {_source(record, item, folder)}"
    if record["not_run"]:
        yield f"Not run, for want of time: {'; '.join(record['not_run'])}."
    yield ""
    yield from (f"- Deviation: {deviation}" for deviation in record["deviations"])
    rest = [sentence for sentence in record["sentences"] if sentence != lead(record)]
    if rest or others:
        yield "\n<details><summary>Remarks and further tables</summary>\n"
        yield from (f"- {sentence}" for sentence in rest)
        yield ""
        for title in others:
            yield from _titled(title, tables[title])
        yield "</details>\n"
    yield ""


def _source(record: Record, item: Item, folder: str) -> str:
    rows = f"[{item.stem}.json]({folder}/{item.stem}.json)"
    return f"`{record['command']}`, {cost(record)}; all rows: {rows}."


def _titled(title: str, rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    yield f"*{title}*\n"
    yield from _table(rows)


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
