"""What the networks offer to the product is there: a name that leads nowhere would be found by a user."""

import pytest

from codebound.run.extensions import TABLES, Method, Verb, find_extensions, resolve
from codebound_networks import extension


def homes(table):
    entries = getattr(extension, table, {})
    return {
        name: each.function if isinstance(each, Verb | Method) else each for name, each in entries.items()
    }


PLACES = [(table, name) for table in TABLES for name in homes(table)]


@pytest.mark.parametrize(("table", "name"), PLACES)
def test_every_entry_leads_to_something(table, name):
    assert callable(resolve(homes(table)[name]))


def test_the_product_finds_every_entry():
    found = find_extensions()
    assert not found.missing
    assert all(name in found[table] for table, name in PLACES)
