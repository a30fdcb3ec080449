"""The compressors as functions: ``mbp(network, strength=2.0, seed=1)``, made from the classes.

Each takes the options of its class by name, and besides them ``seed``, ``layers`` and ``progress``, which are
fields of ``Job``. What trains takes its sample behind the network, ``conv_network`` the shape of an input.
"""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from codebound_papers.compress.catalogue import COMPRESSORS
from codebound_papers.compress.compressors import Job

if TYPE_CHECKING:
    from collections.abc import Callable

_OF_THE_JOB = [each.name for each in fields(Job)]


def _function(name: str, *positional: str) -> Callable[..., Any]:
    """The function of a compressor; fields of the job that follow the network can be given by position."""
    algorithm = COMPRESSORS[name].algorithm
    known = ("network", *positional)

    def compressed(*values: Any, **options: Any) -> Any:
        job = dict(zip(known[: len(values)], values, strict=True))
        job |= {key: options.pop(key) for key in _OF_THE_JOB if key in options}
        return algorithm(**options).run(Job(**job))

    compressed.__name__ = compressed.__qualname__ = name.replace("-", "_")
    compressed.__doc__ = algorithm.__doc__
    return compressed


mbp = _function("mbp")
naive = _function("naive")
project = _function("project")
vector_compress = _function("vector-compress")
vector_project = _function("vector-project")
lowrank = _function("lowrank")
heavytail = _function("heavytail")
lottery = _function("lottery", "sample")
imp = _function("imp", "sample")
conv_network = _function("conv", "input_shape")
