"""Readers in processes of their own tell the same as one, in order; their death is told at once."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Iterator
from multiprocessing import active_children
from pathlib import Path

import pytest

from benchmarks import made_up
from gdrcheck.outcome import InputError, Outcome, Verdict
from gdrcheck.results import readers
from gdrcheck.results.events import EndEvent, StepEvent
from gdrcheck.results.merge import merge
from gdrcheck.results.readers import Task
from tests.node.support import RUN_ID
from tests.results.trees import NodeTree

PIPE_BYTES = 64 << 10
# More than a pipe holds, so that a reader whose work nobody takes has to wait.
LONG = "x" * 15_000
FILES = ("junit.xml", "summary.json", "data.json.gz")


@pytest.fixture(autouse=True)
def two_readers(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Any number of nodes is worth processes, and pipes are short; none is left in the end."""
    monkeypatch.setattr(readers, "MAX_ALONE", 0)
    monkeypatch.setattr(readers, "PIPE_BYTES", PIPE_BYTES)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: {0, 1})
    yield
    assert active_children() == []


def many_words(tmp_path: Path, count: int) -> list[Task]:
    """Nodes that have more to tell than fits into a pipe."""
    for number in range(count):
        tree = NodeTree(tmp_path, f"node{number}")
        for case in range(20):
            tree.case(f"case{case}[node{number}]", Outcome.ERROR, message=f"{case}{LONG}")
    return [Task(f"node{number}", "died") for number in range(count)]


def broken_nodes(root: Path) -> list[Task]:
    """Nodes that are broken in every way, between two that are whole."""
    nodes = root / "nodes"
    NodeTree(root, "first").case("os[first]")
    (nodes / "elsewhere").mkdir()
    (nodes / "link").symlink_to(nodes / "elsewhere")
    for name, content in {
        "deep": b"[" * 100_000 + b"\n",
        "garbage": b"\x00\xff\n{}\n",
        "cut": b'{"v": 1, "ti',
        "of_another": (nodes / "first" / "events.jsonl").read_bytes(),
    }.items():
        (nodes / name).mkdir()
        (nodes / name / "events.jsonl").write_bytes(content)
    died = NodeTree(root, "died")
    died.case("os[died]", Outcome.FAILED)
    died.add(StepEvent(phase="node", id="os[died]", text="opening"))
    died.add(EndEvent(phase="node", id="unplanned[died]", outcome=Outcome.PASSED))
    NodeTree(root, "last").case("os[last]")
    names = ("first", "absent", "link", "deep", "garbage", "cut", "of_another", "died", "last")
    return [Task(name, f"{name} died") for name in names]


def test_each_node_tells_the_same_to_readers_as_to_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks = broken_nodes(tmp_path)
    with readers.reading(tmp_path / "nodes", RUN_ID, tasks) as told:
        by_readers = list(told)
    monkeypatch.setattr(readers, "MAX_ALONE", len(tasks))
    with readers.reading(tmp_path / "nodes", RUN_ID, tasks) as told:
        alone = list(told)
        assert active_children() == []
    assert by_readers == alone
    assert [one.cases[0].id if one.cases else "" for one in alone][-2:] == ["os[died]", "os[last]"]
    assert all(one.problems or one.broken for one in alone[2:5])


def test_a_merge_by_readers_writes_the_same_bytes_as_one_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(made_up, "ONE_BAD_OF", 2)
    made_up.write(tmp_path, 12)
    (tmp_path / "nodes" / "node0003" / "events.jsonl").write_text("no event\n")
    written = []
    for most_alone in (0, 12):
        monkeypatch.setattr(readers, "MAX_ALONE", most_alone)
        assert merge(tmp_path, None).verdict is Verdict.FAIL
        written.append([(tmp_path / name).read_bytes() for name in FILES])
    assert written[0] == written[1]


def test_a_reader_that_is_killed_is_told_with_the_node_that_it_read(tmp_path: Path) -> None:
    tasks = many_words(tmp_path, 6)
    with readers.reading(tmp_path / "nodes", RUN_ID, tasks) as told:
        assert next(told).cases
        for child in active_children():
            child.kill()
            child.join()
        with pytest.raises(InputError, match=r"events of node[1-5] ended with signal SIGKILL"):
            list(told)


def test_a_reader_that_does_not_come_to_an_end_is_told_and_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks = many_words(tmp_path, 6)
    with readers.reading(tmp_path / "nodes", RUN_ID, tasks) as told:
        assert next(told).cases
        for child in active_children():
            assert child.pid is not None
            os.kill(child.pid, signal.SIGSTOP)
        monkeypatch.setattr(readers, "DEADLINE_S", 0.2)
        with pytest.raises(InputError, match=r"events of node[1-5] "):
            list(told)


def test_readers_end_when_nobody_wants_the_rest(tmp_path: Path) -> None:
    tasks = many_words(tmp_path, 4)
    with readers.reading(tmp_path / "nodes", RUN_ID, tasks) as told:
        assert next(told).cases


def test_one_core_gets_no_readers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: {3})
    with readers.reading(tmp_path / "nodes", RUN_ID, [Task("node1", "died")]) as told:
        assert active_children() == []
        assert len(list(told)) == 1


def test_a_reader_that_cannot_start_is_one_clear_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_process(_: object) -> None:
        raise OSError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr(type(readers.CONTEXT.Process()), "start", no_process)
    with (
        pytest.raises(InputError, match="temporarily unavailable"),
        readers.reading(tmp_path, RUN_ID, [Task("node1", "died")] * 2),
    ):
        raise AssertionError("there is nothing to read with")
