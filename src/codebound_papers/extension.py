"""Parts that the papers add to ``codebound``. The entry point group ``codebound.extensions`` finds them."""

from codebound.run.extensions import NETWORKS, Method, Verb
from codebound_papers.compress.catalogue import COMPRESSORS

VERBS = {
    "study": Verb("codebound_papers.cli.study:command", after="doctor", panel=NETWORKS),
    "measure": Verb("codebound_papers.cli.measure:command", after="train", panel=NETWORKS),
    "compress": Verb("codebound_papers.cli.compress:command", panel=NETWORKS),
    "sketch": Verb("codebound_papers.cli.sketch:command", panel=NETWORKS),
    "compare": Verb("codebound_papers.cli.compare:command", panel=NETWORKS),
    "plan": Verb("codebound_papers.cli.plan:command", panel=NETWORKS),
    "reproduce": Verb("codebound_papers.cli.reproduce:command", has_config=False, panel=NETWORKS),
    "sweep": Verb("codebound_papers.cli.sweep:command", has_config=False, panel=NETWORKS),
}

_SKETCH = (
    "Prunes and quantises; stores a sketch of every layer that is proven to come back from one. It is "
    "longer than naming the non-zeros, so auto takes it only where it is not."
)
_PROPOSE = "codebound_papers.compress.compressors:propose_compressed"
METHODS = {name: Method(entry.sentence, _PROPOSE, needs_network=True) for name, entry in COMPRESSORS.items()}
del METHODS["balanced"]  # it makes networks for sketches, and `sketch` certifies those
METHODS["sketch"] = Method(
    _SKETCH, "codebound_papers.guha23.sketch.layers:propose_sketched", needs_network=True
)
METHODS |= {name: METHODS.pop(name) for name in ("lottery", "imp")}  # what trains comes last

ENGINES = {"ray": "codebound_papers.sweep.cluster:RayEngine"}

DEMO = {"compare": "codebound_papers.compare.comparison:end_of_demo"}

_CODES = "codebound_papers.compress.codes"
TENSOR_CODES = {
    8: f"{_CODES}:Projected",
    9: f"{_CODES}:LowRank",
    10: f"{_CODES}:Filled",
    11: f"{_CODES}:Ticket",
    12: f"{_CODES}:Mixed",
    13: "codebound_papers.guha23.sketch.codec:Sketched",
}

NAMES = {
    "measure": "codebound_papers.measure",
    "compress": "codebound_papers.compress",
    "sketch": "codebound_papers.guha23.sketch",
    "compare": "codebound_papers.compare.table:compare",
    "study": "codebound_papers.study",
}
