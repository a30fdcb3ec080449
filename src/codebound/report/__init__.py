"""Pages for people: they show results, they never compute them."""

from codebound.report.html import certificate_page

__all__ = ["certificate_page"]
