"""Which counters of a port are judged, and how much growth is too much.

Three classes, since "any growth" would call every long run sick:

- ``link_downed`` and the counters of ``MUST_STAND``: an event that no healthy link knows;
- those with a ``Limit``: errors that a healthy link meets now and then, so many a byte;
- all others are shown, and never judged.

What a counter means is the same with every driver that has one of its name, so the tables below
are by source and joined by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

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
        return f"at most 1 in {gigabytes(self.bytes_each)}, or fewer than {self.least}"


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
# Linux drivers/infiniband/hw/mlx5/counters.c.
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
# Those of mlx5 that are 32 bits wide and start at 0 again: all but the one that the port counts.
WRAPPING = MLX5.keys() - {"rx_icrc_encapsulated"}
WRAP = 1 << 32
# What passes the end grows by no more than this; what seems to grow by more was reset.
MOST_WRAPPED = 1 << 24
# Counters of data without their extended form stop here (PortCounters, 32 bits).
TRAFFIC_END = (1 << 32) - 1


def end_of(name: str) -> int | None:
    """The largest value of a counter that stops there; None for one that does not stop."""
    return (1 << WIDTH_BITS[name]) - 1 if name in WIDTH_BITS else None


def growth(name: str, before: int, after: int) -> int | None:
    """By how much the counter grew, also past its end; None for one that was reset."""
    if after >= before:
        return after - before
    wrapped = after - before + WRAP
    return wrapped if name in WRAPPING and 0 < wrapped <= MOST_WRAPPED else None


def gigabytes(size_bytes: int) -> str:
    """``1.5 GB``."""
    return f"{size_bytes / 1e9:g} GB"
