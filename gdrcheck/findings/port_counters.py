"""Codes about the error counters of ports."""

from __future__ import annotations

from gdrcheck.findings.model import Entry

ENTRIES: tuple[Entry, ...] = (
    Entry(
        code="PORT-LINK-DOWNED",
        title="A link went down during the run",
        meaning=(
            "The port's counter link_downed is larger after the transfers than before them: the "
            "link was lost and came back. Whatever ran at that moment was interrupted, and it will "
            "happen again in production."
        ),
        evidence=(
            "link_downed of the port when the facts were read and after the last round, and all "
            "other counters that grew in between."
        ),
        causes=(
            "Cable or transceiver is marginal, dirty or not fully seated.",
            "The far end (switch port, or the other NIC) was restarted or flaps.",
            "Somebody took the interface down and up, or a service reconfigured it, meanwhile.",
            "The NIC restarted after an error of its firmware.",
        ),
        repair=(
            "Find the moment: `dmesg -T | grep -i -E 'link (up|down)'`, and the switch's log.",
            "Look for a reset of the NIC: `dmesg -T | grep -i -E 'mlx5|health|fatal'`.",
            "Reseat cable and transceiver; read their state: `mlxlink -d DEVICE -m`, or "
            "`ethtool -m IFACE`.",
            "Swap the cable with a good neighbour's and see whether the fault moves.",
            "Run again until link_downed stands still.",
        ),
        source="Linux Documentation/ABI/stable/sysfs-class-infiniband (link_downed), Linux "
        "drivers/infiniband/sw/rxe/rxe_hw_counters.c, perfquery(8)",
    ),
    Entry(
        code="PORT-ERRORS-GREW",
        title="Error counters that must stand still grew during the run",
        meaning=(
            "The link had to recover from errors (link_error_recovery), met more errors than its "
            "threshold (local_link_integrity_errors), or the port's input buffer ran over "
            "(excessive_buffer_overrun_errors). A healthy link never does, however much it carries."
        ),
        evidence="The counters of the port when the facts were read and after the last round.",
        causes=(
            "Cable or transceiver is marginal, dirty or not fully seated.",
            "The far end's transmitter is weak.",
            "Buffer overruns: flow control, virtual lanes or buffer sizes differ between the ends.",
            "The NIC or the switch port is failing.",
        ),
        repair=(
            "Read the quality of the link: `mlxlink -d DEVICE -c -e`.",
            "Reseat cable and transceiver, clean optical connectors.",
            "Swap the cable with a good neighbour's and see whether the fault moves.",
            "Buffer overruns: compare the operational virtual lanes of both ends "
            "(`smpquery -C DEVICE -P PORT -D portinfo 0 PORT | grep VL`) and the configuration of "
            "the subnet manager.",
            "Clear the counters, which stand still at their largest value "
            "(`perfquery -C DEVICE -P PORT -R`), and run again.",
        ),
        source="InfiniBand Architecture Specification vol. 1, PortCounters; Linux "
        "Documentation/ABI/stable/sysfs-class-infiniband; perfquery(8), smpquery(8)",
    ),
    Entry(
        code="PORT-ERROR-RATE",
        title="A port had more errors than so many bytes allow",
        meaning=(
            "Errors that a healthy link meets now and then came too often for what was "
            "transferred: more than one bit error in 10^12 bits, or more than one lost packet in "
            "1 GB. Every one is repaired by repeating, so data is right, but bandwidth is lost. "
            "A few events in a short run are not judged."
        ),
        evidence=(
            "The growth of the counters between the facts and the end of the last round, and the "
            "growth of the port's data counters in the same time."
        ),
        causes=(
            "symbol_error, port_rcv_errors, rx_icrc_encapsulated: cable or transceiver is "
            "marginal, or damages packets.",
            "RoCE, out_of_sequence, packet_seq_err: packets are dropped on the way, since priority "
            "flow control is not on everywhere for this traffic class.",
            "local_ack_timeout_err: answers come too late or not at all, by congestion, a pause "
            "storm, or a partner that died (then there is a finding about it).",
            "rnr_nak_retry_err: the receiver had no buffer posted, since its process is too slow.",
            "Other traffic on the same port during the run.",
        ),
        repair=(
            "Look at which counters grew, on both ends and on the switch port between them.",
            "Bit errors: read the quality of the link (`mlxlink -d DEVICE -c -e`), reseat or "
            "swap the cable.",
            "Lost packets: compare traffic class, priority flow control and ECN of the NIC "
            "(`mlnx_qos -i IFACE`, or `dcb pfc show dev IFACE`) with the switch.",
            "Look for drops and pause frames: "
            "`ethtool -S IFACE | grep -i -E 'discard|pause|drop'`.",
            "Repeat with no other traffic on the port.",
        ),
        source="infiniband-diags etc/error_thresholds (10), ibdiagnet's manual (BER threshold "
        "10^-12), Linux drivers/infiniband/hw/mlx5/counters.c; the limit for lost packets is "
        "gdrcheck's own choice",
    ),
)
