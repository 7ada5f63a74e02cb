"""A run as a comparison reads it: its folder, or a file saved from it."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from gdrcheck.cli import main
from gdrcheck.outcome import InputError, Outcome
from gdrcheck.results import compare_side, data
from gdrcheck.results.compare_model import Comparison
from tests.node.support import run_spec
from tests.results.compared import NEW_ID, OLD_ID, Made
from tests.results.trees import Merged, NodeTree, port_down, two_nodes, write_run


def folder(root: Path, made: Made) -> Path:
    """The folder of a run, without what its nodes sent."""
    root.mkdir()
    side = made.build()
    (root / "summary.json").write_text(side.summary.model_dump_json())
    data.write(root / data.DATA_FILE, side.data)
    return root


@pytest.fixture
def old(tmp_path: Path) -> Path:
    return folder(tmp_path / "old", Made(run_id=OLD_ID))


@pytest.fixture
def new(tmp_path: Path) -> Path:
    bad = Made(cases={"node1": {"os[node1]": "failed"}}, run_id=NEW_ID)
    return folder(tmp_path / "new", bad)


def test_what_merge_writes_can_be_compared_with_what_it_wrote(tmp_path: Path) -> None:
    two_nodes(tmp_path / "run")
    merged = Merged(tmp_path / "run")
    side = compare_side.read(tmp_path / "run")
    assert side.summary == merged.summary
    assert {id_ for _, id_, _ in side.data.kinds_by_case()} == set(merged.cases)


def test_what_merge_writes_of_a_bad_run_holds_all_that_it_counts(tmp_path: Path) -> None:
    write_run(tmp_path, run_spec("node1", "node2", "node3"))
    one = NodeTree(tmp_path, "node1")
    one.case("port_active[node1/rxe0]", Outcome.FAILED, findings=[port_down()])
    one.pair("node1/rxe0", "node2/rxe0", Outcome.FAILED)
    one.case("port_active[node1/rxe0]")
    NodeTree(tmp_path, "node2").died()
    merged = Merged(tmp_path, whole=False)
    side = compare_side.read(tmp_path)
    assert len(list(side.data.kinds_by_case())) == sum(merged.summary.counts.values())


def test_a_saved_run_is_the_run(old: Path, new: Path, tmp_path: Path) -> None:
    saved, again = tmp_path / "accepted.json.gz", tmp_path / "again.json.gz"
    assert main(["baseline", str(old), str(saved)]) == 0
    assert compare_side.read(saved) == compare_side.read(old)
    assert main(["baseline", str(saved), str(again)]) == 0
    assert saved.read_bytes() == again.read_bytes()
    assert main(["compare", str(saved), str(new)]) == 1


def test_exit_codes_and_json(old: Path, new: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", str(new), str(old)]) == 0
    assert "fixed (1):\n  os at node1: failed -> passed" in capsys.readouterr().out
    assert main(["compare", "--json", str(old), str(new)]) == 1
    assert Comparison.model_validate_json(capsys.readouterr().out).worse
    assert main(["compare", str(old), str(old)]) == 0
    assert f"both are run {OLD_ID}" in capsys.readouterr().out
    assert main(["compare", str(old), str(old / "none")]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "no such file or folder" in captured.err


def test_results_latest_is_followed(old: Path, new: Path, tmp_path: Path) -> None:
    (tmp_path / "latest").symlink_to(new.name)
    assert main(["compare", str(old), str(tmp_path / "latest")]) == 1


def test_a_folder_without_data_says_how_to_get_it(old: Path) -> None:
    (old / data.DATA_FILE).unlink()
    with pytest.raises(InputError, match=f"no such file; gdrcheck merge {old}"):
        compare_side.read(old)


def test_what_is_of_two_merges_is_refused(old: Path, new: Path) -> None:
    (old / data.DATA_FILE).write_bytes((new / data.DATA_FILE).read_bytes())
    with pytest.raises(InputError, match=rf"run {OLD_ID}, the data of run {NEW_ID}"):
        compare_side.read(old)


def test_data_that_lacks_cases_is_refused(old: Path) -> None:
    """A case that is in no file would be neither worse nor fixed: it would not be there."""
    made = Made(run_id=OLD_ID, cases={"node1": {"os[node1]": ""}})
    data.write(old / data.DATA_FILE, made.build().data)
    with pytest.raises(InputError, match="does not hold the cases that the summary counts"):
        compare_side.read(old)


def test_data_of_other_nodes_is_refused(old: Path) -> None:
    data.write(old / data.DATA_FILE, Made(run_id=OLD_ID, nodes=["node1", "node9"]).build().data)
    with pytest.raises(InputError, match="different nodes"):
        compare_side.read(old)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "is empty"),
        (b"hello", "is no baseline"),
        (gzip.compress(b"{}"), "summary: Field required"),
        (gzip.compress(b"{}")[:-3], "is cut off"),
        (gzip.compress(b"{}" * 999)[:-9], "is cut off"),
        (gzip.compress(b"{}" * 99)[:-5] + b"12345", "is no baseline, or damaged"),
        (gzip.compress(b'{"schema_version": 2}'), "no baseline of this version"),
        (gzip.compress(b"[" * 100_000), "no baseline of this version"),
    ],
)
def test_a_file_that_is_no_baseline_is_one_error(
    content: bytes, why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    assert main(["compare", str(path), str(path)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert why in line
    assert "expected a folder of results" in line


def test_a_file_made_to_fill_the_memory_is_refused_before_it_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compare_side, "MAX_START_BYTES", 1 << 20)
    path = tmp_path / "bomb"
    path.write_bytes(gzip.compress(bytes(8 << 20)))
    with pytest.raises(InputError, match="grows too large when it is unpacked"):
        compare_side.read(path)


def test_a_long_baseline_is_read_in_pieces(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved = old.parent / "saved"
    compare_side.save(compare_side.read(old), saved)
    monkeypatch.setattr(compare_side, "STEP_BYTES", 7)
    assert compare_side.read(saved) == compare_side.read(old)


@pytest.mark.parametrize("content", [b"my thesis", gzip.compress(b"{}"), b"\x1f\x8b"])
def test_a_file_that_is_no_baseline_is_not_replaced(
    content: bytes, old: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "thesis"
    path.write_bytes(content)
    assert main(["baseline", str(old), str(path)]) == 2
    assert "is there already and is no baseline" in capsys.readouterr().err
    assert path.read_bytes() == content
    assert main(["baseline", str(old), str(old / data.DATA_FILE)]) == 2
    assert main(["baseline", str(old), str(old)]) == 2


def test_a_path_that_is_not_there_is_one_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file or folder; expected a folder"):
        compare_side.read(tmp_path / "none")


@pytest.mark.parametrize("text", ["", "{}", "[]", json.dumps({"schema_version": 9})])
def test_a_broken_summary_is_one_error(text: str, old: Path) -> None:
    (old / "summary.json").write_text(text)
    with pytest.raises(InputError, match=r"gdrcheck merge .* writes it anew"):
        compare_side.read(old)


def test_a_baseline_that_cannot_be_written_is_one_error(
    old: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["baseline", str(old), str(tmp_path / "none" / "file")]) == 2
    assert capsys.readouterr().err == f"{tmp_path / 'none'}: no such folder; make it first\n"


def test_a_run_that_was_not_merged_says_what_to_do(
    old: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (old / "run.json").write_text("{}")
    (old / "summary.json").unlink()
    assert main(["compare", str(old), str(old)]) == 2
    assert f"run: gdrcheck merge {old}\n" in capsys.readouterr().err
