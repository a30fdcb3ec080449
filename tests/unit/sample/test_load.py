"""One door to every sample: names, folders, factories, classes by name, and what it says when shut."""

import gzip
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image
from worlds.files import idx_files, md5_of

from codebound.run.errors import DataError, UsageError
from codebound.sample.arrays import from_arrays
from codebound.sample.dataset import Scaling, align_labels
from codebound.sample.formats.catalogue import KNOWN
from codebound.sample.load import as_dataset, load_sample

RNG = np.random.default_rng(0)


MNIST, FASHION = (idx_files(np.random.default_rng(seed)) for seed in (1, 2))
CIFAR = {f: RNG.integers(0, 10, (2, 3073), dtype=np.uint8).tobytes() for f in KNOWN["cifar10"].digests}


@pytest.fixture(autouse=True)
def tiny_world(monkeypatch, own_cache):
    """Known datasets shrunk to a few examples, and an empty cache."""
    for name, files in (("mnist", MNIST), ("fashion-mnist", FASHION), ("cifar10", CIFAR)):
        monkeypatch.setitem(KNOWN, name, replace(KNOWN[name], digests=md5_of(files)))


def write(folder, files: dict[str, bytes], suffix: str = ""):
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / f"{name}{suffix}").write_bytes(gzip.compress(content) if suffix == ".gz" else content)
    return folder


def test_digits_are_embedded():
    digits = load_sample("digits")
    assert (digits.n, digits.input_shape, digits.x.dtype.name) == (1797, (1, 8, 8), "uint8")
    assert (digits.x.min(), digits.x.max(), digits.scaling.divisor) == (0, 16, 16.0)
    assert np.bincount(digits.y).tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]


@pytest.mark.parametrize("inner", ["", "MNIST/raw", "raw"])
@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize("role", ["train", "test"])
def test_mnist_from_a_folder(tmp_path, inner, suffix, role):
    write(tmp_path / "here" / inner, MNIST, suffix)
    data = load_sample("mnist", role=role, folder=tmp_path / "here")
    images = np.frombuffer(
        MNIST[f"{'train' if role == 'train' else 't10k'}-images-idx3-ubyte"][16:], np.uint8
    )
    np.testing.assert_array_equal(data.x.ravel(), images)
    assert (data.name, data.role, data.classes, data.scaling) == ("mnist", role, 10, Scaling(255.0))
    assert data.x.shape[1:] == (1, 28, 28)
    assert "checksums verified" in data.source
    assert not data.warnings


def test_dotted_file_names_are_known_too(tmp_path):
    write(tmp_path / "d", {name.replace("-idx", ".idx"): content for name, content in MNIST.items()})
    assert load_sample("MNIST", folder=tmp_path / "d").n == 5


def test_the_given_folder_comes_before_the_cache(tmp_path):
    write(tmp_path / "cache/data/mnist", MNIST)
    assert str(tmp_path / "cache") in load_sample("mnist").source
    assert str(tmp_path / "cache") in load_sample("mnist", folder=tmp_path / "empty").source
    write(tmp_path / "own", MNIST)
    assert str(tmp_path / "own") in load_sample("mnist", folder=tmp_path / "own").source


def test_absent_data_names_the_command_and_the_places(tmp_path):
    with pytest.raises(DataError, match="codebound data get mnist") as error:
        load_sample("mnist", folder=tmp_path / "empty")
    assert str(tmp_path / "empty") in str(error.value)
    assert str(tmp_path / "cache/data/mnist") in str(error.value)


def test_wrong_content_is_refused(tmp_path):
    write(tmp_path / "d", FASHION)
    with pytest.raises(DataError, match="is not train-images-idx3-ubyte of MNIST"):
        load_sample("mnist", folder=tmp_path / "d")
    flipped = dict(MNIST)
    labels = flipped["train-labels-idx1-ubyte"]
    flipped["train-labels-idx1-ubyte"] = labels[:-1] + bytes([labels[-1] ^ 1])
    write(tmp_path / "e", flipped)
    with pytest.raises(DataError, match="labels"):
        load_sample("mnist", folder=tmp_path / "e")


@pytest.mark.parametrize("inner", ["cifar-10-batches-bin", ""])
def test_cifar10_from_a_folder(tmp_path, inner):
    write(tmp_path / "d" / inner, CIFAR)
    rows = np.frombuffer(b"".join(CIFAR[f"data_batch_{i}.bin"] for i in range(1, 6)), np.uint8).reshape(
        -1, 3073
    )
    data = load_sample("cifar10", folder=tmp_path / "d")
    np.testing.assert_array_equal(data.y, rows[:, 0])
    np.testing.assert_array_equal(data.x, rows[:, 1:].reshape(-1, 3, 32, 32))
    assert data.x.flags.c_contiguous
    assert load_sample("cifar10", role="test", folder=tmp_path / "d").n == 2
    write(tmp_path / "d" / inner, {"data_batch_3.bin": CIFAR["data_batch_2.bin"]})
    with pytest.raises(DataError, match=r"data_batch_3\.bin of CIFAR-10"):
        load_sample("cifar10", folder=tmp_path / "d")


@pytest.fixture
def factories(tmp_path, monkeypatch):
    (tmp_path / "tiny_factories.py").write_text(
        "import sys\n"
        "import numpy as np, torch\n"
        "from codebound.sample.dataset import Sample\n"
        "from codebound.run.errors import DataError\n"
        "def pair(): return np.zeros((3, 2), np.uint8), [0, 1, 2]\n"
        "def tensors(): return torch.zeros(3, 2), torch.tensor([0, 1, 2])\n"
        "def whole(): return Sample('mine', 'train', np.ones((3, 2), np.uint8), np.array([0, 1, 2]), 4)\n"
        "def number(): return 5\n"
        "def broken(): raise KeyError('oops')\n"
        "def leaves(): sys.exit(3)\n"
        "def ours(): raise DataError('own words')\n"
    )
    monkeypatch.chdir(tmp_path)
    yield "tiny_factories"
    sys.modules.pop("tiny_factories", None)


def test_factories(factories):
    path = list(sys.path)
    assert load_sample(f"{factories}:pair").classes == 3
    assert load_sample(f"{factories}:tensors", role="test").role == "test"
    assert load_sample(f"{factories}:whole", role="certify").role == "certify"
    assert sys.path == path


@pytest.mark.parametrize(
    ("attribute", "message"),
    [
        ("number", "Got int"),
        ("broken", "KeyError: 'oops'"),
        ("leaves", "SystemExit"),
        ("absent", "AttributeError"),
        ("ours", "^own words$"),
    ],
)
def test_failing_factories_are_data_errors(factories, attribute, message):
    with pytest.raises(DataError, match=message):
        load_sample(f"{factories}:{attribute}")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("no_such_package.at_all:factory", "ModuleNotFoundError"),
        ("minst", "Did you mean 'mnist'"),
        ("absent.npz", "does not exist"),
        ("absent.csv:kind", r"absent\.csv:kind does not exist"),
        ("no/such/folder", "neither a known name"),
        ("notes.txt", r"notes\.txt is no file that is read: a table ends in \.csv"),
    ],
)
def test_unknown_specs(spec, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes.txt").write_text("hello")
    with pytest.raises(DataError, match=message):
        load_sample(spec)


def test_arguments_out_of_range():
    with pytest.raises(DataError, match="holdout"):
        load_sample("digits", role="test")
    with pytest.raises(UsageError, match="validation"):
        load_sample("digits", role="validation")
    with pytest.raises(UsageError, match="split"):
        load_sample("digits", role="certify")
    with pytest.raises(UsageError, match="10 classes"):
        load_sample("digits", like=from_arrays(np.zeros((7, 1)), range(7), name="seven"))


@pytest.mark.thorough
def test_the_catalogue_needs_no_torch():
    def loads_torch(names: str) -> int:
        code = f"import sys; import {names}; sys.exit('torch' in sys.modules)"
        return subprocess.run([sys.executable, "-c", code], check=False).returncode

    assert loads_torch("codebound.sample.load, codebound.sample.formats.download") == 0
    assert loads_torch("codebound.run.tensor_files") == 1


def test_a_folder_of_arrays_stays_on_the_disk(tmp_path):
    random = np.random.default_rng(0)
    x, y = random.normal(size=(50, 3)).astype(np.float32), random.integers(0, 2, 50)
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", y)
    np.savez(tmp_path / "same.npz", x=x, y=y)
    sample = load_sample(str(tmp_path))
    assert isinstance(sample.x.base, np.memmap)
    assert sample.sha256 == load_sample(str(tmp_path / "same.npz")).sha256
    sample.x[0] = 7.0  # a copy of the page
    np.testing.assert_array_equal(np.load(tmp_path / "x.npy"), x)
    (tmp_path / "y.npy").unlink()
    assert load_sample(str(tmp_path), role="unlabelled").n == 50
    with pytest.raises(DataError, match=r"has no y\.npy"):
        load_sample(str(tmp_path))
    for content in (b"no array", (tmp_path / "x.npy").read_bytes()[:300]):
        (tmp_path / "x.npy").write_bytes(content)
        with pytest.raises(DataError, match=r"x\.npy is no readable \.npy file"):
            load_sample(str(tmp_path), role="unlabelled")
    np.save(tmp_path / "x.npy", np.array([[{}]], dtype=object), allow_pickle=True)
    with pytest.raises(DataError, match=r"x\.npy is no readable"):
        load_sample(str(tmp_path), role="unlabelled")


def pictures(folder, **counts):
    for level, (name, count) in enumerate(counts.items(), start=1):
        (folder / name).mkdir(parents=True)
        for at in range(count):
            Image.fromarray(np.full((4, 4), 10 * level + at, dtype=np.uint8)).save(
                folder / name / f"{at}.png"
            )
    return folder


def load_both(data, test):
    sample = as_dataset(str(data))
    return sample, as_dataset(str(test), role="test", like=sample)


def test_separate_roots_of_pictures_are_matched_by_name(tmp_path):
    data = pictures(tmp_path / "here", cat=2, dog=3, owl=2)
    test = pictures(tmp_path / "there", owl=1, dog=2)  # no cats, so dogs would be number 0
    sample, fresh = load_both(data, test)
    assert sample.class_names == fresh.class_names == ("cat", "dog", "owl")
    assert (fresh.classes, fresh.y.tolist()) == (3, [1, 1, 2])
    assert fresh.x[:, 0, 0, 0].tolist() == [20, 21, 10]  # dogs, then owls
    again = as_dataset(str(test), role="test", like=sample)
    assert np.array_equal(again.y, fresh.y)


def test_a_class_that_the_sample_has_not_is_named(tmp_path):
    data = pictures(tmp_path / "here", cat=2, dog=3)
    test = pictures(tmp_path / "there", cat=1, wolf=2)
    with pytest.raises(DataError, match=r"classes that the sample has not: wolf\. Those .* cat, dog\."):
        load_both(data, test)
    two = load_sample(str(pictures(tmp_path / "two", cat=1, dog=1)))
    alone = load_sample(str(test), role="unlabelled", like=two)
    assert (alone.classes, alone.y.tolist()) == (2, [0, 0, 0])


def test_words_in_a_table_are_matched_too(tmp_path):
    (tmp_path / "a.csv").write_text("size,kind\n1,oak\n2,ash\n3,elm\n")
    (tmp_path / "b.csv").write_text("size,kind\n4,oak\n5,elm\n")
    sample, fresh = load_both(f"{tmp_path / 'a.csv'}:kind", f"{tmp_path / 'b.csv'}:kind")
    assert sample.class_names == ("ash", "elm", "oak")
    assert (fresh.y.tolist(), fresh.classes) == ([2, 1], 3)
    (tmp_path / "c.csv").write_text("size,kind\n4,oak\n5,yew\n")
    with pytest.raises(DataError, match="holds classes that the sample has not: yew"):
        load_both(f"{tmp_path / 'a.csv'}:kind", f"{tmp_path / 'c.csv'}:kind")


def test_levels_of_a_frame_are_brought_into_the_order_of_the_sample():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"size": [1.0, 2.0], "label": pandas.Categorical(["b", "a"], ["b", "a"])})
    sample = load_sample(frame.assign(label=["a", "b"]))
    assert load_sample(frame).y.tolist() == [0, 1]
    assert as_dataset(frame, role="test", like=sample).y.tolist() == [1, 0]


def test_names_are_as_many_as_classes():
    sample = from_arrays(np.zeros((2, 2)), [0, 1], name="two")
    assert align_labels(sample, ("a", "b")) is sample  # it has no names to compare
    with pytest.raises(DataError, match="1 name for 2 classes"):
        replace(sample, class_names=("a",))
