"""What an exchange proves: the finding, the end that it names, and when it is no finding."""

from __future__ import annotations

from typing import Any

import pytest

from gdrcheck.findings.model import Where
from gdrcheck.mismatch import Mismatch
from gdrcheck.outcome import Blocked, PeerError, ProbeError
from gdrcheck.pairing.cases import ExchangeCase, Measurement, exchange_cases
from gdrcheck.pairing.judge import judge
from gdrcheck.pairing.pairs import EndReport, ExchangeResult, OwnedPair, RailEnd, RailPair
from gdrcheck.verbs import protocol

PLAN = protocol.ExchangePlan(sizes_bytes=(8,), iterations=2)
RAIL = RailPair(0, RailEnd("a", None, "mlx5_0"), RailEnd("b", None, "mlx5_1"))
PAIR = OwnedPair(0, "b", (RAIL,))
CASE = ExchangeCase(PAIR, RAIL, "SEND", "out")
WRONG = Mismatch(
    first_bad_offset=3,
    bad_bytes=1,
    excerpt_offset=0,
    expected_hex="00",
    got_hex="01",
    looks_like="other",
)
RETRY = protocol.CompletionError(
    status="RETRY_EXC_ERR",
    vendor_error=0x81,
    operation="message",
    iteration=1,
    size_bytes=8,
    text="transport retry counter exceeded",
)


def report(verified: int = 2, **changes: Any) -> protocol.ExchangeResult:
    sizes = (protocol.VerifiedSize(size_bytes=8, iterations_verified=verified),)
    values = {"sizes": sizes, "completed": not changes, "duration_s": 0.1}
    return protocol.ExchangeResult(**{**values, **changes})


def exchange(
    source: protocol.ExchangeResult | None = None,
    sink: protocol.ExchangeResult | None = None,
    direction: str = "out",
) -> ExchangeResult:
    ends = ("a", "b") if direction == "out" else ("b", "a")
    return ExchangeResult(
        "SEND",
        direction,  # type: ignore[arg-type]
        PLAN,
        1024,
        EndReport(ends[0], source or report()),
        EndReport(ends[1], sink or report()),
    )


def test_a_whole_exchange_has_no_finding() -> None:
    assert judge(exchange(), RAIL) is None


@pytest.mark.parametrize(("direction", "sink"), [("out", "b/mlx5_1"), ("in", "a/mlx5_0")])
def test_wrong_data_is_found_at_the_sink_with_the_byte(direction: str, sink: str) -> None:
    found = judge(exchange(sink=report(mismatch=WRONG), direction=direction), RAIL)
    assert found is not None
    assert found.code == "PAIR-DATA-CORRUPT"
    assert found.where.model_copy(update={"peer": None}).text() == sink
    assert "offset 3" in found.observed


def test_a_mismatch_counts_even_when_both_ends_say_completed() -> None:
    found = judge(exchange(sink=report(mismatch=WRONG, completed=True)), RAIL)
    assert found is not None


def test_a_broken_guard_is_a_finding() -> None:
    found = judge(exchange(sink=report(guard_broken="guard after the payload")), RAIL)
    assert found is not None
    assert found.code == "PAIR-GUARD-BROKEN"


def test_an_error_completion_is_found_at_the_end_that_got_it() -> None:
    found = judge(exchange(report(completion_error=RETRY), report(0, stopped_by_peer=True)), RAIL)
    assert found is not None
    assert (found.code, found.where.node, found.where.peer) == ("PAIR-RETRY-EXCEEDED", "a", "b")
    assert found.evidence["vendor error"] == "0x81"


@pytest.mark.parametrize("down", ["a", "b"])
def test_a_port_that_went_down_explains_the_rest_and_blames_its_own_node(down: str) -> None:
    states = {"a": "ACTIVE", "b": "ACTIVE", down: "DOWN"}
    found = judge(
        exchange(
            report(completion_error=RETRY, port_state=states["a"]),
            report(0, completion_error=RETRY, port_state=states["b"]),
        ),
        RAIL,
    )
    assert found is not None
    assert found.code == "PORT-NOT-ACTIVE"
    assert (found.where.node, found.where.peer) == (down, None)


def test_fewer_messages_verified_than_planned_is_never_a_pass() -> None:
    with pytest.raises(ProbeError, match="1 of 2 messages of 8 bytes"):
        judge(exchange(sink=report(1, completed=True)), RAIL)


def test_every_operation_has_a_case_in_each_direction() -> None:
    names = [case.id for case in exchange_cases([PAIR])]
    assert len(names) == len(set(names)) == 6
    assert "a/mlx5_0 -> b/mlx5_1, host-host, READ" in names
    assert "b/mlx5_1 -> a/mlx5_0, host-host, READ" in names
    assert CASE.where == Where(node="a", nic="mlx5_0", peer="b")


class ScriptedWalk:
    """Stands in for a walk: gives the results, or raises the errors, that it was made with."""

    def __init__(self, *script: ExchangeResult | PeerError) -> None:
        self.script = list(script)

    def exchange(self, *_: object) -> ExchangeResult:
        step = self.script.pop(0)
        if isinstance(step, PeerError):
            raise step
        return step


BAD = exchange(sink=report(mismatch=WRONG))


def test_a_finding_that_comes_again_stands() -> None:
    found = Measurement(ScriptedWalk(BAD, BAD)).finding(CASE, PLAN)
    assert found is not None
    assert found.code == "PAIR-DATA-CORRUPT"


def test_a_finding_that_does_not_come_again_is_unstable_and_keeps_the_first() -> None:
    found = Measurement(ScriptedWalk(BAD, exchange())).finding(CASE, PLAN)
    assert found is not None
    assert found.code == "PAIR-UNSTABLE"
    assert "PAIR-DATA-CORRUPT" in found.evidence["first finding"]


def test_a_repetition_that_cannot_be_made_leaves_the_first_finding() -> None:
    gone = PeerError("lost", side="b", step="connect")
    found = Measurement(ScriptedWalk(BAD, gone)).finding(CASE, PLAN)
    assert found is not None
    assert found.code == "PAIR-DATA-CORRUPT"


def test_after_a_port_went_down_the_other_cases_of_the_rail_are_blocked_by_it() -> None:
    down = exchange(report(completion_error=RETRY, port_state="DOWN"), report(0, completed=False))
    measurement = Measurement(ScriptedWalk(down))
    assert measurement.finding(CASE, PLAN) is not None
    with pytest.raises(Blocked, match="PORT-NOT-ACTIVE at a/mlx5_0"):
        measurement.finding(CASE, PLAN)
