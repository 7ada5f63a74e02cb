"""Index 0 and the other pods: who is let in, and what is sent either way arrives whole."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from gdrcheck.kubernetes.document import JobDocument
from gdrcheck.kubernetes.follower import Follower, NeverArrived
from gdrcheck.kubernetes.leader import Leader
from gdrcheck.node.clock import Stop
from gdrcheck.outcome import PeerError
from gdrcheck.pairing.channel import PeerRefused
from gdrcheck.pairing.deadline import Deadline
from gdrcheck.pairing.job_messages import JobVerdict
from tests.kubernetes.support import SECRET, job_of
from tests.node.support import profile

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
PATIENCE_S = 60.0


def begun(leader: Leader, within_s: float = PATIENCE_S) -> JobDocument:
    """Begin a run of those who come."""
    return leader.begin(within_s, Stop(), NOW)[1]


def verdict(code: int = 0) -> JobVerdict:
    return JobVerdict.model_validate({"verdict": "PASS", "exit_code": code, "why": ("because",)})


def test_the_document_the_results_and_the_verdict_arrive() -> None:
    first, second, third = job_of(3)
    archives = {"node2": os.urandom(200_000), "node3": b"x"}
    with Leader(first) as leader, Follower(second) as two, Follower(third) as three:
        document = begun(leader)
        assert document.present == ("node1", "node2", "node3")
        for pod, node in ((two, "node2"), (three, "node3")):
            assert pod.document(Stop()) == document
            pod.deliver(archives[node])
        assert leader.gather(Deadline.after(PATIENCE_S), Stop()) == (archives, {})
        told = {"node1": verdict(), "node2": verdict(1), "node3": verdict(2)}
        leader.tell(told, PATIENCE_S)
        assert two.verdict(Deadline.after(PATIENCE_S), Stop()) == told["node2"]
        assert three.verdict(Deadline.after(PATIENCE_S), Stop()) == told["node3"]


def test_a_large_document_arrives_whole() -> None:
    waivers = [
        {"code": "PORT-NOT-ACTIVE", "where": f"n{n}", "reason": 'ü"' * 40, "until": "2030-01-01"}
        for n in range(500)
    ]
    large = profile().model_validate({**profile().model_dump(), "waivers": waivers})
    first, second = job_of(2, profile=large)
    with Leader(first) as leader, Follower(second) as two:
        document = begun(leader)
        assert len(document.model_dump_json()) > 50_000
        assert two.document(Stop()) == document


def test_a_connection_that_breaks_is_made_again_and_nothing_is_lost() -> None:
    first, second = job_of(2)
    with Leader(first) as leader, Follower(second) as two:
        begun(leader)
        two.document(Stop())
        for pod in leader._pods.values():
            assert pod.channel is not None
            pod.channel.cut()
        two.deliver(b"results")
        assert leader.gather(Deadline.after(PATIENCE_S), Stop()) == ({"node2": b"results"}, {})


def test_who_ends_before_its_results_are_there_is_lost() -> None:
    first, second = job_of(2)
    with Leader(first) as leader:
        with Follower(second) as two:
            begun(leader)
            two.document(Stop())
        archives, lost = leader.gather(Deadline.after(PATIENCE_S), Stop())
    assert archives == {}
    assert "pod gdrcheck-1 was lost" in lost["node2"]


def test_who_must_end_has_sent_its_results() -> None:
    first, second = job_of(2)
    with Leader(first) as leader:
        with Follower(second) as two:
            begun(leader)
            two.document(Stop())
            two.deliver(b"results")
        assert leader.gather(Deadline.after(PATIENCE_S), Stop()) == ({"node2": b"results"}, {})


def test_who_leaves_before_the_run_has_not_arrived() -> None:
    first, second = job_of(2)
    with Leader(first) as leader:
        with Follower(second):
            _until(lambda: bool(leader._pods))
        _until(lambda: all(pod.channel is None for pod in leader._pods.values()))
        assert begun(leader, within_s=1).present == ("node1",)


def refusal_of(pod: Follower) -> str:
    with pytest.raises(PeerRefused) as caught:
        pod.document(Stop())
    return str(caught.value)


def test_two_pods_on_one_node_are_refused() -> None:
    first, second = job_of(2)
    with Leader(first), Follower(replace(second, node="node1")) as two:
        assert "gdrcheck-1 and gdrcheck-0 are on one node, node1" in refusal_of(two)


@pytest.mark.parametrize(
    "changes", [{"profile_name": "other"}, {"rounds": 1}, {"time_scale": 0.06}]
)
def test_a_pod_that_was_told_something_else_is_refused(changes: dict[str, object]) -> None:
    first, second = job_of(2)
    with Leader(first), Follower(replace(second, **changes)) as two:  # type: ignore[arg-type]
        assert "hash of profiles and run differs" in refusal_of(two)


def test_who_comes_after_the_start_is_too_late() -> None:
    first, second = job_of(2)
    with Leader(first) as leader:
        begun(leader, within_s=0.1)
        with Follower(second) as two:
            assert "which came too late" in refusal_of(two)


def test_a_process_that_takes_the_place_of_another_is_refused_in_the_middle_of_a_run() -> None:
    first, second = job_of(2)
    with Leader(first) as leader:
        with Follower(second) as two:
            begun(leader)
            two.document(Stop())
        with Follower(second) as two:
            assert "was replaced while run" in refusal_of(two)


def test_a_process_that_takes_the_place_of_another_before_the_run_is_welcome() -> None:
    first, second, _ = job_of(3)
    with Leader(first) as leader:
        with Follower(second):
            _until(lambda: bool(leader._pods))
        with Follower(second) as two:
            _until(lambda: any(pod.channel for pod in leader._pods.values()))
            document = begun(leader, within_s=0.1)
            assert two.document(Stop()) == document


def test_an_index_0_that_took_the_place_of_another_gives_up() -> None:
    first, second, _ = job_of(3, time_scale=1)
    with Follower(second) as two:
        with Leader(first) as leader:
            _until(lambda: bool(leader._pods))
            document = begun(leader, within_s=0.1)
            two.document(Stop())
        with Leader(first) as leader:
            with pytest.raises(PeerError, match=f"in the middle of run {document.run.run_id}"):
                begun(leader)
            with pytest.raises(PeerRefused, match="is not the one that began run"):
                two.verdict(Deadline.after(PATIENCE_S), Stop())


def test_index_0_that_is_not_there_is_not_one_with_another_secret() -> None:
    first, second = job_of(2)
    with Follower(replace(second, arrival_s=1)) as two, pytest.raises(NeverArrived):
        two.document(Stop())
    with Leader(first) as leader, Follower(replace(second, secret=SECRET[::-1])) as two:
        assert "does not prove the run's secret" in refusal_of(two)
        assert "other secret" in leader.knocked


def test_waiting_ends_when_the_pod_is_told_to_end() -> None:
    first, second = job_of(2)
    stop = Stop()
    stop.request("stopped by SIGTERM")
    with Leader(first) as leader, pytest.raises(PeerError, match="SIGTERM"):
        leader.begin(PATIENCE_S, stop, NOW)
    with Follower(second) as two, pytest.raises(PeerError, match="SIGTERM"):
        two.document(stop)


def test_who_cannot_send_what_it_has_sent_no_results() -> None:
    first, second = job_of(2)
    with Leader(first) as leader, Follower(second) as two:
        begun(leader)
        two.document(Stop())
        two.deliver(b"")
        archives, lost = leader.gather(Deadline.after(PATIENCE_S), Stop())
    assert archives == {}
    assert "larger than" in lost["node2"]


def test_a_pod_whose_node_has_a_name_of_ours_is_refused() -> None:
    first, second = job_of(2)
    with Leader(first) as leader, Follower(replace(second, node="pairs")) as two:
        assert "node called pairs, which is reserved" in refusal_of(two)
        assert begun(leader, within_s=0.1).present == ("node1",)


def test_results_that_are_too_large_are_not_taken_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gdrcheck.kubernetes.leader.MAX_ARCHIVE_BYTES", 100_000)
    first, second = job_of(2)
    with Leader(first) as leader, Follower(second) as two:
        begun(leader)
        two.document(Stop())
        two.deliver(bytes(200_000))
        archives, lost = leader.gather(Deadline.after(PATIENCE_S), Stop())
    assert archives == {}
    assert "larger than" in lost["node2"]


def _until(there: Callable[[], bool]) -> None:
    end = Deadline.after(PATIENCE_S)
    while not there():
        assert not end.expired
        time.sleep(0.02)
