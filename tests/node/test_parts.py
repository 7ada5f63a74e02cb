"""The small parts of the supervisor: tail of events, limits, calls in the background."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import pytest

from gdrcheck.node import process
from gdrcheck.node.background import Background, CallFailed, NotDone
from gdrcheck.node.clock import Stop, node_case_limit, overall_s, pair_case_limit
from gdrcheck.node.excerpt import excerpt
from gdrcheck.node.process import CheckProcess, describe
from gdrcheck.node.tail import EventTail
from gdrcheck.outcome import ProbeError
from gdrcheck.results.events import EventWriter, NoteEvent, read
from gdrcheck.run import Deadlines


def test_tail_waits_for_the_end_of_a_line(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    line = NoteEvent(phase="run", text="one").model_dump_json().encode()
    path.write_bytes(line[:10])
    tail = EventTail(path)
    assert tail.read() == []
    path.write_bytes(line + b"\nrubbish\n" + line[:5])
    assert [getattr(event, "text", None) for event in tail.read()] == ["one"]


def test_partial_line_of_a_dead_writer_is_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    with EventWriter(path) as writer:
        writer.write(NoteEvent(phase="run", text="one"))
        path.write_bytes(path.read_bytes() + b'{"event": "en')
        tail = EventTail(path)
        tail.read()
        assert tail.drop_partial() == 13
        writer.write(NoteEvent(phase="run", text="two"))
    log = read(path)
    assert (len(log.events), log.problems) == (2, ())
    assert [getattr(event, "text", None) for event in tail.read()] == ["two"]


def test_limits_nest() -> None:
    waits = Deadlines().scaled(3)
    assert node_case_limit(waits).seconds == waits.check_s
    assert pair_case_limit(waits, 1).seconds > waits.rail_s + waits.connect_s
    assert overall_s(waits) > 2 * waits.phase_s + waits.rendezvous_s


def test_background_hands_over_results_and_errors() -> None:
    assert Background("sum", lambda: 1 + 1).result(5, Stop()) == 2
    with pytest.raises(CallFailed, match="division: ZeroDivisionError"):
        Background("division", lambda: 1 // 0).result(5, Stop())

    def on_purpose() -> None:
        raise ProbeError("no sysfs")

    with pytest.raises(ProbeError, match="no sysfs"):
        Background("probe", on_purpose).result(5, Stop())


def test_background_gives_up_at_its_limit_and_at_a_stop() -> None:
    never = threading.Event()
    try:
        waiting = Background("probe", never.wait)
        with pytest.raises(NotDone, match="not done after 0 s"):
            waiting.result(0, Stop())
        stop = Stop()
        stop.request("stopped by SIGTERM")
        stop.request("container deadline")
        with pytest.raises(NotDone, match="stopped by SIGTERM"):
            waiting.result(60, stop)
    finally:
        never.set()


def test_excerpt_is_of_this_process_and_begins_at_the_dump(tmp_path: Path) -> None:
    log = tmp_path / "log"
    first = "Fatal Python error: of the process before\n"
    log.write_text(first + "chatter\nFatal Python error: Aborted\n  File check_a.py\n")
    assert excerpt(log, len(first)) == "Fatal Python error: Aborted\n  File check_a.py"
    assert excerpt(tmp_path / "none", 0) == ""


def test_a_process_that_cannot_be_ended_is_abandoned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with CheckProcess([sys.executable, "-c", ""], tmp_path / "log", tmp_path) as child:
        with monkeypatch.context() as patched:
            patched.setattr(process, "DEATH_S", 0.2)
            patched.setattr(child, "_kill_group", lambda: True)
            assert child.end() == f"process {child.pid} does not die: node needs a reboot"
        child.wait(5)


@pytest.mark.parametrize(
    ("code", "text"),
    [(3, "process exited with 3"), (-11, "killed by SIGSEGV"), (-63, "killed by signal 63")],
)
def test_return_codes_in_words(code: int, text: str) -> None:
    assert describe(code) == text
