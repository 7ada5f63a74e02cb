"""gdrcheck facts --capture: writes a tree once, says what it did, and refuses what it must."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.captured.machines import MACHINES
from tests.commands.support import run


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return MACHINES["vm"]().write(tmp_path / "machine")


def test_a_captured_tree_is_read_by_the_same_command(root: Path, tmp_path: Path) -> None:
    out = tmp_path / "new" / "captured"
    done = run("facts", "--root", root, "--capture", out)
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines()[-1].strip() == f"gdrcheck facts --root {out}"
    assert "left out: nothing" in done.out
    assert "UUIDs" in done.out
    facts = json.loads(run("facts", "--root", out, "--json").out)
    assert facts["node"] == facts["host"]["hostname"] == "host1"
    before = json.loads(run("facts", "--root", root, "--json").out)
    assert facts["host"]["kernel"] == before["host"]["kernel"]
    assert (out / "CAPTURED.txt").read_text().startswith("replaced")


def test_two_captures_have_nothing_in_common_that_could_be_undone(
    root: Path, tmp_path: Path
) -> None:
    uuids = []
    for name in ("one", "two"):
        run("facts", "--root", root, "--capture", tmp_path / name)
        record = tmp_path / name / "run/gdrcheck/recorded/nvml.json"
        uuids.append(json.loads(record.read_text())["gpus"][0]["uuid"])
    assert uuids[0] != uuids[1]


def test_a_folder_that_holds_something_is_refused_and_left_alone(
    root: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "mine").write_text("x")
    done = run("facts", "--root", root, "--capture", out)
    assert done.code == 2
    assert done.err == f"--capture {out}: is not empty; expected a new or an empty folder\n"
    assert [path.name for path in out.iterdir()] == ["mine"]


def test_what_is_no_folder_is_refused(root: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = run("facts", "--root", root, "--capture", tmp_path / "file")
    assert (done.code, done.out) == (2, "")
    assert "Not a directory; expected a new or an empty folder" in done.err


@pytest.mark.parametrize(
    ("more", "word"), [(("--from", "x.json"), "without --from"), (("--json",), "without --json")]
)
def test_what_it_cannot_do_is_said(more: tuple[str, ...], word: str, tmp_path: Path) -> None:
    done = run("facts", *more, "--capture", tmp_path / "out")
    assert done.code == 2
    assert word in done.err
    assert not (tmp_path / "out").exists()


def test_a_folder_that_cannot_be_written_is_named(root: Path) -> None:
    done = run("facts", "--root", root, "--capture", "/proc/captured")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("--capture /proc/captured: ")
    assert "is not whole" in done.err
