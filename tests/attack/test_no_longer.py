"""True files about losses that are no yes or no, as former programs made them: refused by name."""

import json
import re
from pathlib import Path

import cbound_writer as writer
import numpy as np
import pytest

from codebound.bits.arithmetic import Reader
from codebound.bits.bitstring import Bits
from codebound.bits.numbers import gamma
from codebound.bits.setting import code_loss
from codebound.certificate.calculator import Counts, calculate
from codebound.certificate.file import Certificate
from codebound.certification import certify
from codebound.holdout.ledger import read_ledger
from codebound.run.errors import FormatError, UsageError
from codebound.sample.arrays import from_arrays
from codebound.sample.losses import WRONG, parse_loss
from codebound_verify import verify
from codebound_verify.arithmetic import Decoder
from codebound_verify.holdout.ledger import verify_ledger
from codebound_verify.losses import decode_new_loss
from codebound_verify.refusal import Refused

HERE = Path(__file__).parent
FILES = sorted((HERE / "no_longer").glob("*.cbound"))
LEDGERS = sorted((HERE / "no_longer").glob("*.looks.jsonl"))
WHAT = {"abstain": "counts errors among the examples that are answered", "cost": "is a mean"}
LOSSES = ("abstain:0.5", "cost:distance", "cost:012,103,f10", "cost:", "abstain")


def names(path):
    return path.name


def is_refused_by_name(reasons, loss):
    what = WHAT[loss.split(":")[0]]
    return any(f"the loss {loss} {what}, which this program no longer checks." in each for each in reasons)


def test_there_are_files_of_every_kind_of_statement():
    stated = {
        (each["claim"]["statement"], each["claim"]["fault"].split(":")[0]) for each in map(header, FILES)
    }
    assert stated == {
        ("C-2", "abstain"),
        ("C-2", "cost"),
        ("C-12b", "abstain"),
        ("C-15", "abstain"),
        ("C-15", "cost"),
    }
    assert len(LEDGERS) == 2


def header(path):
    content = path.read_bytes()
    return json.loads(content[12 : 12 + int.from_bytes(content[8:12], "little")])


@pytest.mark.parametrize("path", FILES, ids=names)
def test_a_true_certificate_is_refused_by_both(path):
    with np.load(HERE.parent / "golden/version-3/given.npz") as given:
        verdict = verify(path, given["x"], given["y"])
    loss = header(path)["claim"]["fault"]
    assert verdict.verdict == "REFUSE"
    assert is_refused_by_name(verdict.reasons, loss)
    with pytest.raises(FormatError, match=f"the loss {re.escape(loss)} .* this program no longer bounds"):
        Certificate.load(path)


@pytest.mark.parametrize("path", LEDGERS, ids=names)
def test_a_true_ledger_is_refused_by_both(path):
    loss = json.loads(path.read_text().splitlines()[0])["fault"]
    verdict = verify_ledger(path.read_bytes())
    assert verdict.verdict == "REFUSE"
    assert is_refused_by_name(verdict.reasons, loss)
    with pytest.raises(FormatError, match="no longer checks"):
        read_ledger(path)


@pytest.mark.parametrize("loss", LOSSES)
def test_who_asks_for_one_hears_what_to_ask_for(loss):
    x, y = writer.clusters(60)
    sample = from_arrays(x, y, name="clusters", classes=3)
    for asked in (
        lambda: parse_loss(loss),
        lambda: certify(None, sample, method="split", loss=loss),
        lambda: calculate(Counts(n=100, errors=1, is_holdout=True, loss=loss)),
    ):
        with pytest.raises(UsageError, match=r"no longer bounds: .* Ask for (wrong|cost-above)"):
            asked()


@pytest.mark.parametrize("loss", ["abstain:0.5", "cost:distance", "cost:012,103,f10"])
def test_no_message_names_one(loss):
    coder = writer.Coder()
    writer.write_loss(coder, 3, loss)
    word = coder.end()
    data = int(word.ljust(-(-len(word) // 8) * 8, "0"), 2).to_bytes(-(-len(word) // 8), "big")
    reader, decoder = Reader(Bits(data, len(word))), Decoder(data, len(word))
    assert (gamma(reader, 0), decoder.gamma()) == (6, 6)
    with pytest.raises(FormatError, match="loss of kind"):
        code_loss(reader, 6, WRONG, 3)
    with pytest.raises(Refused, match=WHAT[loss.split(":")[0]]):
        decode_new_loss(decoder, 3)
