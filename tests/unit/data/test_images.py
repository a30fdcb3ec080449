"""Folders of images, one sub-folder per class."""

import shutil

import numpy as np
import pytest
from PIL import Image

from codebound.data.arrays import read_image_folder
from codebound.data.load import load_dataset
from codebound.errors import DataError


def save(path, value, size=(4, 3), mode="L"):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, size, value).save(path)


def test_classes_and_files_are_sorted(tmp_path):
    for name, value in (("b/2.png", 3), ("b/1.png", 2), ("a/z.png", 1), ("a/deep/x.PNG", 0)):
        save(tmp_path / name, value)
    data = read_image_folder(tmp_path, role="test")
    assert data.x.shape == (4, 1, 3, 4)
    assert data.x[:, 0, 0, 0].tolist() == [0, 1, 2, 3]
    assert data.y.tolist() == [0, 0, 1, 1]
    assert (data.classes, data.role, data.scaling.divisor) == (2, "test", 255.0)
    assert "0 = a, 1 = b" in data.source


def test_one_colour_image_makes_three_channels(tmp_path):
    save(tmp_path / "a/1.png", 7)
    save(tmp_path / "b/1.png", (1, 2, 3), mode="RGB")
    data = read_image_folder(tmp_path, role="train")
    assert data.x[:, :, 0, 0].tolist() == [[7, 7, 7], [1, 2, 3]]


def test_pixels_keep_their_place(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (3, 4, 3), dtype=np.uint8)
    (tmp_path / "a").mkdir()
    Image.fromarray(pixels).save(tmp_path / "a/1.png")
    np.testing.assert_array_equal(read_image_folder(tmp_path, role="train").x[0], pixels.transpose(2, 0, 1))


def test_other_files_are_left_out_with_a_warning(tmp_path):
    save(tmp_path / "a/1.png", 0)
    (tmp_path / "a/notes.txt").write_text("hello")
    (tmp_path / ".hidden").mkdir()
    data = read_image_folder(tmp_path, role="train")
    assert data.n == 1
    assert data.warnings == (f"1 files in {tmp_path} are no images and were left out",)


def test_images_of_many_sizes_are_brought_to_one_each_by_itself(tmp_path):
    save(tmp_path / "a/1.png", 0)
    save(tmp_path / "b/odd.png", 200, size=(50, 30))
    data = read_image_folder(tmp_path, role="train")
    assert data.input_shape == (1, 32, 32)
    assert "differ in size and were brought to 32 x 32" in data.warnings[0]
    sized = load_dataset(f"{tmp_path}@5x7")
    assert sized.input_shape == (1, 5, 7)
    assert sized.warnings == ()
    (tmp_path / "a/1.png").unlink()
    save(tmp_path / "a/2.png", 0, size=(9, 9))
    np.testing.assert_array_equal(load_dataset(f"{tmp_path}@5x7").x[1], sized.x[1])


def test_huge_images_are_refused_by_their_headers(tmp_path, monkeypatch):
    save(tmp_path / "a/1.png", 0)
    monkeypatch.setattr("codebound.data.arrays._MAX_SIDE", 3)
    with pytest.raises(DataError, match="pixels; 3 a side"):
        read_image_folder(tmp_path, role="train")


def test_a_small_file_that_promises_a_large_picture_is_refused_and_a_photograph_is_not(tmp_path, monkeypatch):
    save(tmp_path / "a/1.png", 0, size=(300, 300))
    assert read_image_folder(tmp_path, role="train").input_shape == (1, 300, 300)
    monkeypatch.setattr("codebound.data.arrays._PIXELS", 300)
    with pytest.raises(DataError, match=r"promises 90000 pixels in \d+ bytes.*smaller"):
        read_image_folder(tmp_path, role="train")
    pixels = np.random.default_rng(0).integers(0, 256, (300, 300), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "a/1.png")
    np.testing.assert_array_equal(read_image_folder(tmp_path, role="train").x[0, 0], pixels)


DEPTHS = [("I;16", 0x7F01, 127), ("I", 0x7F01, 127), ("F", 127.4, 127), ("1", 1, 255), ("L", 7, 7)]


@pytest.mark.parametrize(("mode", "pixel", "level"), DEPTHS)
def test_grey_of_any_depth_becomes_bytes(tmp_path, mode, pixel, level):
    (tmp_path / "a").mkdir()
    Image.new(mode, (4, 3), pixel).save(tmp_path / "a/1.tif")
    data = read_image_folder(tmp_path, role="train")
    assert (data.x == level).all()
    assert data.input_shape == (1, 3, 4)


MODES = [("P", "png"), ("RGBA", "png"), ("LA", "png"), ("CMYK", "tif"), ("LAB", "tif")]


@pytest.mark.parametrize(("mode", "suffix"), MODES)
def test_colour_of_any_mode_becomes_three_channels(tmp_path, mode, suffix):
    (tmp_path / "a").mkdir()
    Image.new(mode, (4, 3)).save(tmp_path / f"a/1.{suffix}")
    assert read_image_folder(tmp_path, role="train").input_shape == (3, 3, 4)


def test_much_is_decoded_into_a_file_and_no_room_is_said(tmp_path, monkeypatch):
    save(tmp_path / "a/1.png", 3)
    plain = read_image_folder(tmp_path, role="train")
    monkeypatch.setattr("codebound.data.arrays._IN_MEMORY", 1)
    mapped = read_image_folder(tmp_path, role="train")
    assert isinstance(mapped.x, np.memmap)
    assert mapped.sha256 == plain.sha256

    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.posix_fallocate", full)
    with pytest.raises(DataError, match=r"have no room in .*No space left on device\. Set TMPDIR"):
        read_image_folder(tmp_path, role="train")


def test_unreadable_images_are_named(tmp_path):
    save(tmp_path / "a/1.png", 0, size=(64, 64))
    (tmp_path / "a/2.png").write_bytes(b"no image")
    with pytest.raises(DataError, match=r"2\.png cannot be read"):
        read_image_folder(tmp_path, role="train")
    content = (tmp_path / "a/1.png").read_bytes()
    (tmp_path / "a/2.png").write_bytes(content[: len(content) // 2])
    with pytest.raises(DataError, match=r"2\.png cannot be read"):
        read_image_folder(tmp_path, role="train")


def test_folders_without_images(tmp_path):
    with pytest.raises(DataError, match="no sub-folders"):
        read_image_folder(tmp_path, role="train")
    (tmp_path / "a").mkdir()
    with pytest.raises(DataError, match="holds no image"):
        read_image_folder(tmp_path, role="train")


def test_folders_of_train_and_test_are_parts_and_no_classes(tmp_path):
    for part, shade in (("train", 10), ("Test", 20), ("val", 30)):
        for name in ("cat", "dog"):
            folder = tmp_path / part / name
            folder.mkdir(parents=True)
            Image.fromarray(np.full((3, 3), shade, np.uint8)).save(folder / "one.png")
    for role, shade in (("train", 10), ("test", 20), ("unlabelled", 10)):
        found = load_dataset(str(tmp_path), role=role)
        assert (found.n, found.classes, int(found.x[0, 0, 0, 0])) == (2, 2, shade)
    shutil.rmtree(tmp_path / "Test")
    with pytest.raises(DataError, match="none for the role 'test'"):
        load_dataset(str(tmp_path), role="test")
