"""Files in, a verdict out: the same for the command and for a program."""

import json
import os

import cbound_writer as writer
import numpy as np
import pytest

from codebound_verify import data
from codebound_verify.__main__ import main
from codebound_verify.files import GivenFiles, verdict_record, verify_file
from codebound_verify.refusal import Refused


@pytest.fixture
def files(tmp_path):
    case = writer.linear_case()
    np.savez(tmp_path / "sample.npz", x=case.x, y=case.y)
    (tmp_path / "true.cbound").write_bytes(case.data())
    case.fields["claim"]["bound"] = 0.001
    (tmp_path / "false.cbound").write_bytes(case.data())
    return tmp_path


@pytest.mark.parametrize("name", ["true", "false"])
def test_the_command_prints_the_record(files, capsys, name):
    file, sample = files / f"{name}.cbound", str(files / "sample.npz")
    verdict = verify_file(file, GivenFiles(data=sample))
    assert verdict.is_accepted == (name == "true")
    main([str(file), "--data", sample, "--max-error", "0.0", "--format", "json"])
    printed = json.loads(capsys.readouterr().out)
    assert len(printed["unmet"]) == 1
    assert printed == json.loads(json.dumps(verdict_record(verdict, printed["unmet"])))


def test_what_is_not_given_is_no_verdict(files):
    with pytest.raises(Refused, match="the sample is needed"):
        verify_file(files / "true.cbound", GivenFiles())
    with pytest.raises(Refused, match=r"cannot read .*none\.npz: no such file"):
        verify_file(files / "true.cbound", GivenFiles(data=str(files / "none.npz")))


@pytest.mark.parametrize("name", ["x", "y"])
def test_an_array_larger_than_the_sample_is_not_read(files, monkeypatch, name):
    """A few bytes of an archive may promise gigabytes; the header says how many numbers there are."""
    case = writer.linear_case()
    arrays = {"x": case.x, "y": case.y}
    arrays[name] = np.zeros((1 << 16, *arrays[name].shape[1:]), arrays[name].dtype)
    np.savez_compressed(files / "large.npz", **arrays)
    given = GivenFiles(data=str(files / "large.npz"))
    whole = verify_file(files / "true.cbound", given)
    assert "It was not read." not in " ".join(whole.reasons)
    monkeypatch.setattr(data, "READ_ANYWAY", 1 << 10)
    monkeypatch.setattr(np.lib.format, "read_array", only(case, np.lib.format.read_array))
    verdict = verify_file(files / "true.cbound", given)
    assert verdict.verdict == "REFUSE"
    assert f"{name}.npy has shape (65536" in verdict.reasons[0]
    assert main([str(files / "true.cbound"), "--data", given.data]) == 1
    assert verify_file(files / "true.cbound", GivenFiles(data=str(files / "sample.npz"))).is_accepted


def only(case, read_array):
    """Arrays of the sample are read, and no others."""

    def read(*given, **options):
        found = read_array(*given, **options)
        assert len(found) == len(case.x)
        return found

    return read


def test_a_queue_is_not_waited_for(files):
    os.mkfifo(files / "queue")
    with pytest.raises(Refused, match="has no end"):
        verify_file(files / "queue", GivenFiles(data=str(files / "sample.npz")))


def test_a_sample_without_an_end_is_refused(files):
    os.mkfifo(files / "endless.npz")
    with pytest.raises(Refused, match="a queue or a device"):
        verify_file(files / "true.cbound", GivenFiles(data=str(files / "endless.npz")))
