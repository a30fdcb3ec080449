"""What the papers add to ``codebound``: found through the entry point group ``codebound.extensions``."""

from codebound.extensions import SweepVerb, Verb
from codebound.search.methods import Method
from codebound_papers.compress.catalogue import SENTENCES

VERBS = {
    "measure": Verb("codebound_papers.cli.measure:measure", after="train"),
    "compress": Verb("codebound_papers.cli.compress:compress", after="measure"),
    "sketch": Verb("codebound_papers.cli.sketch:sketch", after="compress"),
    "plan": Verb("codebound_papers.cli.plan:plan", after="sketch"),
    "compare": Verb("codebound_papers.cli.compare:compare", after="verify"),
    "reproduce": Verb("codebound_papers.cli.reproduce:reproduce", after="bound", has_config=False),
}

_GRIDS = "codebound_papers.compress.search:propose_compressed"
_SEARCHES = {
    "naive": _GRIDS,
    "mbp": _GRIDS,
    "lowrank": _GRIDS,
    "vector-compress": _GRIDS,
    "vector-project": _GRIDS,
    "project": _GRIDS,
    "heavytail": _GRIDS,
    "gaussian-fill": _GRIDS,
    "conv": "codebound_papers.arora18.conv_search:propose_conv",
    "sketch": "codebound_papers.guha23.sketch.search:propose_sketched",
    "lottery": "codebound_papers.guha23.ticket_search:propose_tickets",
    "imp": "codebound_papers.guha23.ticket_search:propose_iterative",
}
_SKETCH = (
    "Prunes and quantises; stores a sketch of every layer that is proven to come back from one. It is "
    "longer than naming the non-zeros, so auto takes it only where it is not."
)
METHODS = {
    name: Method(_SKETCH if name == "sketch" else SENTENCES[name], home) for name, home in _SEARCHES.items()
}

SWEEP_VERBS = {
    "compress": SweepVerb(
        "codebound_papers.cli.compress:compress",
        "compressed.safetensors",
        ("coded_bits", "accuracy_before", "accuracy_after"),
    ),
    "compare": SweepVerb(
        "codebound_papers.cli.compare:compare",
        "",
        (
            "rows.Test error of f.value",
            "rows.Hold-out bound of f.value",
            "rows.Arora 4.1: noise stability.log10",
        ),
    ),
    "measure": SweepVerb(
        "codebound_papers.cli.measure:measure", "", ("margins.errors", "margins.min", "margins.max")
    ),
}

DEMO = {"compare": "codebound_papers.cli.compare:end_of_demo"}

TENSOR_CODES = {13: "codebound_papers.guha23.sketch.code:Sketched"}

NAMES = {
    "measure": "codebound_papers.measure",
    "compress": "codebound_papers.compress",
    "sketch": "codebound_papers.guha23.sketch",
    "compare": "codebound_papers.compare.table:compare",
}
