"""What a long merge tells at standard error: nothing at first, one line on a terminal."""

from __future__ import annotations

import gc
import io
from argparse import Namespace
from pathlib import Path

import pytest

from gdrcheck.outcome import InputError
from gdrcheck.results import merge, steps
from gdrcheck.results.steps import CLEAR, PLAIN_S, QUIET_S, Steps
from gdrcheck.results.summary import Summary
from tests.results.trees import two_nodes


class Stream(io.StringIO):
    """A stream that is a terminal, or is none."""

    def __init__(self, terminal: bool) -> None:
        super().__init__()
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.mark.parametrize("terminal", [True, False])
def test_who_waits_for_less_than_two_seconds_reads_nothing(terminal: bool) -> None:
    stream, clock = Stream(terminal), Clock()
    steps = Steps(stream, clock)
    with steps.step("reading node", 2):
        clock.now_s += QUIET_S - 0.1
        steps.done(1)
    with steps.step("judging"):
        pass
    assert stream.getvalue() == ""


def test_without_a_terminal_each_late_step_has_a_line_and_a_long_one_more() -> None:
    stream, clock = Stream(False), Clock()
    steps = Steps(stream, clock)
    with steps.step("reading node", 9):
        for number in range(1, 5):
            clock.now_s += PLAIN_S / 2
            steps.done(number)
    with steps.step("judging"):
        pass
    lines = ["reading node 1/9", "reading node 3/9", "judging"]
    assert stream.getvalue() == "".join(f"merge: {line}\n" for line in lines)


def test_on_a_terminal_there_is_one_line_which_is_gone_in_the_end() -> None:
    stream, clock = Stream(True), Clock()
    steps = Steps(stream, clock)
    with steps.step("reading node", 9):
        clock.now_s += QUIET_S
        steps.done(1)
        steps.done(2)
    assert stream.getvalue() == f"{CLEAR}merge: reading node 1/9{CLEAR}"


def test_the_line_goes_when_the_step_fails() -> None:
    stream, clock = Stream(True), Clock()
    steps = Steps(stream, clock)
    clock.now_s += QUIET_S
    with pytest.raises(RuntimeError), steps.step("judging"):
        raise RuntimeError
    assert stream.getvalue().endswith(CLEAR)


def test_the_steps_of_a_merge_are_told_apart_from_its_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    two_nodes(tmp_path)
    monkeypatch.setattr(steps, "QUIET_S", 0.0)
    args = Namespace(results_dir=tmp_path, states=None, extra_junit=None, json=True)
    merge.main(args, lambda _: None)
    told = capsys.readouterr()
    assert Summary.model_validate_json(told.out).nodes.keys() == {"node1", "node2"}
    lines = told.err.splitlines()
    assert lines[0] == "merge: reading what the nodes sent, node 0/2"
    assert lines[-1] == "merge: writing the page"
    assert len(lines) == len(set(lines)) > 4


def test_a_merge_gives_the_collector_back_as_it_was(tmp_path: Path) -> None:
    args = Namespace(results_dir=tmp_path / "absent", states=None, extra_junit=None, json=True)
    assert gc.isenabled()
    with pytest.raises(InputError):
        merge.main(args, lambda _: None)
    assert gc.isenabled()
