"""Networks know the papers' codes from one place alone, and do without them."""

import sys
from pathlib import Path

import cbound_writer as writer
import pytest

import codebound_verify
from codebound_verify.arithmetic import Decoder
from codebound_verify.networks.papers.random_tensors import READERS
from codebound_verify.networks.tensors import CODES, OF_THE_PAPERS, read_tensor
from codebound_verify.refusal import Refused


def test_every_mode_has_one_reader():
    assert list(READERS) == list(OF_THE_PAPERS)
    assert sorted([*CODES, *READERS]) == list(range(1, 15))


def test_no_other_module_of_networks_imports_the_papers_codes():
    networks = (Path(codebound_verify.__file__).parent / "networks").glob("*.py")
    assert [path.stem for path in networks if "from .papers" in path.read_text("utf-8")] == ["tensors"]


def decoder_of(mode: int) -> Decoder:
    coder = writer.Coder()
    coder.gamma(mode)
    bits = coder.end()
    return Decoder(writer.pack_bits(bits), len(bits))


@pytest.mark.parametrize("mode", OF_THE_PAPERS)
def test_modes_of_papers_that_were_left_out_are_refused_with_a_sentence(mode, monkeypatch):
    for name in ("networks.papers", "networks.papers.random_tensors"):
        monkeypatch.setitem(sys.modules, f"codebound_verify.{name}", None)
    with pytest.raises(Refused, match=f"tensor mode {mode} is one of the papers' compressors"):
        read_tensor(decoder_of(mode), (2, 2))


def test_papers_that_are_there_and_lack_something_are_no_reason_to_refuse(monkeypatch):
    """A damaged installation is not the fault of the file."""
    monkeypatch.delitem(sys.modules, "codebound_verify.networks.papers.random_tensors")
    monkeypatch.setitem(sys.modules, "numpy", None)
    with pytest.raises(ModuleNotFoundError, match="numpy"):
        read_tensor(decoder_of(8), (2, 2))
