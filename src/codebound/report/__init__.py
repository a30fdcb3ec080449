"""Pages and tables for people: they show results, they never compute them."""

from codebound.report.html import certificate_page
from codebound.report.measure_page import measure_page
from codebound.report.measures import Table, flat_rows, measure_tables

__all__ = ["Table", "certificate_page", "flat_rows", "measure_page", "measure_tables"]
