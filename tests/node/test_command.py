"""What ``gdrcheck node`` refuses, and that it says everything at once."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from gdrcheck.node import command
from gdrcheck.node.command import read_assignment
from gdrcheck.outcome import InputError
from tests.node.support import run_spec


@pytest.fixture
def given(tmp_path: Path) -> dict[str, object]:
    """Options that are in order."""
    (tmp_path / "out").mkdir()
    (tmp_path / "checks").mkdir()
    (tmp_path / "run.json").write_text(run_spec("node1", "node2", "node3").model_dump_json())
    (tmp_path / "secret").write_text("0f" * 32 + "\n")
    return {
        "run_file": tmp_path / "run.json",
        "secret_file": tmp_path / "secret",
        "node": "node1",
        "out": tmp_path / "out",
        "checks": tmp_path / "checks",
    }


def problems(given: dict[str, object], **changes: object) -> tuple[str, ...]:
    """What is refused about ``given`` with ``changes``."""
    with pytest.raises(InputError) as caught:
        read_assignment(**(given | changes))  # type: ignore[arg-type]
    return caught.value.problems


def test_present_nodes_keep_the_order_of_the_run(given: dict[str, object]) -> None:
    task = read_assignment(**given, present=["node3", "node1"])  # type: ignore[arg-type]
    assert task.present == ("node1", "node3")
    assert task.secret == bytes([15] * 32)


def test_every_problem_at_once(given: dict[str, object], tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("short")
    found = problems(given, node="node9", present=["node1", "nodeX"], out=tmp_path / "none")
    text = "\n".join(found)
    for part in ("64 hex digits", "no such directory", "node9 is no node", "nodeX is no node"):
        assert part in text


@pytest.mark.parametrize("name", ["events.jsonl", "walk.json"])
def test_results_are_not_mixed_with_older_ones(
    given: dict[str, object], tmp_path: Path, name: str
) -> None:
    (tmp_path / "out" / name).write_text("")
    assert "earlier run" in problems(given)[0]


def test_broken_run_document(given: dict[str, object], tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text('{"run_id": "x"}')
    text = "\n".join(problems(given))
    assert "run_id" in text
    assert "nodes" in text


@pytest.mark.parametrize("error", [KeyError("rail"), OSError(28, "No space left")])
def test_whatever_the_supervisor_raises_done_is_written(
    given: dict[str, object],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: Exception,
) -> None:
    def fails(*_: object) -> int:
        raise error

    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr(command, "supervise", fails)
    assert command.run_node(**given) == 2  # type: ignore[arg-type]
    done = json.loads((tmp_path / "out" / "done.json").read_text())
    assert done["exit_code"] == 2
    assert type(error).__name__ in done["reason"] or "No space left" in done["reason"]
    assert capsys.readouterr().err == done["reason"] + "\n"


def test_present_must_name_the_node_itself(given: dict[str, object]) -> None:
    assert "leaves out node1" in problems(given, present=["node2"])[0]
