"""Folders of images, one sub-folder per class."""

import shutil

import numpy as np
import pytest
from PIL import Image

from codebound.run.errors import DataError
from codebound.sample.arrays import from_arrays
from codebound.sample.formats.pictures import read_image_folder
from codebound.sample.load import as_dataset, load_sample


def classes_like(count):
    return from_arrays(np.zeros((count, 1)), range(count), name="classes")


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
    save(tmp_path / "a/.thumbs/1.png", 0)
    save(tmp_path / "2.png", 0)
    (tmp_path / "a/._1.png").write_bytes(b"no image")
    (tmp_path / "a/gone.png").symlink_to("nowhere.png")
    (tmp_path / "a/loop").symlink_to(".", target_is_directory=True)
    data = read_image_folder(tmp_path, role="train")
    assert data.n == 1
    (said,) = data.warnings
    assert said.startswith(f"6 files in {tmp_path} were left out: hidden, in no sub-folder, not named like")


def test_images_of_many_sizes_are_brought_to_one_each_by_itself(tmp_path):
    save(tmp_path / "a/1.png", 0)
    save(tmp_path / "b/odd.png", 200, size=(50, 30))
    data = read_image_folder(tmp_path, role="train")
    assert data.input_shape == (1, 32, 32)
    assert "differ in size and were brought to 32 x 32" in data.warnings[0]
    sized = load_sample(f"{tmp_path}@5x7")
    assert sized.input_shape == (1, 5, 7)
    assert sized.warnings == ()
    (tmp_path / "a/1.png").unlink()
    save(tmp_path / "a/2.png", 0, size=(9, 9))
    np.testing.assert_array_equal(load_sample(f"{tmp_path}@5x7").x[1], sized.x[1])


def test_huge_images_are_refused_by_their_headers(tmp_path, monkeypatch):
    save(tmp_path / "a/1.png", 0)
    monkeypatch.setattr("codebound.sample.formats.pictures._MAX_SIDE", 3)
    with pytest.raises(DataError, match="pixels; 3 a side"):
        read_image_folder(tmp_path, role="train")


def test_a_small_file_that_promises_a_large_picture_is_refused_and_a_photograph_is_not(tmp_path, monkeypatch):
    save(tmp_path / "a/1.png", 0, size=(300, 300))
    assert read_image_folder(tmp_path, role="train").input_shape == (1, 300, 300)
    monkeypatch.setattr("codebound.sample.formats.pictures._PIXELS", 300)
    with pytest.raises(DataError, match=r"promises 90000 pixels in \d+ bytes.*smaller"):
        read_image_folder(tmp_path, role="train")
    pixels = np.random.default_rng(0).integers(0, 256, (300, 300), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "a/1.png")
    np.testing.assert_array_equal(read_image_folder(tmp_path, role="train").x[0, 0], pixels)


@pytest.mark.parametrize(
    ("mode", "pixel", "level"),
    [("I;16", 0x7F01, 127), ("I", 0x7F01, 127), ("1", 1, 255), ("L", 7, 7)],
)
def test_grey_of_any_depth_becomes_bytes(tmp_path, mode, pixel, level):
    (tmp_path / "a").mkdir()
    Image.new(mode, (4, 3), pixel).save(tmp_path / "a/1.tif")
    data = read_image_folder(tmp_path, role="train")
    assert (data.x == level).all()
    assert data.input_shape == (1, 3, 4)


@pytest.mark.parametrize(("mode", "suffix"), [("P", "png"), ("RGBA", "png"), ("CMYK", "tif"), ("LAB", "tif")])
def test_colour_of_any_mode_becomes_three_channels(tmp_path, mode, suffix):
    (tmp_path / "a").mkdir()
    Image.new(mode, (4, 3)).save(tmp_path / f"a/1.{suffix}")
    assert read_image_folder(tmp_path, role="train").input_shape == (3, 3, 4)


def test_much_is_decoded_into_a_file(tmp_path, monkeypatch):
    save(tmp_path / "a/1.png", 3)
    plain = read_image_folder(tmp_path, role="train")
    monkeypatch.setattr("codebound.sample.formats.pictures._IN_MEMORY", 1)
    mapped = read_image_folder(tmp_path, role="train")
    assert isinstance(mapped.x.base, np.memmap)
    assert mapped.sha256 == plain.sha256


def test_unreadable_images_are_named(tmp_path):
    save(tmp_path / "a/1.png", 0, size=(64, 64))
    (tmp_path / "a/2.png").write_bytes(b"no image")
    with pytest.raises(DataError, match=r"2\.png cannot be read"):
        read_image_folder(tmp_path, role="train")
    content = (tmp_path / "a/1.png").read_bytes()
    (tmp_path / "a/2.png").write_bytes(content[: len(content) // 2])
    with pytest.raises(DataError, match=r"2\.png cannot be read"):
        read_image_folder(tmp_path, role="train")


def test_no_picture_has_another_program_run(tmp_path, monkeypatch):
    """Pillow hands PostScript to Ghostscript, whatever the file is called."""
    monkeypatch.setattr("subprocess.check_call", lambda *arguments, **options: pytest.fail("ran a program"))
    monkeypatch.setattr("PIL.EpsImagePlugin.gs_binary", "/bin/true")
    save(tmp_path / "a/1.png", 0)
    (tmp_path / "a/2.png").write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 4 4\n%%EndComments\n")
    with pytest.raises(DataError, match=r"2\.png cannot be read .* it begins like none that is read"):
        read_image_folder(tmp_path, role="train")


def test_folders_without_images(tmp_path):
    with pytest.raises(DataError, match="no sub-folders"):
        read_image_folder(tmp_path, role="train")
    (tmp_path / "a").mkdir()
    with pytest.raises(DataError, match="holds no image"):
        read_image_folder(tmp_path, role="train")


def test_folders_of_train_and_test_are_parts_and_no_classes(tmp_path):
    for part in ("train", "Test"):
        save(tmp_path / part / "cat/1.png", 10)
        save(tmp_path / part / "dog/1.png", 20)
    with pytest.raises(DataError, match="holds Test, train: parts of a sample, and no classes"):
        load_sample(str(tmp_path))
    sample = load_sample(str(tmp_path / "train"))
    shutil.rmtree(tmp_path / "Test/cat")  # the classes are those of the sample
    assert as_dataset(f"{tmp_path / 'Test'}@2x2", role="test", like=sample).y.tolist() == [1]


@pytest.mark.parametrize("suffix", ["png", "jpg"])
def test_pictures_are_upright_as_their_camera_says(tmp_path, suffix):
    pixels = np.zeros((16, 24), dtype=np.uint8)
    pixels[:8, :16] = 255
    turns = {1: 0, 3: 2, 6: 3, 8: 1}  # orientation of EXIF: quarter turns to the left that undo it
    for orientation, quarters in turns.items():
        exif = Image.Exif()
        exif[0x0112] = orientation
        folder = tmp_path / f"{quarters % 2}/a"
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.rot90(pixels, -quarters)).save(
            folder / f"{orientation}.{suffix}", exif=exif, quality=100
        )
    for parity in "01":
        data = read_image_folder(tmp_path / parity, role="train")
        assert data.input_shape == (1, 16, 24)
        for picture in data.x[:, 0]:
            assert np.abs(picture.astype(int) - pixels).max() < 8


def test_what_is_transparent_is_put_on_white(tmp_path):
    pixels = np.zeros((3, 4, 4), dtype=np.uint8)
    pixels[:, 1:, 3] = 255  # black, and nothing at all in the first column
    (tmp_path / "a").mkdir()
    Image.fromarray(pixels).save(tmp_path / "a/1.png")
    Image.fromarray(pixels[:, :, 2:]).save(tmp_path / "a/2.png")  # grey with transparency
    data = read_image_folder(tmp_path, role="train")
    assert data.x[:, 0].tolist() == [[[255, 0, 0, 0]] * 3] * 2
    (said,) = data.warnings
    assert said.startswith("2 of 2 images have a channel or a colour for transparency")
    (tmp_path / "a/1.png").unlink()
    assert read_image_folder(tmp_path, role="train").input_shape == (1, 3, 4)


def test_remarks_count_images_that_lose_something(tmp_path):
    (tmp_path / "a").mkdir()
    frames = [Image.new("L", (4, 3), level) for level in (10, 200)]
    frames[0].save(tmp_path / "a/1.gif", save_all=True, append_images=frames[1:])
    Image.new("I;16", (4, 3), 0x7F01).save(tmp_path / "a/2.png")
    data = read_image_folder(tmp_path, role="train")
    assert data.x[:, 0, 0, 0].tolist() == [10, 127]
    assert [each.partition(" images ")[2][:24] for each in data.warnings] == [
        "have more than one frame",
        "have 16 or more bits a p",
    ]
    Image.new("F", (4, 3), 0.5).save(tmp_path / "a/3.tif")
    with pytest.raises(DataError, match=r"3\.tif has floating-point pixels"):
        read_image_folder(tmp_path, role="train")


def test_an_unlabelled_folder_needs_no_classes(tmp_path):
    save(tmp_path / "1.png", 3)
    save(tmp_path / "2.png", 4)
    data = load_sample(str(tmp_path), role="unlabelled", like=classes_like(5))
    assert (data.x[:, 0, 0, 0].tolist(), data.y.tolist(), data.classes) == ([3, 4], [0, 0], 5)


def test_a_test_folder_has_the_size_and_the_channels_of_the_sample(tmp_path):
    save(tmp_path / "train/a/1.png", (9, 9, 9), mode="RGB", size=(20, 10))
    save(tmp_path / "train/b/1.png", (9, 9, 9), mode="RGB", size=(10, 10))
    save(tmp_path / "fresh/a/1.png", 7, size=(12, 12))
    sample = load_sample(str(tmp_path / "train"))
    fresh = as_dataset(str(tmp_path / "fresh"), role="test", like=sample)
    assert fresh.input_shape == sample.input_shape == (3, 32, 32)
    save(tmp_path / "grey/a/1.png", 7, size=(12, 12))
    save(tmp_path / "colour/a/1.png", (255, 0, 0), mode="RGB", size=(6, 6))
    like = load_sample(str(tmp_path / "grey"))
    made_grey = as_dataset(str(tmp_path / "colour"), role="test", like=like)
    assert made_grey.input_shape == (1, 12, 12)
    assert "made grey" in made_grey.warnings[0]
