"""What a node tells the others of its rails."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from gdrcheck.facts import Facts
from gdrcheck.findings.model import Finding, Severity, Where
from gdrcheck.node.rails import NEEDED, ready_rails
from gdrcheck.outcome import Outcome
from gdrcheck.profile import Waiver
from gdrcheck.results import waivers
from gdrcheck.results.cases import CaseResult
from tests import facts as builders
from tests.node.support import facts, profile, run_spec

CHECKS = Path(__file__).resolve().parents[2] / "checks/node"
RXE0 = Where(node="node1", nic="rxe0")


def machine() -> Facts:
    """A node with rxe0, whose port is active."""
    port = builders.port(rate_gbps=10, link_layer="ethernet")
    device = builders.rdma_device(
        "rxe0", driver="software", slot=None, software=True, ports=(port,)
    )
    return facts().model_copy(update={"rdma_devices": (device,)})


def case(outcome: Outcome, *, where: Where = RXE0, **changes: object) -> CaseResult:
    """A case about rxe0."""
    values = {"suite": "node1", "id": "port_active[node1/rxe0]", "classname": "node1.ports"}
    return CaseResult.model_validate(values | {"where": where, "outcome": outcome} | changes)


def finding(severity: Severity = Severity.FAIL) -> Finding:
    """A port that is down."""
    return Finding(
        code="PORT-NOT-ACTIVE", where=RXE0, observed="DOWN", expected="ACTIVE", severity=severity
    )


@pytest.mark.parametrize(
    ("cases", "blocked_by"),
    [
        ([], None),
        ([case(Outcome.PASSED), case(Outcome.SKIPPED), case(Outcome.NOT_JUDGED)], None),
        ([case(Outcome.FAILED, findings=[finding()])], "PORT-NOT-ACTIVE at node1/rxe0"),
        ([case(Outcome.FAILED, findings=[finding(Severity.WARN)])], None),
        ([case(Outcome.ERROR)], "error in port_active[node1/rxe0]"),
        ([case(Outcome.BLOCKED, blocked_by="MR-HOST-FAILED at x")], "MR-HOST-FAILED at x"),
        (
            [
                case(Outcome.BLOCKED, blocked_by="that"),
                case(Outcome.FAILED, findings=[finding()]),
            ],
            "PORT-NOT-ACTIVE at node1/rxe0",
        ),
        ([case(Outcome.ERROR, where=Where(node="node1", nic="rxe1"))], None),
        ([case(Outcome.ERROR, where=Where(node="node1"))], None),
        ([case(Outcome.FAILED, id="port_rate[node1/rxe0]", findings=[finding()])], None),
        ([case(Outcome.ERROR, id="pci_link_width[node1/rxe0]")], None),
    ],
)
def test_what_blocks_a_rail(cases: list[CaseResult], blocked_by: str | None) -> None:
    (rail,) = ready_rails(profile(), machine(), cases)
    assert (rail.id, rail.nic, rail.blocked_by) == (0, "rxe0", blocked_by)


def test_a_waived_failure_does_not_block() -> None:
    waiver = Waiver(code="PORT-NOT-ACTIVE", where="node1/*", reason="spare", until=date(2026, 1, 2))
    failed = case(Outcome.FAILED, findings=[finding()])
    spec = run_spec(profiles={"soft": profile(waivers=(waiver,))})
    waived = waivers.apply(spec, [failed])
    assert waived[0].waived
    (rail,) = ready_rails(profile(), machine(), waived)
    assert rail.blocked_by is None


def test_what_a_waived_failure_blocks_still_blocks_the_rail() -> None:
    waiver = Waiver(code="PORT-NOT-ACTIVE", where="node1/*", reason="spare", until=date(2026, 1, 2))
    failed = case(Outcome.FAILED, findings=[finding()])
    blocked = case(
        Outcome.BLOCKED, id="device_opens[node1/rxe0]", blocked_by="PORT-NOT-ACTIVE at node1/rxe0"
    )
    spec = run_spec(profiles={"soft": profile(waivers=(waiver,))})
    waived = waivers.apply(spec, [failed, blocked])
    assert [one.unmeasured for one in waived] == [False, False]
    (rail,) = ready_rails(profile(), machine(), waived)
    assert rail.blocked_by == "PORT-NOT-ACTIVE at node1/rxe0"


def test_no_rail_is_ready_when_nothing_tells_which_device_is_whose() -> None:
    """rxe0 is there; whether it is rail 0 or rail 1, nobody can say."""
    two = {"count": 2, "nics": [{"name": "rxe*"}], "port_rate_gbps": 10, "link_layer": "ethernet"}
    promised = profile(rails=two)
    told = ready_rails(promised, machine(), [])
    assert [(rail.nic, rail.blocked_by) for rail in told] == [
        (
            f"rail{number}",
            f"no RDMA device for rail {number}: 1 devices match, and 2 rails are promised",
        )
        for number in range(2)
    ]
    blocker = "PORT-DEVICE-MISSING at node1"
    cases = [
        case(
            Outcome.BLOCKED,
            id=f"device_present[node1/rail{number}]",
            where=Where(node="node1", nic=f"rail{number}"),
            blocked_by=blocker,
        )
        for number in range(2)
    ]
    told = ready_rails(promised, machine(), cases)
    assert {rail.blocked_by for rail in told} == {blocker}


def test_without_facts_every_promised_rail_is_blocked() -> None:
    (rail,) = ready_rails(profile(), None, [])
    assert rail.blocked_by == "facts were not read"


def test_the_checks_that_a_transfer_stands_on_exist() -> None:
    source = "".join(path.read_text() for path in CHECKS.glob("check_*.py"))
    assert [name for name in NEEDED if f"def check_{name}(" not in source] == []
