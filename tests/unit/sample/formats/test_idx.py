"""IDX files, plain and gzipped, sound and damaged."""

import gzip

import numpy as np
import pytest
from worlds.files import idx

from codebound.run.errors import DataError
from codebound.sample.formats.idx import parse_idx, read_exactly, read_whole

IMAGES = np.arange(2 * 3 * 4, dtype=np.uint8).reshape(2, 3, 4)


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_reads_plain_and_gzipped_files(tmp_path, suffix):
    path = tmp_path / f"images{suffix}"
    path.write_bytes(gzip.compress(idx(IMAGES)) if suffix else idx(IMAGES))
    content = read_whole(path)
    assert bytes(content) == idx(IMAGES)
    assert parse_idx(content, name="images").flags.writeable


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "no IDX file"),
        (b"PK\x03\x04", "it begins with b'PK"),
        (b"\0\0\x0d\x01\0\0\0\x01\0\0\0\0", "no IDX file of unsigned bytes"),
        (b"\0\0\x08\x00", "1 to 4 dimensions"),
        (b"\0\0\x08\x09" + bytes(36), "1 to 4 dimensions"),
        (b"\0\0\x08\x02\0\0\0\x01", "no IDX file"),
        (b"\0\0\x08\x01\0\0\0\x00", "promises 0 = 0 bytes"),
        (idx(IMAGES)[:-1], "promises 2 x 3 x 4 = 24 bytes, 23 are there"),
        (idx(IMAGES) + b"!", "25 are there"),
        (b"\0\0\x08\x03" + b"\xff" * 12, "damaged"),
    ],
)
def test_damaged_files_are_named_with_the_reason(content, message):
    with pytest.raises(DataError, match=message):
        parse_idx(content, name="images")


@pytest.mark.parametrize(
    "content", [b"no gzip", gzip.compress(bytes(5000))[:-12], gzip.compress(b"a")[:-1] + b"?"]
)
def test_damaged_gzip_is_a_data_error(tmp_path, content):
    path = tmp_path / "images.gz"
    path.write_bytes(content)
    with pytest.raises(DataError, match="cannot be read"):
        read_whole(path)


def test_unpacking_stops_at_the_limit(tmp_path):
    path = tmp_path / "bomb.gz"
    path.write_bytes(gzip.compress(bytes(10 << 20)))
    with pytest.raises(DataError, match="more than the allowed"):
        read_whole(path, limit=1 << 20)


def test_missing_file_is_a_data_error(tmp_path):
    with pytest.raises(DataError, match="absent"):
        read_whole(tmp_path / "absent")


def test_promised_bytes_are_not_reserved(tmp_path):
    path = tmp_path / "short"
    path.write_bytes(b"abc")
    with path.open("rb") as stream, pytest.raises(DataError, match="3 are there"):
        read_exactly(stream, 1 << 50, name="short")
