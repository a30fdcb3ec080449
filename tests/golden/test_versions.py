"""Files of every version stay readable, by both programs, and say which page they are written by."""

import hashlib
import re
from dataclasses import replace
from pathlib import Path

import pytest
from worlds.commands import script
from worlds.golden import FILES, given

import codebound.certificate.versions as ours
import codebound_verify.versions as theirs
from codebound.certificate.decoding import decode, rule_message
from codebound.certificate.file import Certificate
from codebound.run.errors import FormatError
from codebound_verify import decode_network, verify

HERE = Path(__file__).parent
DOCS = HERE.parents[1] / "docs"
DRAFT = "Not frozen yet:"

each_file = pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")


def test_there_are_files_of_every_frozen_version():
    frozen = [number for number, version in theirs.VERSIONS.items() if version.page != theirs.Page("", "")]
    assert {path.parent.name for path in FILES} == {f"version-{number}" for number in frozen}


@pytest.mark.few(14)
@each_file
def test_both_programs_read_it(path):
    content, version = path.read_bytes(), int(path.parent.name[-1])
    certificate = Certificate.from_bytes(content)
    assert content[7] == version == certificate.version
    assert certificate.to_bytes() == content
    if certificate.claim.statement == "C-15":  # the network is learned from the sample
        message = rule_message(certificate)
        assert message.encode() == (certificate.message, certificate.ledger)
        return
    base = given(path)[2]["base"]
    _, found = decode_network(content, base=base)
    state = decode(certificate, base=base).state_dict()
    assert [state[name].numpy().tobytes() for name in found] == [each.tobytes() for each in found.values()]


@pytest.mark.few(9)
@each_file
def test_the_verifier_accepts_it(path):
    x, y, beside = given(path)
    verdict = verify(path, x, y, **beside)
    assert verdict.reasons == ()


def test_what_version_2_says_version_3_says_too():
    path = HERE / "version-2/plain.cbound"
    old = Certificate.load(path)
    new = replace(old, format=ours.PAGE_3)
    content = new.to_bytes()
    assert content[7] == 3
    assert Certificate.from_bytes(content) == new
    x, y, _ = given(path)
    assert verify(content, x, y).reasons == ()


@pytest.mark.parametrize("version", [0, 1, 3, 4])
def test_another_version_byte_is_another_page(version):
    content = bytearray((HERE / "version-2/plain.cbound").read_bytes())
    content[7] = version
    content[-32:] = hashlib.sha256(content[:-32]).digest()
    with pytest.raises(FormatError, match="this is no certificate"):
        Certificate.from_bytes(bytes(content))
    x, y, _ = given(HERE / "version-2/plain.cbound")
    verdict = verify(bytes(content), x, y)
    assert any("version" in reason or "Header" in reason for reason in verdict.reasons)


@pytest.mark.parametrize(("number", "name"), [(2, "format.md"), (3, "format-3.md")])
def test_both_programs_carry_the_hash_and_the_day_of_the_page(number, name):
    page = DOCS / name
    expected = hashlib.sha256(page.read_bytes()).hexdigest(), *_days(page.read_text())
    if DRAFT in page.read_text():
        expected = "", ""
    for programs in (ours.PAGES[number], theirs.VERSIONS[number].page):
        assert (programs.sha256, programs.frozen) == expected, "a frozen page was changed, or run make freeze"


def test_the_page_of_version_3_names_that_of_version_2():
    assert ours.PAGE_SHA256 in (DOCS / "format-3.md").read_text()


def test_freezing_writes_page_and_programs_once(tmp_path):
    freeze = script(DOCS / "freeze.py")
    page, module = tmp_path / "format-3.md", tmp_path / "versions.py"
    page.write_text(f"# Page\n\n{DRAFT} until then.\n\n## 1.\n")
    before = 'PAGE_SHA256 = "00"\nFROZEN = "2026-11-16"\nPAGE_3_SHA256 = ""\nFROZEN_3 = ""\n'
    module.write_text(before)
    freeze.main(page, (module,))
    frozen, digest = module.read_text(), hashlib.sha256(page.read_bytes()).hexdigest()
    (day,) = _days(page.read_text())
    assert frozen == before.replace('PAGE_3_SHA256 = ""', f'PAGE_3_SHA256 = "{digest}"').replace(
        'FROZEN_3 = ""', f'FROZEN_3 = "{day}"'
    )
    freeze.main(page, (module,))
    assert module.read_text() == frozen
    page.write_text(page.read_text() + "One word more.\n")
    with pytest.raises(SystemExit, match="changed after it was frozen"):
        freeze.main(page, (module,))


def _days(text: str) -> list[str]:
    return re.findall(r"^Frozen on (\S+):", text, flags=re.MULTILINE)
