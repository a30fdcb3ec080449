"""A certificate and what lies beside it, all as files: what is read, and what is no verdict."""

import json
import os

import numpy as np
import pytest
from file_worlds import made
from safetensors.numpy import save_file

from codebound_verify import files
from codebound_verify.counting import recount
from codebound_verify.files import GivenFiles, verdict_record, verify_file
from codebound_verify.refusal import Refused
from codebound_verify.sources import arrays


def beside(place, **changes) -> GivenFiles:
    told = {"data": str(place / "sample.npz"), "scores": [place / "scores.safetensors"]}
    return GivenFiles(**told | changes)


@pytest.fixture
def alone(folder):
    """A file that is no folder's, with everything that belongs to it."""
    place = folder("first_table")
    return (place / "certificate.cbound").rename(place / "alone.cbound")


def test_a_verdict_is_recorded_as_it_is(alone):
    verdict = verify_file(alone, beside(alone.parent))
    assert verdict.is_accepted
    record = json.loads(json.dumps(verdict_record(verdict, ["more"])))
    assert (record["verdict"], record["bound"], record["unmet"]) == ("ACCEPT", verdict.bound, ["more"])
    assert record["limits"] == [vars(each) for each in verdict.limits]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"data": None}, "the sample is needed"),
        ({"data": "none.npz"}, r"cannot read none\.npz: no such file"),
        ({"data": "unlabelled.npz"}, "has no labels y"),
        ({"test": "unlabelled.npz"}, "has no labels y"),
        ({"scores": []}, "cannot be checked without table 1"),
        ({"data": "queue.npz"}, "a queue or a device"),
        ({"test": "sample.npz"}, "there is nothing to run"),
    ],
)
def test_what_is_not_given_or_cannot_be_read_is_no_verdict(alone, monkeypatch, changes, reason):
    monkeypatch.chdir(alone.parent)
    np.savez("unlabelled.npz", x=np.zeros((2, 4), np.float32))
    os.mkfifo("queue.npz")
    with pytest.raises(Refused, match=reason):
        verify_file(alone, beside(alone.parent, **changes))


def test_a_file_without_an_end_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "queue")
    with pytest.raises(Refused, match="has no end"):
        verify_file(tmp_path / "queue", GivenFiles(data="digits"))
    with pytest.raises(Refused, match=r"cannot read .*certificate\.cbound: no such file"):
        verify_file(tmp_path, GivenFiles(data="digits"))


def test_a_sample_that_is_too_large_is_a_reason_to_refuse(alone, monkeypatch):
    world, _ = made("first_table")
    np.savez_compressed(alone.parent / "large.npz", x=np.zeros((1 << 14, 4), np.float32), y=world.sample.y)
    given = beside(alone.parent, data=str(alone.parent / "large.npz"))
    [reason] = verify_file(alone, given).reasons
    assert "16384 inputs" in reason
    monkeypatch.setattr(arrays, "READ_ANYWAY", 1 << 10)
    [reason] = verify_file(alone, given).reasons
    assert "It was not read." in reason
    (alone.parent / "bad.cbound").write_bytes(b"nothing")  # it says nothing of sizes, and is refused
    assert verify_file(alone.parent / "bad.cbound", given).reasons[0].startswith("The file does not start")


def test_too_little_memory_says_nothing_about_the_file(alone, monkeypatch):
    def fail(*_, **__):
        raise MemoryError

    monkeypatch.setattr("codebound_verify.verdict.verify", fail)
    with pytest.raises(Refused, match="not enough memory"):
        verify_file(alone, beside(alone.parent))


def test_numbers_of_rows_are_given_beside_the_sample_or_in_it(folder):
    place = folder("clusters_one_row_of_a_table")
    sample = made("clusters_one_row_of_a_table")[0].sample
    np.savez(place / "plain.npz", x=sample.x, y=sample.y)
    np.save(place / "clusters.npy", sample.clusters)
    given = GivenFiles(data=str(place / "plain.npz"), clusters=place / "clusters.npy")
    assert verify_file(place, given).is_accepted
    np.save(place / "clusters.npy", sample.clusters[::-1])
    assert "clusters have SHA-256" in verify_file(place, given).reasons[0]


@pytest.mark.parametrize("name", ["network_and_unlabelled_inputs", "declared_answers", "network_with_base"])
def test_everything_else_comes_from_files_of_tensors(folder, name):
    place, (world, _) = folder(name), made(name)
    floats = {
        kind: {key: np.asarray(values, np.float32) for key, values in tensors.items()}
        for kind, tensors in (("base", world.base), ("f", (world.network or {}).get("tensors")))
        if tensors is not None
    }
    if world.answers is not None:
        floats["answers"] = {"scores": world.answers}
    for kind, numbers in floats.items():
        save_file(numbers, place / f"{kind}.safetensors")
    if world.unlabelled is not None:
        np.savez(place / "unlabelled.npz", x=world.unlabelled)
    assert verify_file(place, GivenFiles()).is_accepted
    for kind in floats:
        if name != "declared_answers" or kind != "f":
            (place / f"{kind}.safetensors").unlink()
            with pytest.raises(Refused, match="cannot be checked without"):
                verify_file(place, GivenFiles())


def test_learned_weights_are_those_of_g_and_declared_scores_have_none(folder):
    place = folder("first_table")
    (place / "g.safetensors").write_bytes((place / "scores.safetensors").read_bytes())
    assert (
        "The weights beside the file were not looked at" in verify_file(place, GivenFiles()).assumptions[-1]
    )
    (place / "scores.safetensors").rename(place / "other")
    folder("network")
    assert "not of both" in verify_file(place, GivenFiles()).reasons[0]


def test_a_ledger_is_known_by_its_name(tmp_path):
    (tmp_path / "a.ledger.jsonl").write_bytes(b"nothing")
    verdict = verify_file(tmp_path / "a.ledger.jsonl", GivenFiles())
    assert (type(verdict).__name__, verdict.verdict) == ("LedgerVerdict", "REFUSE")
    assert files.certificate_in(tmp_path) == tmp_path / "certificate.cbound"


@pytest.mark.parametrize("name", ["certificate.cbound", "result.json"])
def test_what_lies_in_a_folder_is_not_waited_for_and_not_too_large(folder, name):
    file = folder("first_table") / name
    file.unlink(missing_ok=True)
    for kind in ("queue", "large"):
        if kind == "queue":
            os.mkfifo(file)
        else:
            with file.open("wb") as sparse:
                sparse.truncate(1 << 36)
        if name == "result.json":
            assert verify_file(file.parent, GivenFiles()).is_accepted
        else:
            with pytest.raises(Refused, match="too many, or a queue or a device has no end"):
                verify_file(file.parent, GivenFiles())
        file.unlink()


@pytest.mark.parametrize("what", ["sample", "table"])
def test_what_changes_while_it_is_read_is_refused(folder, monkeypatch, what):
    """Arrays of a folder and tables are mapped: whoever writes to their files changes them."""
    place = folder("first_table")
    with np.load(place / "sample.npz") as arrays:
        (place / "sample").mkdir()
        for name in arrays.files:
            np.save(place / "sample" / f"{name}.npy", arrays[name])
    (place / "sample.npz").unlink()
    assert verify_file(place, GivenFiles()).is_accepted

    def changed(*given):
        file = place / ("sample/x.npy" if what == "sample" else "scores.safetensors")
        with file.open("r+b") as content:
            content.seek(-1, os.SEEK_END)
            content.write(b"\x7e")
        return recount(*given)

    monkeypatch.setattr("codebound_verify.checklist.recount", changed)
    [reason] = verify_file(place, GivenFiles()).reasons
    assert f"the {what}" in reason
    assert "changed while it was read" in reason
