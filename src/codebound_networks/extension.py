"""Verbs, methods, readers, forms and names for the entry point group ``codebound.extensions``."""

from codebound.methods.registry import Method
from codebound.run.extensions import Verb

VERBS = {
    "demo": Verb("codebound_networks.cli.demo:command", has_config=False),
    "train": Verb("codebound_networks.cli.train:command", after="data"),
    "through": Verb("codebound_networks.cli.through:command", after="sign", has_config=False),
    "doctor": Verb("codebound_networks.cli.doctor:command", after="bound", has_config=False),
}

METHODS = {
    "constant": Method(
        "Always the commonest label: what every other method has to beat.",
        "codebound_networks.methods.constant:propose_constant",
        is_own=True,
        is_first=True,
    ),
    "features": Method(
        "A sparse linear layer on features that cost no bits: those of fixed filters, or of the base.",
        "codebound_networks.methods.sparse_features:propose_features",
        is_own=True,
    ),
    "prune": Method(
        "Prunes and quantises; trains what is left on the sample, unless the effort is quick.",
        "codebound_networks.methods.pruned:propose_pruned",
        needs_network=True,
    ),
    "subspace": Method(
        "All weights from a few integers in a random subspace: of a small network of its own, best on a GPU, "
        "or around the base.",
        "codebound_networks.methods.subspace_networks:propose_subspace",
        is_own=True,
    ),
    "subspace-f": Method(
        "The same in the architecture of f, whatever the inputs are.",
        "codebound_networks.methods.subspace_networks:propose_subspace_of_f",
        needs_network=True,
    ),
}

READERS = {
    "modules": "codebound_networks.about_f.models:as_traced",
    "networks": "codebound_networks.about_f.models:load_network",
    "bases": "codebound_networks.about_f.models:base_from_options",
    "class names": "codebound_networks.about_f.models:head_from_names",
    "models": "codebound_networks.reading.loading:load_model",
}

NAMES = {
    "load_model": "codebound_networks.reading.loading:load_model",
    "wrap": "codebound_networks.reading.walk:wrap",
    "fit": "codebound_networks.train.harness:fit",
    "TrainConfig": "codebound_networks.train.config:TrainConfig",
    "load_base": "codebound_networks.about_f.base:load_base",
    "bound_through": "codebound_networks.about_f.disagreement:bound_through",
}

FORMS = {
    "message": "codebound_networks.chains.message:decode",
    "network": "codebound_networks.chains.original:Original.read",
    "f": "codebound_networks.methods.inputs:read_original",
    "networks": "codebound_networks.methods.inputs:read_networks",
    "helper": "codebound_networks.methods.inputs:known_of_prior",
    "theta": "codebound_networks.about_f.domain:covering_theta",
    "rounding": "codebound_networks.about_f.rounding:RoundingBound",
}
