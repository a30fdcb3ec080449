"""Facts of networks, written by hand: tests give the numbers that they are about."""

from collections.abc import Iterable

from codebound_papers.facts import LayerFacts, NetworkFacts
from codebound_papers.value import PublishedValue

FEW_NUMBERS = {"l2_1": 10.0, "l1_inf": 10.0, "variance": 0.01}
STABLE = {
    "frobenius": 6.0,
    "l2_1": 50.0,
    "l1_inf": 9.0,
    "variance": 0.0036,
    "cushion": 0.3,
    "interlayer_cushion": 0.1,
    "contraction": 1.4,
}


def layer_facts(name="0", *, rows=100, columns=100, spectral=2.0, **changes) -> LayerFacts:
    """Of a fully connected layer: its operator is its matrix; of stable rank 4 unless said otherwise."""
    norms = {"spectral": spectral, "operator_norm": spectral, "frobenius": 2.0 * spectral}
    return LayerFacts(name=name, rows=rows, columns=columns, **{**norms, **FEW_NUMBERS, **changes})


def layers_between(sides: Iterable[int], **changes) -> tuple[LayerFacts, ...]:
    """Alike but for their sizes: each leads from one side to the next."""
    sides = tuple(sides)
    return tuple(
        layer_facts(f"fc{i}", rows=sides[i + 1], columns=sides[i], **changes) for i in range(len(sides) - 1)
    )


def network_facts(*layers: LayerFacts, biases: int = 0, **changes) -> NetworkFacts:
    """Of a network of these layers on 48,000 examples of ten classes."""
    facts = {
        "examples": 48_000,
        "classes": 10,
        "margin": 0.5,
        "margin_loss": 0.0,
        "input_norm": 5.0,
        "input_size": layers[0].columns,
        "largest_output": 3.0,
        "delta": 0.05,
        "parameters": sum(each.weights for each in layers) + biases,
    }
    return NetworkFacts(layers=layers, **{**facts, **changes})


def stable_layer(name="0", **changes) -> LayerFacts:
    """With all that theorems on noise stability ask for."""
    return layer_facts(name, **{**STABLE, **changes})


def stable_network(*layers: LayerFacts, **changes) -> NetworkFacts:
    """Of layers with all that theorems on noise stability ask for: of three, unless they are given."""
    layers = layers or (
        stable_layer("a"),
        stable_layer("b", cushion=0.2),
        stable_layer("c", contraction=None),
    )
    facts = {
        "examples": 50_000,
        "margin_loss": 0.02,
        "input_norm": 7.0,
        "input_size": 100,
        "largest_output": 9.0,
        "smoothness": 12.0,
    }
    return network_facts(*layers, **{**facts, **changes})


def is_met(value: PublishedValue, statement: str) -> bool | None:
    """Whether the one condition of a theorem holds that these words are in."""
    (found,) = [each for each in value.hypotheses if statement in each.statement]
    return found.holds
