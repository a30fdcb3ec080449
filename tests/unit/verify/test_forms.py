"""The printed numbers of a claim against the exact ones, for a header of every form."""

from dataclasses import replace

import cbound_writer as writer
import pytest
from scipy.stats import beta

from codebound_verify.checks import check_claim, guessing
from codebound_verify.header import Disagreement, Picked, parse_header
from codebound_verify.losses import read_fault
from codebound_verify.refusal import Refused
from codebound_verify.versions import VERSIONS


def header(**changes):
    parsed = parse_header(writer.canonical(writer.linear_case(400).fields), VERSIONS[2])
    return replace(parsed, **changes)


def limit(errors, n, level):
    """Clopper and Pearson's."""
    return float(beta.isf(level, errors + 1, n - errors))


def refusal(head):
    with pytest.raises(Refused) as refused:
        check_claim(head)
    return " ".join(refused.value.reasons)


def test_what_a_true_file_prints_is_accepted():
    check_claim(header())


@pytest.mark.parametrize("form", ["bound", "kl", "hoeffding"])
@pytest.mark.parametrize(("factor", "word"), [(1 - 1e-6, "smaller"), (1 + 1e-3, "larger")])
def test_every_form_is_neither_smaller_nor_much_larger_than_true(form, factor, word):
    head = header()
    found = refusal(replace(head, **{form: getattr(head, form) * factor}))
    assert f"Claim: {form} is printed as" in found
    assert f"which is {word} than" in found


@pytest.mark.parametrize("change", [{"errors": 60}, {"n": 200}], ids=str)
def test_facts_that_give_another_bound_are_noticed(change):
    assert "smaller than the true" in refusal(header(**change))


def test_the_word_vacuous_is_that_of_guessing():
    head = header()
    assert "vacuous is True" in refusal(replace(head, vacuous=True))
    assert guessing(head, None) == pytest.approx(2 / 3)
    assert guessing(head, 300) == pytest.approx(0.25)  # the commonest label of 400 examples
    assert guessing(replace(head, fault=read_fault("top:2", 3, has_new=True)), 300) == pytest.approx(1 / 3)


def disagreeing(share=0.5, disagreement=0.5, count=7):
    head = header()
    extra = Disagreement(
        n_unlabelled=300,
        disagreements=count,
        delta_risk=head.delta * share,
        delta_disagreement=head.delta * disagreement,
        unlabelled_sha256="0" * 64,
        subject_sha256="0" * 64,
        subject_chain=(),
    )
    added = limit(count, 300, extra.delta_disagreement)
    bound = limit(head.errors, head.n, extra.delta_risk * 2.0**-head.code_bits) + added
    return replace(head, extra=extra, bound=bound * (1 + 1e-12))


def test_disagreements_are_added_at_half_of_delta_each():
    found = refusal(disagreeing())  # kl and hoeffding are still those of g
    assert "bound is printed" not in found
    assert "kl is printed" in found
    assert "Claim: bound" in refusal(replace(disagreeing(), bound=header().bound))


def test_a_split_of_delta_that_was_chosen_is_refused():
    assert "they must be half of delta and half of it" in refusal(disagreeing(0.9, 0.1))


def test_a_picked_network_has_one_form():
    head = header()
    found = refusal(replace(head, extra=Picked(first=0, picks=20)))
    assert "bound, kl and hoeffding are one number for C-15" in found
