"""Error counters: which growth is a finding, and what cannot be told."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdrcheck.facts import CountersAfter, DeviceCounters, Unreadable
from gdrcheck.findings.model import Finding, Where
from gdrcheck.outcome import NotJudged, ProbeError
from gdrcheck.rails import Rail, resolve
from gdrcheck.rules import counters
from gdrcheck.rules.counters import BIT_ERRORS, LIMITS, LOSSES, Counted, port_errors
from tests import facts

WHERE = Where(node="node1", nic="mlx5_0")
GB = 1_000_000_000
# What a port of each kind counts: (all at rest, with the traffic of a run).
MLX5 = {
    "link_downed": 2,
    "link_error_recovery": 1,
    "local_link_integrity_errors": 0,
    "excessive_buffer_overrun_errors": 0,
    "symbol_error": 40,
    "port_rcv_errors": 3,
    "port_xmit_wait": 10,
    "port_xmit_data": 1000,
    "port_rcv_data": 1000,
    "local_ack_timeout_err": 5,
    "out_of_sequence": 77,
    "duplicate_request": 12,
}
RXE = {"link_downed": 1, "completer_retry_err": 0, "sent_pkts": 10, "rcvd_pkts": 10}


def run(before: dict[str, int], *, gb: float = 1, **grown: int) -> Counted:
    """The counters of a port that carried ``gb`` GB in all, and others that grew."""
    after = dict(before)
    if "port_xmit_data" in before:
        after["port_xmit_data"] += int(gb * GB / 8)
        after["port_rcv_data"] += int(gb * GB / 8)
    if "sent_pkts" in before:
        after["sent_pkts"] += int(gb * GB / 4096)
    for name, value in grown.items():
        after[name] = before.get(name, 0) + value
    return Counted(WHERE, before, after, {})


def found(counted: Counted) -> Finding:
    """The finding, which must be there."""
    finding = port_errors(counted)
    assert finding is not None
    assert finding.where == WHERE
    return finding


@pytest.mark.parametrize("before", [MLX5, RXE], ids=["mlx5", "rxe"])
def test_traffic_alone_is_no_finding(before: dict[str, int]) -> None:
    assert port_errors(run(before, gb=100)) is None


@pytest.mark.parametrize("before", [MLX5, RXE], ids=["mlx5", "rxe"])
def test_a_link_that_went_down_is_named_whatever_else_grew(before: dict[str, int]) -> None:
    finding = found(run(before, link_downed=1, symbol_error=500, link_error_recovery=1))
    down = before["link_downed"]
    assert finding.code == "PORT-LINK-DOWNED"
    assert finding.observed == f"link_downed {down} -> {down + 1}"
    assert "link_error_recovery" in finding.evidence["grown since the facts were read"] or (
        "link_error_recovery" not in before
    )


@pytest.mark.parametrize("name", counters.MUST_STAND)
def test_what_must_stand_may_not_grow_by_one(name: str) -> None:
    finding = found(run(MLX5, gb=1000, **{name: 1}))
    assert finding.code == "PORT-ERRORS-GREW"
    assert finding.observed == f"{name} {MLX5[name]} -> {MLX5[name] + 1}"


@pytest.mark.parametrize(
    ("name", "count", "gb"),
    [
        ("symbol_error", 10, 1),
        ("symbol_error", 9, 1),
        ("symbol_error", 10, 1250),
        ("symbol_error", 11, 1250),
        ("local_ack_timeout_err", 99, 0.05),
        ("local_ack_timeout_err", 100, 0.05),
        ("local_ack_timeout_err", 100, 100),
        ("local_ack_timeout_err", 101, 100),
        ("out_of_sequence", 9_999, 1),
        ("out_of_sequence", 10_001, 1),
        ("port_xmit_wait", 10**9, 1),
    ],
)
def test_errors_are_judged_by_byte_and_from_a_least_count(name: str, count: int, gb: float) -> None:
    limit = LIMITS.get(name)
    counted = run(MLX5, gb=gb, **{name: count})
    expected = limit is not None and count >= limit.least and count / gb > GB / limit.bytes_each
    finding = port_errors(counted)
    assert (finding is not None) == expected
    if finding is not None:
        assert finding.code == "PORT-ERROR-RATE"
        assert f"{name} +{count} in {gb:g} GB" in finding.observed


def test_both_ends_of_the_limits_are_met_above() -> None:
    assert (BIT_ERRORS.bytes_each, BIT_ERRORS.least) == (125 * GB, 10)
    assert (LOSSES.bytes_each, LOSSES.least) == (GB, 100)


def test_retries_of_a_software_device_count_by_its_packets() -> None:
    assert port_errors(run(RXE, gb=0.05, completer_retry_err=99)) is None
    finding = found(run(RXE, gb=0.05, completer_retry_err=200))
    assert finding.code == "PORT-ERROR-RATE"


def test_a_partner_that_died_is_not_charged_to_this_port() -> None:
    # Seven retries for the exchange and seven for its repetition, on each of four partners.
    assert port_errors(run(MLX5, gb=0.01, local_ack_timeout_err=4 * 14)) is None


def not_judged(counted: Counted) -> str:
    with pytest.raises(NotJudged) as raised:
        port_errors(counted)
    return str(raised.value)


def test_a_counter_that_was_reset_is_not_judged() -> None:
    assert not_judged(run(MLX5, symbol_error=-40)) == (
        "symbol_error was reset during the run: 40 -> 0"
    )


def test_a_finding_counts_also_when_another_counter_was_reset() -> None:
    assert found(run(MLX5, symbol_error=-40, link_downed=1)).code == "PORT-LINK-DOWNED"


def test_errors_without_a_measure_of_traffic_are_not_judged() -> None:
    reset = run({**MLX5, "port_rcv_data": 10**9}, symbol_error=500)
    reset = Counted(WHERE, reset.before, {**reset.after, "port_rcv_data": 5}, {})
    assert not_judged(reset) == ("symbol_error +500, but no counter tells how much was transferred")


@pytest.mark.parametrize(
    ("name", "end"),
    [("link_downed", 255), ("local_link_integrity_errors", 15), ("symbol_error", 65535)],
)
def test_a_counter_at_its_end_cannot_grow_and_is_not_judged(name: str, end: int) -> None:
    assert not_judged(run({**MLX5, name: end})) == (
        f"{name} stands at its end, {end}, since before the run"
    )


def test_a_counter_that_is_wider_than_that_is_judged() -> None:
    assert found(run({**MLX5, "link_downed": 255}, link_downed=1)).code == "PORT-LINK-DOWNED"


def test_a_counter_that_is_gone_is_not_judged() -> None:
    counted = run(MLX5)
    del counted.after["link_downed"]  # type: ignore[attr-defined]
    assert not_judged(counted) == "link_downed is gone"


def test_a_port_without_any_judged_counter_is_not_judged() -> None:
    assert not_judged(run({"port_xmit_data": 0, "port_rcv_data": 0})) == (
        "the port has none of the counters that are judged"
    )
    assert "none of the counters" in not_judged(run({}))


def rail() -> Rail:
    return resolve(facts.profile(), facts.facts())[0]


def after(**changes: object) -> CountersAfter:
    values = {"device": "mlx5_0", "port": 1, "counters": {"link_downed": 0, "symbol_error": 4}}
    return CountersAfter(node="node1", ports=(DeviceCounters.model_validate(values | changes),))


def test_the_counters_are_those_of_the_rails_port() -> None:
    counted = counters.counted(rail(), after())
    assert counted.grown == {"symbol_error": 4}
    assert port_errors(counted) is None


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (after(port=2), "sysfs shows no port 1 any more"),
        (after(device="mlx5_1"), "sysfs shows no port 1 any more"),
        (after(counters=Unreadable(unreadable="counters: EIO")), "unreadable: counters: EIO"),
        (
            CountersAfter(node="node1", ports=Unreadable(unreadable="infiniband: EACCES")),
            "unreadable: infiniband: EACCES",
        ),
        (after(unreadable_counters={"link_downed": "EIO"}), "link_downed: EIO"),
    ],
)
def test_what_cannot_be_read_is_an_error(changed: CountersAfter, message: str) -> None:
    with pytest.raises(ProbeError, match=message):
        port_errors(counters.counted(rail(), changed))


def test_a_counter_that_nobody_judges_may_be_unreadable() -> None:
    changed = after(unreadable_counters={"port_xmit_wait": "EIO"})
    assert port_errors(counters.counted(rail(), changed)) is None


VALUES = st.dictionaries(
    st.sampled_from([*counters.JUDGED, "port_xmit_data", "port_rcv_data", "other"]),
    st.integers(0, 2**64),
)


def passes(counted: Counted) -> bool:
    try:
        return port_errors(counted) is None
    except NotJudged:
        return False


@given(before=VALUES, after=VALUES)
def test_what_passes_was_there_all_the_time_and_stood(
    before: dict[str, int], after: dict[str, int]
) -> None:
    counted = Counted(WHERE, before, after, {})
    if passes(counted):
        judged = [name for name in counters.JUDGED if name in before]
        assert judged
        assert all(after[name] >= before[name] for name in judged)
        assert not counted.grown.keys() & {"link_downed", *counters.MUST_STAND}


def test_a_name_means_the_same_in_every_table() -> None:
    tables = (counters.CORE, counters.MLX5, counters.BNXT_RE, counters.RXE)
    names = [name for table in tables for name in table]
    assert len(names) == len(set(names))
    assert not set(names) & {counters.LINK_DOWNED, *counters.MUST_STAND}
