"""Freed memory that stays with the process while examples are counted."""

import sys

import pytest
import torch

from codebound_verify.networks.memory import freed_memory_kept

resource = pytest.importorskip("resource")
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the C library of Linux alone is told")


def new_pages():
    """How many pages are fetched for four results of 20 MiB, again and again."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(8):
        [torch.ones(5 << 20) for _ in range(4)]
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


def test_results_take_the_pages_of_those_before():
    usual = new_pages()
    with freed_memory_kept():
        new_pages()
        kept = new_pages()
    assert 4 * kept < usual
    assert new_pages() > 4 * kept  # as before


def test_an_error_inside_is_raised_and_undone():
    with pytest.raises(KeyError), freed_memory_kept():
        raise KeyError
    assert new_pages() > 100


def test_elsewhere_nothing_is_done(monkeypatch):
    monkeypatch.setattr(sys, "platform", "win32")
    with freed_memory_kept():
        pass
