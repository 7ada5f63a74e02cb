"""What is judged of a port's error counters, before the transfers against after them.

Three classes, since "any growth" would call every long run sick:

- ``link_downed`` and the counters of ``must_stand``: an event that no healthy link knows;
- those with a ``Limit``: errors that a healthy link meets now and then, so many a byte;
- all others are shown, and never judged.

What a counter means is the same with every driver that has one of its name, so the tables below
are by source and joined by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gdrcheck import gates
from gdrcheck.facts import CountersAfter
from gdrcheck.findings.model import Finding, Where
from gdrcheck.outcome import NotJudged, ProbeError
from gdrcheck.rails import Rail

LINK_DOWNED = "link_downed"


@dataclass(frozen=True, slots=True)
class Limit:
    """Too many are more than one in ``bytes_each`` bytes; fewer than ``least`` are never too many.

    ``bytes_each`` is of what the port sent and received together. ``least`` keeps a short run,
    which transfers little, from raising an alarm over a few events.
    """

    bytes_each: int
    least: int

    def exceeded(self, count: int, transferred_bytes: int) -> bool:
        """Whether ``count`` errors in so many bytes are too many."""
        return count >= self.least and count * self.bytes_each > transferred_bytes

    def text(self) -> str:
        """The limit in words."""
        return f"at most 1 in {_gigabytes(self.bytes_each)}, or fewer than {self.least}"


# A link may get one bit in 10^12 wrong, which is one in 125 GB: the InfiniBand specification's
# bound, and the default threshold of ibdiagnet's bit error test. 10 is the default threshold for
# SymbolErrorCounter and PortRcvErrors in infiniband-diags (etc/error_thresholds).
BIT_ERRORS = Limit(bytes_each=125_000_000_000, least=10)
# A lossless fabric loses nothing, and our pairs are disjoint, so nothing of ours congests it. One
# loss in 1 GB is 4 in a million packets of 4 KiB: from about there on retransmission costs
# bandwidth. A partner that dies costs its 7 retries, and as many again when the exchange is
# repeated: that is its own finding, so 100 leaves room for several such partners.
LOSSES = Limit(bytes_each=1_000_000_000, least=100)
# Counts packets, not losses: after each loss, whatever was in flight (about 100 packets, 400 KB at
# 400 Gb/s and 10 us) arrives out of sequence or twice. So a hundred times what LOSSES allows.
REPEATED_PACKETS = Limit(bytes_each=LOSSES.bytes_each // 100, least=100 * LOSSES.least)

# name -> width in bits at which the counter stops: PortCounters of the InfiniBand specification,
# as in Linux drivers/infiniband/core/sysfs.c (PORT_PMA_ATTR).
WIDTH_BITS = {
    LINK_DOWNED: 8,
    "link_error_recovery": 8,
    "local_link_integrity_errors": 4,
    "excessive_buffer_overrun_errors": 4,
    "symbol_error": 16,
    "port_rcv_errors": 16,
}
MUST_STAND = (
    "link_error_recovery",
    "local_link_integrity_errors",
    "excessive_buffer_overrun_errors",
)
# counters/ of every device with a performance agent. Linux Documentation/ABI/stable/
# sysfs-class-infiniband.
CORE = {"symbol_error": BIT_ERRORS, "port_rcv_errors": BIT_ERRORS}
# Linux drivers/infiniband/hw/mlx5/counters.c, 32 bits wide, starting at 0 again after that.
MLX5 = {
    "rx_icrc_encapsulated": BIT_ERRORS,
    "local_ack_timeout_err": LOSSES,
    "packet_seq_err": LOSSES,
    "implied_nak_seq_err": LOSSES,
    "rnr_nak_retry_err": LOSSES,
    "roce_adp_retrans": LOSSES,
    "roce_adp_retrans_to": LOSSES,
    "out_of_sequence": REPEATED_PACKETS,
    "duplicate_request": REPEATED_PACKETS,
}
# Linux drivers/infiniband/hw/bnxt_re/hw_counters.c.
BNXT_RE = {
    "rx_roce_errors": BIT_ERRORS,
    "to_retransmits": LOSSES,
    "seq_err_naks_rcvd": LOSSES,
    "missing_resp": LOSSES,
    "rnr_naks_rcvd": LOSSES,
    "dup_req": REPEATED_PACKETS,
    "oos_drop_count": REPEATED_PACKETS,
}
# Linux drivers/infiniband/sw/rxe/rxe_hw_counters.c; its duplicate_request is that of mlx5.
RXE = {
    "completer_retry_err": LOSSES,
    "rcvd_seq_err": LOSSES,
    "rcvd_rnr_err": LOSSES,
    "out_of_seq_request": REPEATED_PACKETS,
}
LIMITS: Mapping[str, Limit] = {**CORE, **MLX5, **BNXT_RE, **RXE}
# Counters of data, each with the bytes that one count stands for; the first pair that a port has
# is taken. The core counts words of 4 bytes. rxe counts packets: each is taken for the largest
# that there is, which makes a rate too small rather than too large.
TRAFFIC = (
    {"port_xmit_data": 4, "port_rcv_data": 4},
    {"tx_bytes": 1, "rx_bytes": 1},
    {"sent_pkts": 4096, "rcvd_pkts": 4096},
)
JUDGED = (LINK_DOWNED, *MUST_STAND, *LIMITS)


@dataclass(frozen=True, slots=True)
class Counted:
    """The counters of the port at ``where``, before the transfers and after them.

    ``unreadable`` are those that could not be read at one of the two times, with the reason.
    """

    where: Where
    before: Mapping[str, int]
    after: Mapping[str, int]
    unreadable: Mapping[str, str]

    @property
    def grown(self) -> dict[str, int]:
        """By how much each counter grew, by name; those that did not are left out."""
        return {
            name: value - self.before[name]
            for name, value in sorted(self.after.items())
            if name in self.before and value > self.before[name]
        }

    @property
    def transferred_bytes(self) -> int | None:
        """What the port sent and received in between; None when its counters do not tell."""
        for pair in TRAFFIC:
            if all(name in self.before and name in self.after for name in pair):
                moved = {name: self.after[name] - self.before[name] for name in pair}
                if min(moved.values()) < 0:
                    return None
                return sum(moved[name] * size for name, size in pair.items())
        return None


def counted(rail: Rail, after: CountersAfter) -> Counted:
    """The counters of the port that serves ``rail``: those of its facts, and ``after``.

    ProbeError when they could not be read, before or after.
    """
    port = gates.port_of(rail)
    before = gates.readable(port.counters, rail.where, "counters before the transfers")
    what = "counters after the transfers"
    for found in gates.readable(after.ports, rail.where, what):
        if (found.device, found.port) == (rail.nic, port.number):
            values = gates.readable(found.counters, rail.where, what)
            unreadable = {**port.unreadable_counters, **found.unreadable_counters}
            return Counted(rail.where, before, values, unreadable)
    raise ProbeError(
        f"{rail.where.text()}: sysfs shows no port {port.number} any more", step="read counters"
    )


def port_errors(counted: Counted) -> Finding | None:
    """PORT-LINK-DOWNED, PORT-ERRORS-GREW or PORT-ERROR-RATE, the first that applies.

    One finding, since a link that goes down grows the other counters too; they are its evidence.
    ProbeError when a counter could not be read. NotJudged when one cannot tell whether it grew
    (it was reset during the run, is gone, or was at its end before), or when the port has none
    that is judged.
    """
    finding = _link_downed(counted) or _grew(counted) or _rate(counted)
    if finding is not None:
        return finding
    failed = [
        f"{name}: {counted.unreadable[name]}" for name in JUDGED if name in counted.unreadable
    ]
    if failed:
        raise ProbeError(
            f"{counted.where.text()}: counters are unreadable: {'; '.join(failed)}",
            step="read counters",
        )
    if doubts := _doubts(counted):
        raise NotJudged("; ".join(doubts))
    return None


def _link_downed(counted: Counted) -> Finding | None:
    if LINK_DOWNED not in counted.grown:
        return None
    before, after = counted.before[LINK_DOWNED], counted.after[LINK_DOWNED]
    return _finding(
        "PORT-LINK-DOWNED",
        counted,
        observed=f"{LINK_DOWNED} {before} -> {after}",
        expected=f"{LINK_DOWNED} stays {before}",
    )


def _grew(counted: Counted) -> Finding | None:
    names = [name for name in MUST_STAND if name in counted.grown]
    if not names:
        return None
    moves = (f"{name} {counted.before[name]} -> {counted.after[name]}" for name in names)
    return _finding(
        "PORT-ERRORS-GREW", counted, observed=", ".join(moves), expected="no growth of any of them"
    )


def _rate(counted: Counted) -> Finding | None:
    grown, transferred_bytes = counted.grown, counted.transferred_bytes
    if transferred_bytes is None:
        return None
    names = [
        name
        for name, limit in LIMITS.items()
        if name in grown and limit.exceeded(grown[name], transferred_bytes)
    ]
    if not names:
        return None
    counts = ", ".join(f"{name} +{grown[name]}" for name in names)
    return _finding(
        "PORT-ERROR-RATE",
        counted,
        observed=f"{counts} in {_gigabytes(transferred_bytes)}",
        expected=", ".join(f"{name} {LIMITS[name].text()}" for name in names),
    )


def _finding(code: str, counted: Counted, *, observed: str, expected: str) -> Finding:
    grown = ", ".join(f"{name} +{value}" for name, value in counted.grown.items())
    return Finding(
        code=code,
        where=counted.where,
        observed=observed,
        expected=expected,
        evidence={"grown since the facts were read": grown},
    )


def _doubts(counted: Counted) -> list[str]:
    """Why counters that showed no error cannot be taken for ones that stood still."""
    before, after, grown = counted.before, counted.after, counted.grown
    names = [name for name in JUDGED if name in before]
    doubts = [] if names else ["the port has none of the counters that are judged"]
    for name in names:
        if name not in after:
            doubts.append(f"{name} is gone")
        elif after[name] < before[name]:
            doubts.append(f"{name} was reset during the run: {before[name]} -> {after[name]}")
        elif name in WIDTH_BITS and before[name] == after[name] == _end(name):
            doubts.append(f"{name} stands at its end, {after[name]}, since before the run")
    if counted.transferred_bytes is None:
        doubts += [
            f"{name} +{grown[name]}, but no counter tells how much was transferred"
            for name, limit in LIMITS.items()
            if grown.get(name, 0) >= limit.least
        ]
    return doubts


def _end(name: str) -> int:
    return (1 << WIDTH_BITS[name]) - 1


def _gigabytes(size_bytes: int) -> str:
    return f"{size_bytes / 1e9:g} GB"
