"""What an exchange proves: the finding, the end that it names, and when it is no finding."""

from __future__ import annotations

from typing import Any

import pytest

from gdrcheck import gates
from gdrcheck.findings.model import Where
from gdrcheck.mismatch import Mismatch
from gdrcheck.outcome import Blocked, PeerError, ProbeError
from gdrcheck.pairing.cases import ExchangeCase, Measurement, exchange_cases
from gdrcheck.pairing.channel import EndFailure
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
    # The check of the counters at that node finds the very same: a report shows it once.
    assert found == gates.port_went_down(found.where, "DOWN")


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
LOSSY = exchange(report(completion_error=RETRY), report(0, stopped_by_peer=True))


def test_a_finding_that_comes_again_stands() -> None:
    found = Measurement(ScriptedWalk(BAD, BAD)).finding(CASE, PLAN)
    assert found is not None
    assert found.code == "PAIR-DATA-CORRUPT"


def test_a_finding_that_does_not_come_again_is_unstable_and_keeps_the_first() -> None:
    found = Measurement(ScriptedWalk(LOSSY, exchange())).finding(CASE, PLAN)
    assert found is not None
    assert found.code == "PAIR-UNSTABLE"
    assert "PAIR-RETRY-EXCEEDED" in found.evidence["first finding"]


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"mismatch": WRONG}, "PAIR-DATA-CORRUPT"),
        ({"guard_broken": "guard after the payload"}, "PAIR-GUARD-BROKEN"),
    ],
)
def test_wrong_data_seen_once_stays_that_and_says_that_the_repetition_was_right(
    changes: dict[str, Any], code: str
) -> None:
    first = exchange(sink=report(**changes))
    found = Measurement(ScriptedWalk(first, exchange())).finding(CASE, PLAN)
    assert found is not None
    assert (found.code, found.evidence["repetition"]) == (code, "right")


def test_wrong_data_in_the_repetition_is_not_hidden_by_the_first_finding() -> None:
    found = Measurement(ScriptedWalk(LOSSY, BAD)).finding(CASE, PLAN)
    assert found is not None
    assert found.code == "PAIR-DATA-CORRUPT"
    assert "PAIR-RETRY-EXCEEDED" in found.evidence["first finding"]


UNMEASURED = ExchangeResult(
    "SEND", "out", PLAN, 1024, EndReport("a", report(0, stopped_by_peer=True)),
    EndReport("b", None, protocol.ErrorInfo(step="go", text="no memory")),
)  # fmt: skip


@pytest.mark.parametrize("again", [PeerError("lost", side="b", step="connect"), UNMEASURED])
@pytest.mark.parametrize("code", ["PAIR-DATA-CORRUPT", "PAIR-RETRY-EXCEEDED"])
def test_a_repetition_that_cannot_be_measured_leaves_the_first_finding(
    again: ExchangeResult | PeerError, code: str
) -> None:
    first = BAD if code == "PAIR-DATA-CORRUPT" else LOSSY
    found = Measurement(ScriptedWalk(first, again)).finding(CASE, PLAN)
    assert found is not None
    assert found.code == code
    assert "not measured" in found.evidence["repetition"]


@pytest.mark.parametrize("state", ["DOWN", "ACTIVE_DEFER", "unreadable: gone"])
def test_no_state_of_a_port_excuses_wrong_data(state: str) -> None:
    found = judge(exchange(sink=report(mismatch=WRONG, port_state=state)), RAIL)
    assert found is not None
    assert found.code == "PAIR-DATA-CORRUPT"


def refused(side: str, step: str, number: int | None = None) -> EndFailure:
    info = protocol.ErrorInfo(step=step, errno=number, text=f"{step}: no")
    return EndFailure(f"{side}: {step}", side=side, step=step, error=info)


TO_RTR = f"{protocol.MODIFY_QP} INIT to RTR, towards ::1 from ::2"


@pytest.mark.parametrize(("side", "peer"), [("a", "b"), ("b", "a")])
def test_a_connection_that_fails_names_the_end_the_step_and_the_errno(side: str, peer: str) -> None:
    failure = refused(side, TO_RTR, 110)
    found = Measurement(ScriptedWalk(failure, failure)).finding(CASE, PLAN)
    assert found is not None
    assert (found.code, found.where.node, found.where.peer) == ("PAIR-CONNECT-FAILED", side, peer)
    assert "INIT to RTR" in found.evidence["step"]
    assert found.evidence["errno"] == "ETIMEDOUT"


def test_a_connection_that_fails_once_is_unstable() -> None:
    found = Measurement(ScriptedWalk(refused("a", TO_RTR, 110), exchange())).finding(CASE, PLAN)
    assert found is not None
    assert found.code == "PAIR-UNSTABLE"


@pytest.mark.parametrize(
    "failure",
    [
        EndFailure("b: child hangs", side="b", step="connect"),
        refused("b", "connect"),
        refused("b", "ibv_reg_mr of 4096 B", 12),
        refused("c", TO_RTR, 110),
    ],
    ids=["no report", "no errno", "another step", "a stranger"],
)
def test_what_is_no_refused_connection_stays_an_error(failure: EndFailure) -> None:
    with pytest.raises(EndFailure):
        Measurement(ScriptedWalk(failure)).finding(CASE, PLAN)


def test_a_port_below_the_promised_mtu_fails_one_case_and_blocks_the_others() -> None:
    measurement = Measurement(ScriptedWalk(refused("b", protocol.MTU_HERE)))
    found = measurement.finding(CASE, PLAN)
    assert found is not None
    assert (found.code, found.where.text()) == ("PAIR-MTU", "b/mlx5_1")
    with pytest.raises(Blocked, match="PAIR-MTU at b/mlx5_1"):
        measurement.finding(CASE, PLAN)


def test_an_end_that_offers_less_than_the_other_was_promised_is_named() -> None:
    failure = refused("a", protocol.MTU_THERE)
    found = Measurement(ScriptedWalk(failure, failure)).finding(CASE, PLAN)
    assert found is not None
    assert (found.code, found.where.node, found.where.peer) == ("PAIR-MTU", "b", "a")


def test_a_case_that_was_not_measured_keeps_nothing_of_the_last_one() -> None:
    measurement = Measurement(ScriptedWalk(exchange(), PeerError("lost", side="b", step="go")))
    assert measurement.finding(CASE, PLAN) is None
    assert measurement.last is not None
    with pytest.raises(PeerError):
        measurement.finding(CASE, PLAN)
    assert measurement.last is None


def test_after_a_port_went_down_the_other_cases_of_the_rail_are_blocked_by_it() -> None:
    down = exchange(report(completion_error=RETRY, port_state="DOWN"), report(0, completed=False))
    measurement = Measurement(ScriptedWalk(down))
    assert measurement.finding(CASE, PLAN) is not None
    with pytest.raises(Blocked, match="PORT-NOT-ACTIVE at a/mlx5_0"):
        measurement.finding(CASE, PLAN)


def test_a_port_that_went_down_is_the_same_port_whatever_gpu_the_rail_has() -> None:
    rail = RailPair(0, RailEnd("a", "gpu0", "mlx5_0"), RailEnd("b", "gpu0", "mlx5_1"))
    case = ExchangeCase(OwnedPair(0, "b", (rail,)), rail, "SEND", "out")
    down = exchange(report(completion_error=RETRY, port_state="DOWN"), report(0, completed=False))
    measurement = Measurement(ScriptedWalk(down))
    found = measurement.finding(case, PLAN)
    assert found == gates.port_went_down(Where(node="a", nic="mlx5_0"), "DOWN")
    with pytest.raises(Blocked, match="PORT-NOT-ACTIVE at a/mlx5_0"):
        measurement.finding(case, PLAN)
