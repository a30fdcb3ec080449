"""Folders of images, one sub-folder per class."""

import numpy as np
import pytest
from PIL import Image

from codebound.data.arrays import read_image_folder
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


def test_another_size_names_the_file(tmp_path):
    save(tmp_path / "a/1.png", 0)
    save(tmp_path / "b/odd.png", 0, size=(5, 3))
    with pytest.raises(DataError, match=r"odd\.png is 5 x 3 pixels.*1\.png is 4 x 3"):
        read_image_folder(tmp_path, role="train")


def test_sixteen_bit_images_are_refused(tmp_path):
    save(tmp_path / "a/1.png", 0, mode="I;16")
    with pytest.raises(DataError, match="8 bits"):
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


def test_too_much_is_refused_before_decoding(tmp_path, monkeypatch):
    save(tmp_path / "a/1.png", 0)
    monkeypatch.setattr("codebound.data.arrays.MAX_BYTES", 11)
    with pytest.raises(DataError, match="exceed 11 bytes"):
        read_image_folder(tmp_path, role="train")


def test_folders_without_images(tmp_path):
    with pytest.raises(DataError, match="no sub-folders"):
        read_image_folder(tmp_path, role="train")
    (tmp_path / "a").mkdir()
    with pytest.raises(DataError, match="holds no image"):
        read_image_folder(tmp_path, role="train")
