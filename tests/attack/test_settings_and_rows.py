"""What a decoder was told for nothing: classes, constants, rows. Each was once accepted, and is refused."""

import contextlib

import cbound_writer as writer
import numpy as np
import pytest
import torch
from attack import crafting
from attack.crafting import both

from codebound.certificate.claims import ByDisagreement
from codebound.certificate.decoding import decode
from codebound.certificate.file import Certificate
from codebound.certificate.task import Task
from codebound.certification import certify
from codebound.run.errors import CertificateError, CodeboundError, DataError
from codebound.sample.arrays import from_arrays
from codebound.sample.caveats import count_copies
from codebound.sample.dataset import Scaling
from codebound_networks.chains.chain import Chain
from codebound_networks.chains.operations import Linear
from codebound_networks.chains.original import Original
from codebound_verify import verify
from codebound_verify.words import ROWS

X, Y = writer.clusters()
LINEAR = [["linear", 3, True]]
TENSORS = {"0.weight": writer.adaptive(writer.WEIGHT, -3), "0.bias": writer.dense(writer.BIAS, 1)}
SIXTEEN = {"divisor": 16.0, "mean": [0.0], "std": [1.0]}


def refused(data: bytes, because: str, x=X, y=Y, **given) -> None:
    crafting.refused(data, because, x, y, **given)


def claimed(x=X, y=Y, *, scaling=SIXTEEN, version=2, **changes) -> bytes:
    """A file that claims little: every example may be an error."""
    message = writer.Message(LINEAR, TENSORS, scaling=scaling, version=version)
    fields = writer.header(message, x, y, errors=changes.pop("errors", len(y)), classes=3, **changes)
    return writer.write_as(version, message, fields)


# ---------------------------------------------------------------- the number of classes


def random_directions(classes: int) -> writer.Message:
    """Weights that are random signs, as many as there are classes: another network for each number."""
    z = writer.dense(np.array([[1, -1]]))
    weight = writer.projected((classes, 4), z, seed=3)
    return writer.Message([["linear", classes, False]], {"0.weight": weight}, scaling=SIXTEEN)


def test_the_same_bits_are_one_network_alone():
    """Once a message was read with whatever number of classes a header named."""
    true = random_directions(3)
    assert verify(writer.write(true, writer.header(true, X, Y, errors=400, classes=3)), X, Y).is_accepted
    for classes in (4, 5, 40):
        lie = writer.write(true, writer.header(true, X, Y, errors=400, classes=classes))
        refused(lie, f"about 3 classes; facts.classes is {classes}")
        with pytest.raises(CertificateError, match="the header of the file about"):
            decode(Certificate.from_bytes(lie))
        other = random_directions(classes)
        assert other.bits != true.bits
        ours, theirs = both(writer.write(other, writer.header(other, X, Y, errors=400, classes=classes)))
        assert ours == theirs != both(writer.write(true, writer.header(true, X, Y, errors=400, classes=3)))[0]


def constant(classes: int, label: int) -> writer.Message:
    bias = np.zeros(classes, int)
    bias[label] = 1
    tensors = {"0.weight": writer.zero((classes, 4)), "0.bias": writer.enumerative(bias)}
    return writer.Message([["linear", classes, True]], tensors, scaling=SIXTEEN)


@pytest.mark.thorough
@pytest.mark.parametrize("classes", [3, 1000])
def test_no_number_of_classes_makes_a_constant_informative(classes):
    label = int(np.bincount(Y).argmax())
    message = constant(classes, label)
    fields = writer.header(message, X, Y, errors=int((label != Y).sum()), classes=classes)
    assert fields["claim"]["vacuous"]
    verdict = verify(writer.write(message, fields), X, Y)
    assert verdict.is_accepted
    assert verdict.vacuous
    fields["claim"]["vacuous"] = False
    refused(writer.write(message, fields), "vacuous is False")
    fields["claim"]["vacuous"] = True
    fields["facts"]["commonest"] -= 1
    refused(writer.write(message, fields), "commonest is")


@pytest.mark.thorough
def test_version_1_cannot_hide_that_a_bound_says_nothing():
    label = int(np.bincount(Y).argmax())
    message = constant(1000, label)
    message = writer.Message(message.operations, message.tensors, scaling=SIXTEEN, version=1)
    fields = writer.header(message, X, Y, errors=int((label != Y).sum()), classes=1000)
    verdict = verify(writer.write_first(message, fields), X, Y)
    assert verdict.is_accepted
    assert verdict.vacuous
    assert "VACUOUS" in verdict.claim
    assert any("the number of classes, 1000" in line for line in verdict.assumptions)


# ---------------------------------------------------------------- constants of the scaling


def test_constants_are_paid_for():
    free, literal = (
        writer.Message(LINEAR, TENSORS, scaling=scaling)
        for scaling in (SIXTEEN, {"divisor": 16.0, "mean": [0.375], "std": [0.5]})
    )
    assert len(literal.bits) == len(free.bits) + 2 + 3 * 32


def test_constants_that_the_message_does_not_say_are_refused():
    for scaling in (
        {"divisor": 16.0, "mean": [0.375], "std": [1.0]},
        {"divisor": 255.0, "mean": [0.0], "std": [1.0]},
    ):
        message = writer.Message(LINEAR, TENSORS, scaling=SIXTEEN)
        lie = writer.write(message, writer.header(message, X, Y, errors=400, classes=3, scaling=scaling))
        refused(lie, "its scaling is")
        with pytest.raises(CodeboundError):
            decode(Certificate.from_bytes(lie))


@pytest.mark.parametrize("version", [1, 2, 3])
def test_trained_constants_for_every_number_of_an_input(version):
    """Stored as many channels of one pixel, a classifier could hide in mean and std."""
    x = X.reshape(-1, 4, 1, 1).repeat(2, 1)
    scaling = {"divisor": 16.0, "mean": [0.3] * 8, "std": [0.7] * 8}
    message = writer.Message([["linear", 3, False]], {"0.weight": writer.zero((3, 8))}, version=version)
    fields = writer.header(message, x, Y, errors=400, classes=3, scaling=scaling)
    data = writer.write_as(version, message, fields)
    refused(data, "a list of 1 to 4 entries", x)


def own(x: np.ndarray) -> dict[str, float]:
    """Mean and std as a message can say them."""
    return {"mean": float(np.float32((x / 16).mean())), "std": float(np.float32((x / 16).std()))}


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("name", ["mean", "std"])
def test_statistics_of_the_sample_are_no_constants(name, version):
    for factor, is_fine in ((1.0, False), (1.0005, False), (1.01, True)):
        value = float(np.float32(own(X)[name] * factor))
        scaling = {**SIXTEEN, name: [value]}
        data = claimed(scaling=scaling, version=version)
        if is_fine:
            assert verify(data, X, Y).is_accepted
        else:
            refused(data, f"Scaling: {name}")
        constants = Scaling(16.0, **{name: (value,)})
        sample = from_arrays(X, Y, name="clusters", classes=3, scaling=constants)
        with contextlib.nullcontext() if is_fine else pytest.raises(DataError, match="of this very sample"):
            Task(sample=sample, delta=0.05)


def test_inputs_that_were_standardised_on_the_sample():
    raw = np.random.default_rng(0).normal(3.0, [1, 2, 3, 4], (400, 4))
    stored = (raw - raw.mean(0)) / raw.std(0)
    message = writer.Message(
        [["linear", 3, False]], {"0.weight": writer.zero((3, 4))}, scaling=writer.AS_STORED
    )
    for x, is_fine in ((stored, False), (raw, True)):
        data = writer.write(message, writer.header(message, x, Y, errors=400, classes=3))
        assert verify(data, x, Y).is_accepted == is_fine
        sample = from_arrays(x, Y, name="table", classes=3)
        with contextlib.nullcontext() if is_fine else pytest.raises(DataError, match="standardised"):
            Task(sample=sample, delta=0.05)


def test_certify_refuses_the_means_of_the_sample():
    constants = own(X)
    sample = from_arrays(
        X, Y, name="mine", classes=3, scaling=Scaling(16.0, (constants["mean"],), (constants["std"],))
    )
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 3))
    with pytest.raises(DataError, match="not fixed before the sample was seen"):
        certify(model, sample, effort="quick")


# ---------------------------------------------------------------- rows


@pytest.mark.few(2)
@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_sample_that_is_repeated(version):
    x, y = np.tile(X, (20, 1, 1, 1)), np.tile(Y, 20)
    data = claimed(x, y, version=version)
    refused(data, "7600 of the 8000 examples of the sample are exact copies", x, y)
    vouched = verify(data, x, y, allow_copies=True)
    assert vouched.is_accepted
    assert vouched.copies == 7600
    assert any("7600 of the 8000" in line for line in vouched.assumptions)
    with pytest.raises(CertificateError, match="7600 of 8000 examples are exact copies"):
        Task(sample=from_arrays(x, y, name="again", scaling=Scaling(16.0)), delta=0.05)


def copied_by_signs(dtype):
    """400 examples four times, with other signs of their two zeros: equal numbers in other bytes."""
    x = np.random.default_rng(0).random((400, 1, 2, 2)).astype(dtype)
    signs = [(first, second) for first in (0.0, -0.0) for second in (0.0, -0.0)]
    copies = [x.copy() for _ in signs]
    for copy, zeros in zip(copies, signs, strict=True):
        copy[:, 0, :, 1] = zeros
    return np.concatenate(copies), np.tile((x[:, 0, 0, 0] > x[:, 0, 1, 0]).astype(np.int64), 4)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_copies_that_differ_in_the_sign_of_a_zero(dtype):
    """As bytes none is a copy, and so says the header, which is right by the page; as numbers most are."""
    x, y = copied_by_signs(dtype)
    assert writer.repeats(x, y) == (0, 0)
    message = writer.Message(LINEAR, TENSORS, scaling=SIXTEEN)
    data = writer.write(message, writer.header(message, x, y, errors=len(y), classes=3))
    refused(data, "1200 of the 1600 examples of the sample are exact copies", x, y)
    vouched = verify(data, x, y, allow_copies=True)
    assert vouched.is_accepted
    assert any("1200 of the 1600" in line for line in vouched.assumptions)
    sample = from_arrays(x, y, name="again", scaling=Scaling(16.0))
    with pytest.raises(CertificateError, match="1200 of 1600 examples are exact copies"):
        certify(None, sample, method="split", effort="quick")
    found = certify(None, sample, method="split", effort="quick", allow_copies=True)
    assert any("1200 of 1600" in line for line in found.certificate.declarations)
    assert found.certificate.facts.copies == 0
    assert not verify(found.certificate.to_bytes(), x, y).is_accepted


def test_near_copies_are_declared_and_not_found():
    """A millionth more makes another number: no program can tell it from another draw."""
    x = np.concatenate([X + np.float32(1e-6 * k) for k in range(4)]).astype(np.float32)
    assert count_copies(from_arrays(x, np.tile(Y, 4), name="near", scaling=Scaling(16.0))).equal < 16
    assert any("Independent draws" in line for line in verify(claimed(), X, Y).assumptions)


def test_copies_that_the_header_does_not_count():
    x, y = np.concatenate([X, X[:4]]), np.concatenate([Y, Y[:2], (Y[2:4] + 1) % 3])
    assert writer.repeats(x, y) == (2, 2)
    assert verify(claimed(x, y), x, y).is_accepted
    rows = count_copies(from_arrays(x, y, name="few", scaling=Scaling(16.0)))
    assert (rows.n, rows.copies, rows.contradictions) == (404, 2, 2)
    for name in ("copies", "contradictions"):
        message = writer.Message(LINEAR, TENSORS, scaling=SIXTEEN)
        fields = writer.header(message, x, y, errors=404, classes=3)
        fields["facts"][name] = 0
        refused(writer.write(message, fields), f"{name} is 0; this sample has 2", x, y)


def test_rows_in_an_order_of_the_author_are_declared():
    """No program can see that errors were parked in the first part of a split, or left out."""
    order = np.argsort(Y, kind="stable")
    verdict = verify(claimed(X[order], Y[order]), X[order], Y[order])
    assert verdict.is_accepted
    assert ROWS in verdict.assumptions
    assert "in which order" in ROWS


# ---------------------------------------------------------------- unlabelled inputs


def disagreement(unlabelled: np.ndarray, **changes) -> tuple[bytes, dict]:
    """C-12b with f = g."""
    f = {name: each.values.astype(np.float32) for name, each in TENSORS.items()}
    extra = {
        "disagreements": len(unlabelled),
        "n_unlabelled": len(unlabelled),
        "unlabelled_sha256": writer.sample_hash(unlabelled, np.zeros(len(unlabelled), np.int64)),
        "subject_sha256": writer.tensors_hash(f),
        "subject_chain": LINEAR,
        "delta_risk": 0.025,
        "delta_disagreement": 0.025,
        **changes,
    }
    ones = {"bound": 1.0, "kl": 1.0, "hoeffding": 1.0}
    more = {"statement": "C-12b", "subject": "f", "extra": extra, "forms": ones}
    return claimed(**more), {"unlabelled": unlabelled, "subject_weights": f}


def test_unlabelled_inputs_out_of_the_sample():
    fresh, _ = writer.clusters(300, seed=1)
    data, given = disagreement(fresh)
    assert verify(data, X, Y, **given).is_accepted
    mixed = fresh.copy()
    mixed[7] = X[5]
    for unlabelled, many in ((X, 400), (mixed, 1), (mixed.astype(np.float32), 1)):
        data, given = disagreement(unlabelled)
        refused(data, f"{many} of the {len(unlabelled)} inputs occur in the sample", **given)
        inputs = from_arrays(unlabelled, None, name="u", role="unlabelled", scaling=Scaling(16.0))
        tensors = {name: torch.from_numpy(each.values).float() for name, each in TENSORS.items()}
        with pytest.raises(
            CertificateError, match=f"{many} of the {len(unlabelled)} unlabelled inputs occur"
        ):
            Task(
                sample=from_arrays(X, Y, name="s", scaling=Scaling(16.0)),
                delta=0.05,
                claim=ByDisagreement(inputs),
                original=Original(Chain((1, 2, 2), (Linear(3, True),)), tensors),
            )


def test_unlabelled_inputs_that_are_repeated():
    fresh = np.tile(writer.clusters(30, seed=1)[0], (10, 1, 1, 1))
    data, given = disagreement(fresh)
    refused(data, "270 of the 300 unlabelled inputs are exact copies", **given)
    assert verify(data, X, Y, allow_copies=True, **given).is_accepted


@pytest.mark.parametrize("risk", [0.01, 0.024999999999999998, 0.04])
def test_another_split_of_delta(risk):
    fresh, _ = writer.clusters(300, seed=1)
    data, given = disagreement(fresh, delta_risk=risk, delta_disagreement=0.05 - risk)
    refused(data, "half of delta", **given)
