"""Self-contained pages from templates."""

from __future__ import annotations

import csv
import io
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


_FOLDER = Path(__file__).parent


def render(template: str, values: Mapping[str, object], *, package: str = "codebound.report") -> str:
    """A template, filled in; values are escaped unless the template says otherwise, or is Markdown.

    It is a file in the folder of the package; what it extends may also be in ours. Styles and scripts are
    text, and stay as they are: ``asset(name)``.
    """
    import jinja2
    from markupsafe import Markup

    places = [jinja2.PackageLoader(name, "") for name in dict.fromkeys((package, "codebound.report"))]
    is_markdown = template.endswith(".md.j2")
    environment = jinja2.Environment(autoescape=not is_markdown, loader=jinja2.ChoiceLoader(places))
    environment.globals["asset"] = lambda name: Markup((_FOLDER / name).read_text("utf-8"))
    return environment.get_template(template).render(values)


def place(share: float) -> float:
    """Position on the scale of a page, in per cent. Small shares have more room.

    Example:
        >>> place(0.01), place(0.25)
        (10.0, 50.0)
    """
    return round(100.0 * math.sqrt(share), 2)


TICKS = tuple((f"{share:g} %", place(share / 100.0)) for share in (0, 1, 5, 10, 25, 50, 100))
"""Marks of that scale, with their positions."""
GROUPS = (
    "Groups were formed without regard to errors.",
    "Rows were put into a group because their answers had failed.",
)
"""An assumption, and how it could fail."""


def chosen(share: float) -> str:
    """A share that somebody chose, in per cent: nothing is promised, and six digits are enough.

    Example:
        >>> chosen(0.05), chosen(0.0663647123)
        ('5 %', '6.63647 %')
    """
    return f"{100.0 * share:.6g} %"


@dataclass(frozen=True, slots=True)
class Table:
    """A table for people; every row has the same columns, and the legend a sentence for some of them."""

    title: str
    rows: Sequence[Mapping[str, object]]
    legend: Mapping[str, str] = field(default_factory=dict)


def tabulate(columns: Sequence[str], rows: Iterable[Sequence[object]], *, title: str = "") -> Table:
    """Make a table from names of columns and rows of cells.

    Example:
        >>> tabulate(("what", "value"), [("bits", 12)]).rows
        [{'what': 'bits', 'value': 12}]
    """
    return Table(title, [dict(zip(columns, row, strict=True)) for row in rows])


def csv_text(rows: Sequence[Mapping[str, object]]) -> str:
    """Rows as lines of text, with a header line; a row without some column leaves it empty.

    Example:
        >>> csv_text([{"a": 1, "b": 2}, {"b": 3}])
        'a,b\\n1,2\\n,3\\n'
    """
    file = io.StringIO()
    columns = dict.fromkeys(column for row in rows for column in row)
    writer = csv.DictWriter(file, fieldnames=list(columns), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return file.getvalue()
