"""The page ``results/reproduction.md`` and its summary: ``python results/reproduction.py``.

Run it after results in ``results/reproduce`` have changed.
"""

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from codebound.run.errors import FormatError
from codebound.run.files import read_json, write_json, write_text
from codebound_papers.journal import JOURNAL
from codebound_papers.reproduce.items import AGREE, DISAGREE, IN_PART, OUTCOMES, Item, list_items

Record = Mapping[str, Any]

HERE = Path(__file__).parent
RESULTS = HERE / "reproduce"
SIZES = {"quick": Path(), "full": Path("full")}
"""Folders of the results, by size, below that folder."""
PAGE = HERE / "reproduction.md"

_MOST_ROWS = 20  # of a table on the page; longer ones are in the file of the results
_VERDICTS = (IN_PART, AGREE, DISAGREE, "Open")


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
    """Describe the time of a run."""
    if all(machine["device"] == "cpu" for machine in record["machines"]):
        return f"{_duration(record['cpu_seconds'])} of one core"
    times = (f"{_duration(machine['seconds'])} on {machine['device']}" for machine in record["machines"])
    return ", ".join(times)


def _duration(seconds: float) -> str:
    return f"{max(seconds, 1.0):.0f} s" if seconds < 600 else f"{seconds / 60:.0f} min"


def outcome(record: Record | None) -> str:
    """Describe the results and their cost.

    >>> outcome(None)
    'not run'
    """
    if record is None:
        return "not run"
    left = len(record["not_run"])
    return cost(record) + (f"; {left} part{'s' * (left > 1)} not run" if left else "")


def outcomes(results: Mapping[str, Mapping[str, Record]]) -> dict[str, dict[str, str]]:
    """The verdict of the largest run of every item, and the times of all."""
    found = {}
    for id in list_items():
        records = {size: results[size].get(id) for size in SIZES}
        said = next((lead(record) for record in reversed(records.values()) if record), "")
        word = next((each for each in _VERDICTS if said.startswith(each)), "-")
        found[id] = {"verdict": word, **{f"{size} results": outcome(x) for size, x in records.items()}}
    return found


def page(results: Mapping[str, Mapping[str, Record]], *, folder: str = "reproduce") -> str:
    """The text of the page."""
    ids = [id for id in list_items() if any(id in records for records in results.values())]
    index = [
        {
            "item": f"[{id}](#{re.sub('[^a-z0-9_-]', '', id.lower())})",
            "what": list_items()[id].title,
            "size": size,
            "command": f"`{_command(id, size, results[size].get(id))}`",
            "time here": outcome(results[size].get(id)),
        }
        for id in ids
        for size in results
    ]
    sections = (_section(id, {size: results[size].get(id) for size in reversed(SIZES)}, folder) for id in ids)
    head = (HERE / "reproduction-head.md").read_text(encoding="utf-8")
    return "\n".join([head, *_table(index), *(line for section in sections for line in section)])


def _command(id: str, size: str, record: Record | None) -> str:
    return f"codebound reproduce {id} --{size}" if record is None else str(record["command"])


def _section(id: str, records: Mapping[str, Record | None], folder: str) -> Iterator[str]:
    item = list_items()[id]
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
    yield from _table(tables[first], first)
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
            yield from _table(tables[title], title)
        yield "</details>\n"
    yield ""


def _source(record: Record, item: Item, folder: str) -> str:
    rows = f"[{item.stem}.json]({folder}/{item.stem}.json)"
    return f"`{record['command']}`, {cost(record)}; all rows: {rows}."


def _table(rows: Sequence[Mapping[str, Any]], title: str = "") -> Iterator[str]:
    if title:
        yield f"*{title}*\n"
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


if __name__ == "__main__":
    write_text(PAGE, page(read_results()))
    write_json(OUTCOMES, outcomes(read_results()))
    sys.stdout.write(f"Written: {PAGE}, {OUTCOMES}.\n")
