"""Facts of a network written by hand, with all that theorems on noise stability ask for."""

from codebound_papers.facts import LayerFacts, NetworkFacts


def stable_layer(name: str = "0", **changes) -> LayerFacts:
    facts = {
        "name": name,
        "rows": 100,
        "columns": 100,
        "frobenius": 6.0,
        "spectral": 2.0,
        "operator_norm": 2.0,
        "l2_1": 50.0,
        "l1_inf": 9.0,
        "variance": 0.0036,
        "cushion": 0.3,
        "interlayer_cushion": 0.1,
        "contraction": 1.4,
    }
    return LayerFacts(**{**facts, **changes})


def stable_network(*layers: LayerFacts, **changes) -> NetworkFacts:
    layers = layers or (
        stable_layer("a"),
        stable_layer("b", cushion=0.2),
        stable_layer("c", contraction=None),
    )
    facts = {
        "layers": layers,
        "examples": 50_000,
        "classes": 10,
        "margin": 0.5,
        "margin_loss": 0.02,
        "input_norm": 7.0,
        "input_size": 100,
        "largest_output": 9.0,
        "delta": 0.05,
        "parameters": sum(each.weights for each in layers),
        "smoothness": 12.0,
    }
    return NetworkFacts(**{**facts, **changes})
