"""Error counters: which growth is a finding, and what cannot be told."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdrcheck.facts import CountersAfter, DeviceCounters, Unreadable
from gdrcheck.findings.model import Finding, Where
from gdrcheck.outcome import NotJudged, ProbeError
from gdrcheck.rails import Rail, resolve
from gdrcheck.rules import counter_limits, counters
from gdrcheck.rules.counter_limits import BIT_ERRORS, LIMITS, LOSSES
from gdrcheck.rules.counters import Counted, port_errors
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


@pytest.mark.parametrize("name", counter_limits.MUST_STAND)
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


def error(counted: Counted) -> str:
    with pytest.raises(ProbeError) as raised:
        port_errors(counted)
    return str(raised.value).removeprefix("node1/mlx5_0: ")


def without(counted: Counted, *, before: str = "", after: str = "") -> Counted:
    """The same, when one counter was not there at one of the two times."""
    return Counted(
        WHERE,
        {name: value for name, value in counted.before.items() if name != before},
        {name: value for name, value in counted.after.items() if name != after},
        {},
    )


@pytest.mark.parametrize("name", ["link_downed", "symbol_error", "port_rcv_data", "packet_seq_err"])
def test_a_counter_that_was_reset_is_an_error(name: str) -> None:
    counted = run({**MLX5, name: 40}, gb=0, **{name: -33})
    assert error(counted) == f"{name} was reset during the run: 40 -> 7"


def test_a_reset_of_a_counter_that_nobody_judges_says_nothing() -> None:
    assert port_errors(run(MLX5, port_xmit_wait=-10)) is None


def test_a_finding_counts_also_when_another_counter_was_reset() -> None:
    assert found(run(MLX5, symbol_error=-40, link_downed=1)).code == "PORT-LINK-DOWNED"


@pytest.mark.parametrize("name", ["link_downed", "link_error_recovery", "symbol_error"])
def test_a_counter_that_was_there_at_one_time_only_is_an_error(name: str) -> None:
    counted = run(MLX5)
    assert error(without(counted, after=name)) == f"{name} is gone after the transfers"
    assert error(without(counted, before=name)) == f"{name} was not there before the transfers"


def test_a_counter_of_32_bits_is_judged_past_its_end() -> None:
    before = {**MLX5, "packet_seq_err": 2**32 - 100}
    finding = found(run(before, packet_seq_err=5_000_100 - 2**32))
    assert finding.code == "PORT-ERROR-RATE"
    assert finding.observed == "packet_seq_err +5000100 in 1 GB"
    assert port_errors(run(before, packet_seq_err=110 - 2**32, gb=200)) is None


@pytest.mark.parametrize(
    ("name", "before"),
    [("packet_seq_err", 2**32 - counter_limits.MOST_WRAPPED - 1), ("rx_icrc_encapsulated", 2**32)],
)
def test_what_cannot_have_passed_its_end_was_reset(name: str, before: int) -> None:
    assert "was reset during the run" in error(run({**MLX5, name: before}, **{name: -before}))


@pytest.mark.parametrize(("before", "after"), [(10**9, 5), (10, 2**32 - 1)])
def test_errors_against_traffic_that_the_port_lost_count_of_are_an_error(
    before: int, after: int
) -> None:
    grown = run({**MLX5, "port_rcv_data": before}, symbol_error=500)
    counted = Counted(WHERE, grown.before, {**grown.after, "port_rcv_data": after}, {})
    assert "symbol_error +500, but no counter tells how much was transferred" in error(counted)
    still = Counted(WHERE, grown.before, {**counted.after, "symbol_error": 40}, {})
    assert after < before or port_errors(still) is None


def test_errors_against_traffic_that_cannot_be_read_are_an_error() -> None:
    grown = {"link_downed": 0, "symbol_error": 500}
    counted = Counted(WHERE, {**grown, "symbol_error": 0}, grown, {"port_rcv_data": "EIO"})
    assert "symbol_error +500, but no counter tells how much was transferred" in error(counted)


def test_errors_of_a_port_that_never_counts_traffic_are_not_judged() -> None:
    assert not_judged(run({"link_downed": 0, "symbol_error": 0}, symbol_error=500)) == (
        "symbol_error +500, but no counter tells how much was transferred"
    )


def test_a_lost_link_that_cannot_be_counted_any_more_is_an_error() -> None:
    assert error(run({**MLX5, "link_downed": 255})).startswith(
        "link_downed stands at its end, 255: clear the port's counters (perfquery "
    )


@pytest.mark.parametrize(
    ("name", "end"), [("local_link_integrity_errors", 15), ("symbol_error", 65535)]
)
def test_another_counter_at_its_end_cannot_grow_and_is_not_judged(name: str, end: int) -> None:
    assert not_judged(run({**MLX5, name: end})).startswith(
        f"{name} stands at its end, {end}, since before the run: clear "
    )


def test_a_counter_that_is_wider_than_that_is_judged() -> None:
    assert found(run({**MLX5, "link_downed": 255}, link_downed=1)).code == "PORT-LINK-DOWNED"


def test_a_device_that_does_not_count_lost_links_is_judged_by_its_other_counters() -> None:
    before = {"to_retransmits": 0, "rx_bytes": 0, "tx_bytes": 0}
    assert port_errors(run(before)) is None
    assert not run(before).counts_link_downed
    assert run(MLX5).counts_link_downed
    assert Counted(WHERE, before, before, {"link_downed": "EIO"}).counts_link_downed
    assert found(run(before, to_retransmits=101)).code == "PORT-ERROR-RATE"


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
        (after(unreadable_counters={"link_downed": "EIO"}), "link_downed is unreadable: EIO"),
    ],
)
def test_what_cannot_be_read_is_an_error(changed: CountersAfter, message: str) -> None:
    with pytest.raises(ProbeError, match=message):
        port_errors(counters.counted(rail(), changed))


def test_a_counter_that_nobody_judges_may_be_unreadable() -> None:
    changed = after(unreadable_counters={"port_xmit_wait": "EIO"})
    assert port_errors(counters.counted(rail(), changed)) is None


VALUES = st.dictionaries(
    st.sampled_from([*counter_limits.JUDGED, "port_xmit_data", "port_rcv_data", "other"]),
    st.integers(0, 2**64),
)


def passes(counted: Counted) -> bool:
    try:
        return port_errors(counted) is None
    except (NotJudged, ProbeError):
        return False


@given(before=VALUES, after=VALUES)
def test_what_passes_was_there_all_the_time_and_stood(
    before: dict[str, int], after: dict[str, int]
) -> None:
    counted = Counted(WHERE, before, after, {})
    if passes(counted):
        judged = [name for name in counter_limits.JUDGED if name in before or name in after]
        assert judged
        assert all(
            counter_limits.growth(name, before[name], after[name]) is not None for name in judged
        )
        assert not counted.grown.keys() & {"link_downed", *counter_limits.MUST_STAND}
        assert before.get("link_downed") == after.get("link_downed") != 255


@given(before=st.integers(0, 2**32 - 1), count=st.integers(0, counter_limits.MOST_WRAPPED))
def test_growth_is_the_same_before_and_past_the_end(before: int, count: int) -> None:
    after = (before + count) % 2**32
    assert counter_limits.growth("packet_seq_err", before, after) == count


def test_a_name_means_the_same_in_every_table() -> None:
    tables = (
        counter_limits.CORE,
        counter_limits.MLX5,
        counter_limits.BNXT_RE,
        counter_limits.RXE,
    )
    names = [name for table in tables for name in table]
    assert len(names) == len(set(names))
    assert not set(names) & {counter_limits.LINK_DOWNED, *counter_limits.MUST_STAND}


def test_one_packet_in_a_hundred_lost_by_rxe_is_a_finding_though_all_data_was_right() -> None:
    """What a short run of the lab over ``tc netem loss 1%`` counts: 40 MB in packets of 1 KiB."""
    lost = 400
    before = {**RXE, "rcvd_seq_err": 0, "out_of_seq_request": 0}
    counted = run(
        before, gb=0.16, completer_retry_err=3, rcvd_seq_err=lost, out_of_seq_request=lost
    )
    finding = found(counted)
    assert finding.code == "PORT-ERROR-RATE"
    assert f"rcvd_seq_err +{lost}" in finding.observed
