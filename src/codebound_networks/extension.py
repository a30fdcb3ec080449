"""Verbs, methods, readers and forms for the entry point group ``codebound.extensions``."""

from codebound.run.extensions import NETWORKS, Method, Verb

VERBS = {
    "doctor": Verb("codebound_networks.cli.doctor:command", after="data", has_config=False),
    "train": Verb("codebound_networks.cli.train:command", panel=NETWORKS),
    "demo": Verb("codebound_networks.cli.demo:command", has_config=False, is_hidden=True),
}

METHODS = {
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
        is_spare=True,
    ),
    "subspace-f": Method(
        "The same in the architecture of f, whatever the inputs are.",
        "codebound_networks.methods.subspace_networks:propose_subspace_of_f",
        needs_network=True,
    ),
    "constant": Method(
        "Always the commonest label: the last resort.",
        "codebound_networks.methods.constant:propose_constant",
        is_own=True,
        is_spare=True,
    ),
}

LEARNERS = {"pictures": "codebound_networks.train.pictures:train_network"}

READERS = {
    "pictures": "codebound_networks.train.pictures:load_network",
    "modules": "codebound_networks.about_f.models:as_traced",
    "networks": "codebound_networks.about_f.models:load_network",
    "bases": "codebound_networks.about_f.base:load_base",
    "models": "codebound_networks.reading.loading:load_model",
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
