"""The real checks of the pair phase judge a node's port counters, after all of its rounds."""

from __future__ import annotations

from pathlib import Path

import pytest

from gdrcheck.facts import CountersAfter, Facts
from gdrcheck.outcome import Outcome
from gdrcheck.pairing.channel import connect
from gdrcheck.pairing.handshake import Identity
from gdrcheck.pairing.items import items
from gdrcheck.pairing.messages import Bye, Serving
from gdrcheck.results import events
from gdrcheck.results.events import PlanEvent, StartEvent
from gdrcheck.run import Deadlines
from tests import facts as builders
from tests.node.pair_machine import SECRET, Machine, two
from tests.node.support import profile
from tests.pairing.support import LOOPBACK, PATIENCE_S, in_thread
from tests.probes import trees

CASE = "port_counters[node1/rxe0]"
# The profile promises no GPU.
OF_GPUS = "gpu_errors_grew[node1]"


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """A node whose Soft-RoCE port has not moved since its facts were read."""
    out, root = tmp_path / "out", tmp_path / "root"
    out.mkdir()
    trees.software_nic(root, "rxe0", "data0", "0000:00:05.0")
    monkeypatch.setenv("GDRCHECK_TEST_ROOT", str(root))
    made = Machine(out, root)
    made.facts(facts_with("ACTIVE"))
    return made


def facts_with(state: str, **counters: int) -> Facts:
    """Facts of the machine in which its port has this state."""
    counters = counters or {"link_downed": 0, "out_of_sequence": 7}
    port = builders.port(state=state, counters=counters)
    return builders.facts(rdma_devices=(builders.rdma_device("rxe0", ports=(port,)),))


def test_a_node_that_owns_no_pair_has_its_counters_judged(machine: Machine) -> None:
    machine.port(hw_counters__out_of_sequence="9\n")
    cases = machine.run("absent")
    assert set(cases) == {CASE, OF_GPUS}
    case = cases[CASE]
    assert (case.outcome, case.message) == (Outcome.PASSED, "")
    assert (case.suite, case.classname) == ("node1", "node1.ports")
    assert case.where.nic == "rxe0"
    assert case.properties == {"out_of_sequence": "+2"}
    path = machine.out / "counters.json"
    assert path.stat().st_mode & 0o777 == 0o644
    kept = CountersAfter.model_validate_json(path.read_bytes())
    assert kept.node == "node1"
    assert isinstance(kept.ports, tuple)
    assert kept.ports[0].counters == {"link_downed": 0, "out_of_sequence": 9}


def test_a_device_that_does_not_count_lost_links_says_so(machine: Machine) -> None:
    (machine.root / "sys/class/infiniband/rxe0/ports/1/counters/link_downed").unlink()
    machine.facts(facts_with("ACTIVE", out_of_sequence=7))
    case = machine.run("absent")[CASE]
    assert case.outcome is Outcome.PASSED
    assert case.properties == {"link_downed": "not judged: the device has no such counter"}


def test_a_link_that_went_down_meanwhile_fails(machine: Machine) -> None:
    machine.port(counters__link_downed="1\n")
    case = machine.run("absent")[CASE]
    assert case.outcome is Outcome.FAILED
    assert [(one.code, one.where.text()) for one in case.findings] == [
        ("PORT-LINK-DOWNED", "node1/rxe0")
    ]


def test_a_port_that_is_not_active_any_more_fails_by_that_alone(machine: Machine) -> None:
    machine.port(counters__link_downed="1\n", state="1: DOWN\n")
    case = machine.run("absent")[CASE]
    assert case.outcome is Outcome.FAILED
    assert [(one.code, one.where.text(), one.observed) for one in case.findings] == [
        ("PORT-NOT-ACTIVE", "node1/rxe0", "state DOWN; it was ACTIVE before the transfers")
    ]


@pytest.mark.parametrize("peer", ["absent", "ready"])
def test_a_port_that_was_blocked_before_is_blocked_in_the_same_way(
    machine: Machine, peer: str
) -> None:
    machine.facts(facts_with("DOWN"))
    case = machine.run(peer)[CASE]
    assert case.blocked_by == "PORT-NOT-ACTIVE at node1/rxe0"


def test_a_device_that_is_gone_is_an_error(machine: Machine) -> None:
    (machine.root / "sys/class/infiniband/rxe0/ports/1/state").unlink()
    case = machine.run("absent")[CASE]
    assert case.outcome is Outcome.ERROR
    assert "port state after the transfers is unreadable" in case.message


def test_the_counters_come_after_all_exchanges(machine: Machine) -> None:
    cases = machine.run("ready")
    pairs = [case for case in cases.values() if case.suite == "pairs"]
    assert cases[OF_GPUS].outcome is Outcome.SKIPPED
    owed = items(profile(), profile(), gpus=False)
    assert len(pairs) == sum(len(item.directions) for item in owed)
    # Nobody answers there: what was tried is an error, and blocks what was not; but this node's own
    # port is judged all the same.
    assert pairs[0].outcome is Outcome.ERROR
    assert {case.outcome for case in pairs} == {Outcome.ERROR, Outcome.BLOCKED}
    assert cases[CASE].outcome is Outcome.PASSED
    log = events.read(machine.out / "events.jsonl").events
    planned = [case.id for event in log if isinstance(event, PlanEvent) for case in event.cases]
    assert planned[-2:] == [CASE, OF_GPUS]
    started = [event.id for event in log if isinstance(event, StartEvent)]
    assert started[-2:] == [CASE, OF_GPUS]


def test_the_counters_are_read_when_the_last_partner_was_served(machine: Machine) -> None:
    waits = Deadlines(
        completion_s=2, connect_s=10, check_s=20, rail_s=30, rendezvous_s=20, phase_s=120
    )
    spec = two("node2", "node1", waits=waits)
    identity = Identity.of(spec, "node2", bytes.fromhex(SECRET))

    def partner() -> None:
        port = spec.node("node1").port
        with connect(LOOPBACK, port, identity, "node1", "pair", 2 * PATIENCE_S) as channel:
            channel.start_heartbeats(0.2)
            channel.receive(PATIENCE_S, Serving)
            machine.port(counters__link_downed="1\n")
            channel.send(Bye())
            channel.receive(PATIENCE_S, Bye)

    with in_thread(partner) as outcome:
        case = machine.run("ready", spec)[CASE]
    assert "error" not in outcome
    assert [one.code for one in case.findings] == ["PORT-LINK-DOWNED"]
