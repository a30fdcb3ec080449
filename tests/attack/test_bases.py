"""Attacks on a certificate that rests on a base: another one, none, other shapes, and silent headers."""

import copy
import json

import cbound_writer as writer
import numpy as np
import pytest
from attack import crafting
from safetensors.numpy import save_file
from worlds.samples import written_clusters

from codebound.certificate.decoding import decode
from codebound.certificate.file import Certificate
from codebound.certification import certify
from codebound.known.base import Pretrained
from codebound.run.errors import CodeboundError
from codebound_verify import verify
from codebound_verify.__main__ import main

X, Y = writer.clusters(200, 0)


def certified():
    model = crafting.solved()
    return certify(
        model, written_clusters(200), method="prune", effort="quick", base=Pretrained(model, "made elsewhere")
    )


FOUND = certified()
DATA, BASE = FOUND.certificate.to_bytes(), FOUND.base


def changed(**tensors):
    """The base with other tensors; None leaves one out."""
    found = {**BASE, **{name.replace("_", "."): value for name, value in tensors.items()}}
    return {name: value for name, value in found.items() if value is not None}


def nudged(value):
    value = value.copy()
    value.flat[0] = np.nextafter(value.flat[0], np.float32(np.inf))
    return value


BASES = {
    "none": (None, "--base"),
    "one that differs in the last bit": (changed(**{"0_weight": nudged(BASE["0.weight"])}), "SHA-256"),
    "one without a layer": (changed(**{"0_bias": None}), "SHA-256"),
    "one with a tensor more": (changed(other=np.zeros(1, np.float32)), "SHA-256"),
    "one in double precision": (
        {name: value.astype(np.float64) for name, value in BASE.items()},
        "must be float32",
    ),
    "one that is not finite": (changed(**{"0_bias": np.full(3, np.nan, np.float32)}), "finite"),
    "one of another shape": (changed(**{"0_weight": BASE["0.weight"].reshape(4, 3)}), "SHA-256"),
    "an empty one": ({}, "SHA-256"),
}


def test_the_certificate_that_is_attacked_is_true():
    assert verify(DATA, X, Y, base=BASE).reasons == ()
    assert FOUND.is_base


@pytest.mark.parametrize("name", BASES)
def test_another_base_is_refused_by_both_programs(name):
    base, because = BASES[name]
    verdict = verify(DATA, X, Y, base=base)
    assert verdict.bound is None
    assert any(because in reason for reason in verdict.reasons), verdict.reasons
    with pytest.raises(CodeboundError, match=r"base"):
        decode(Certificate.from_bytes(DATA), base=base)


def rewritten(change):
    fields = json.loads(DATA[12 : 12 + int.from_bytes(DATA[8:12], "little")])
    change(fields)
    return writer.seal(writer.canonical(fields), FOUND.certificate.message.data, version=DATA[7])


MISFITS = {
    "a tensor of another shape": (
        changed(**{"0_weight": BASE["0.weight"].reshape(4, 3)}),
        "0.weight has shape",
    ),
    "a tensor that is missing": (changed(**{"0_bias": None}), "no tensor 0.bias"),
    "one that errs": (changed(**{"0_bias": np.full(3, 3e38, np.float32)}), "errors"),
}


@pytest.mark.parametrize("name", MISFITS)
def test_a_header_that_names_a_base_that_does_not_fit(name):
    """Every hash is right; the base is still no start for this network, or one that errs."""
    base, because = MISFITS[name]

    def name_it(fields):
        fields["helper"]["base"]["sha256"] = writer.tensors_hash(base)

    data = rewritten(name_it)
    verdict = verify(data, X, Y, base=base)
    assert verdict.bound is None
    assert any(because in reason for reason in verdict.reasons), verdict.reasons
    if because != "errors":
        with pytest.raises(CodeboundError, match=r"base has"):
            decode(Certificate.from_bytes(data), base=base)


def floats(content):
    return np.frombuffer(content, np.float32)


def two_sets_of_one_hash():
    """Tensors with bars in their names, so that the bytes that are hashed can be read in two ways.

    The numbers of "!" in the first set spell the rest of a longer name, a bias and a weight; the second set
    has those, and takes the true ones behind them for numbers of its tensor "1".
    """

    def spelled(tensors):
        return b"0.bias|3|" + tensors["0.bias"].tobytes() + b"0.weight|3,4|" + tensors["0.weight"].tobytes()

    other = {name: np.zeros_like(value) for name, value in BASE.items()}
    behind = spelled(BASE) + b"1|1|1234"
    behind = b"0" * (-len(behind) % 4) + behind
    fake = b"|1|1234" + spelled(other) + f"1|{len(behind) // 4}|".encode()
    filling = behind[: behind.index(b"0.bias")]
    letters = b"a" * (-len(fake + filling) % 4)
    inside = floats(letters + fake + filling)
    first = {"!": inside, **BASE, "1": floats(b"1234")}
    second = {f"!|{inside.size}|{letters.decode()}": floats(b"1234"), **other, "1": floats(behind)}
    return first, second


def test_one_hash_names_one_base():
    first, second = two_sets_of_one_hash()
    assert writer.tensors_hash(first) == writer.tensors_hash(second)  # teeth: without the rule on names
    assert all(np.isfinite(value).all() for value in second.values())

    def name_it(fields):
        fields["helper"]["base"]["sha256"] = writer.tensors_hash(first)

    data = rewritten(name_it)
    assert verify(data, X, Y, base=first).is_accepted
    assert any("without |" in reason for reason in verify(data, X, Y, base=second).reasons)
    decode(Certificate.from_bytes(data), base=first)
    with pytest.raises(CodeboundError, match="printable ASCII"):
        decode(Certificate.from_bytes(data), base=second)


def test_a_header_that_hides_its_base():
    """The message itself says that it codes differences."""
    data = rewritten(lambda fields: fields["helper"].__setitem__("base", None))
    verdict = verify(data, X, Y, base=BASE)
    assert any("differences to a base" in reason for reason in verdict.reasons)
    for base in (None, BASE):
        with pytest.raises(CodeboundError, match="base"):
            decode(Certificate.from_bytes(data), base=base)


def test_a_header_that_hides_its_declaration_is_answered_in_the_programs_own_words():
    data = rewritten(lambda fields: fields.__setitem__("declarations", ["All is well."]))
    verdict = verify(data, X, Y, base=BASE)
    assert verdict.is_accepted
    for said in (verdict.assumptions[0], str(Certificate.from_bytes(data))):
        assert f"{FOUND.certificate.helper.base.sha256}, was neither trained nor selected on" in said


def test_a_name_that_talks_cannot_finish_the_sentence():
    """Whatever the file calls its base comes last, and in quotes."""
    name = "'. There is no base.\nACCEPT"

    def call_it(fields):
        fields["helper"]["base"]["name"] = name

    data = rewritten(call_it)
    for said in (verify(data, X, Y, base=BASE).assumptions[0], Certificate.from_bytes(data).base_declared):
        assert said.startswith("The base, of SHA-256")
        assert said.endswith(f"{name!r}.")
        assert "\n" not in said


@pytest.mark.parametrize("content", [b"", b"\xff" * 64, b"\x02" + b"\0" * 7 + b"[]"])
def test_files_that_hold_no_base(content, tmp_path, capsys):
    np.savez(tmp_path / "s.npz", x=X, y=Y)
    (tmp_path / "c.cbound").write_bytes(DATA)
    save_file(copy.deepcopy(BASE), tmp_path / "base.safetensors")
    arguments = [str(tmp_path / "c.cbound"), "--data", str(tmp_path / "s.npz"), "--base"]
    assert main([*arguments, str(tmp_path / "base.safetensors")]) == 0
    assert "made elsewhere" in capsys.readouterr().out
    (tmp_path / "base.safetensors").write_bytes(content)
    with pytest.raises(SystemExit) as end:
        main([*arguments, str(tmp_path / "base.safetensors")])
    assert end.value.code == 2
