"""Pages and tables for people: they show results, they never compute them."""

from codebound.report.compare_page import (
    compare_figure,
    compare_page,
    compare_table,
    epochs_figure,
    refused_table,
)
from codebound.report.figures import standalone
from codebound.report.html import certificate_page
from codebound.report.measure_page import measure_page
from codebound.report.measures import Table, flat_rows, measure_tables

__all__ = [
    "Table",
    "certificate_page",
    "compare_figure",
    "compare_page",
    "compare_table",
    "epochs_figure",
    "flat_rows",
    "measure_page",
    "measure_tables",
    "refused_table",
    "standalone",
]
