"""Published expressions in 60 digits: nineteen layers whose norms no double can multiply."""

from dataclasses import replace

import mpmath
import pytest

from codebound_papers.baselines import arora_figure, guha_code, literature, parameter_counting
from codebound_papers.facts import LayerFacts, NetworkFacts
from codebound_papers.guha23.pruning import gaussian_pruning, rounded_deviation
from codebound_papers.guha23.sketching import sketching_risk


def deep_network(*, margin: float = 1e-3, scale: float = 1e30) -> NetworkFacts:
    layers = tuple(
        LayerFacts(
            name=str(i),
            rows=64 + i,
            columns=64 + max(0, i - 1),
            frobenius=scale * (2.0 + 0.31 * i),
            spectral=scale * (1.0 + 0.07 * i),
            operator_norm=scale * (1.0 + 0.07 * i),
            l2_1=scale * (9.0 + 0.13 * i),
            l1_inf=scale * (11.0 + 0.17 * i),
            variance=scale * 0.001,
        )
        for i in range(19)
    )
    return NetworkFacts(
        layers=layers,
        examples=50_000,
        classes=10,
        margin=margin,
        margin_loss=0.0123,
        input_norm=55.4,
        input_size=3072,
        largest_output=1e300,
        delta=0.05,
        parameters=sum(layer.weights for layer in layers) + 17,
    )


def exact(facts: NetworkFacts) -> list[mpmath.mpf]:
    """All three forms, straight from the printed formulas, with divisions and products as they stand."""
    mp = mpmath.mpf
    spectral = [mp(layer.spectral) for layer in facts.layers]
    frobenius = [mp(layer.frobenius) for layer in facts.layers]
    l21 = [mp(layer.l2_1) for layer in facts.layers]
    l1inf = [mp(layer.l1_inf) for layer in facts.layers]
    gamma, b, n = mp(facts.margin) ** 2, mp(facts.input_norm) ** 2, facts.examples
    product = mpmath.fprod(spectral) ** 2

    def total(weights: list[mpmath.mpf], norms: list[mpmath.mpf]) -> mpmath.mpf:
        return mpmath.fsum(w * (x / s) ** 2 for w, x, s in zip(weights, norms, spectral, strict=True))

    ones = [mp(1)] * 19
    h = max(layer.rows for layer in facts.layers)
    third = mp(2) / 3
    bartlett = mpmath.fsum((x / s) ** third for x, s in zip(l21, spectral, strict=True)) ** 3
    capacities = [
        mpmath.fprod(l1inf) ** 2 / gamma,
        b * mp(4) ** 19 * mpmath.fprod(frobenius) ** 2 / gamma,
        b * product * bartlett / gamma,
        b * 19**2 * h * mpmath.log(19 * h) * product * total(ones, frobenius) / gamma,
        facts.parameters * mpmath.log(2),
    ]
    return [
        *(mp(facts.margin_loss) + mpmath.sqrt(each / n) for each in capacities),
        mpmath.fprod(l1inf) / gamma,
        mpmath.fprod(frobenius) ** 2 / gamma,
        product * total(ones, l21) / gamma,
        product * total([mp(layer.rows) for layer in facts.layers], frobenius) / gamma,
        mp(facts.parameters),
        mpmath.fprod(frobenius) ** 2 / gamma,
        product * total([mp(layer.columns) for layer in facts.layers], frobenius) / gamma,
        product * total(ones, frobenius) / gamma,
    ]


@pytest.mark.parametrize("scale", [1e30, 1e-30, 1.0])
def test_baselines(scale):
    facts = deep_network(scale=scale)
    values = (*literature(facts), parameter_counting(facts), *arora_figure(facts), *guha_code(facts))
    with mpmath.workdps(60):
        for value, expected in zip(values, exact(facts), strict=True):
            assert value.log_value == pytest.approx(float(mpmath.log(expected)), rel=1e-12, abs=1e-12)


def test_values_beyond_a_double_keep_their_logarithm():
    value = guha_code(deep_network())[0]
    assert value.value == float("inf")
    assert value.log10 > 1000.0


def test_deviation_and_the_main_theorem():
    facts = deep_network()
    prunes = gaussian_pruning(facts, strength=1.0, step=1e-3, slack=38.0, sparsity_slack=38.0)
    with mpmath.workdps(60):
        mp = mpmath.mpf
        ratio = mp(1) / 3
        chi = 1 - mpmath.sqrt(ratio)
        changes, nats = [], mp(0)
        for layer, pruned in zip(facts.layers, prunes.layers, strict=True):
            psi, d1, d2 = mp(layer.variance), layer.rows, layer.columns
            gamma = mpmath.sqrt(psi * ratio ** mp("1.5")) * (mpmath.sqrt(d1) + mpmath.sqrt(d2))
            gamma += (3 * d1 * d2 * psi**2 * ratio ** mp("2.5")) ** mp("0.25")
            changes.append((38 * gamma + mp("0.001") * pruned.nonzeros) / mp(layer.spectral))
            nats += 3 * 38 * chi * d1 * d2 * mpmath.log(max(d1, d2)) ** 2 * mpmath.log(1000)
        product = mpmath.fprod(mp(layer.spectral) for layer in facts.layers)
        deviation = mpmath.e * 3072 * product * mpmath.fsum(changes)
        risk = mp(facts.margin_loss) + mpmath.sqrt(nats / facts.examples)
        found = rounded_deviation(facts, pruning=prunes)
        assert found.log_value == pytest.approx(float(mpmath.log(deviation)), rel=1e-12)
        assert sketching_risk(facts, pruning=prunes).value == pytest.approx(float(risk), rel=1e-12)
    wide = replace(facts, margin=1e300)
    assert sketching_risk(wide, pruning=prunes).unmet  # a margin of 1e300 is still too small
