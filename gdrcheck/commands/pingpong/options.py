"""The options of ``pingpong``. Light: every help text needs this.

Where perftest has a flag for the same thing, it has the same letter here.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from gdrcheck.commands.pingpong import option_types as of
from gdrcheck.facts.base import DEVICE_NAME_PATTERN
from gdrcheck.run import DEFAULT_PORT, NODE_NAME_PATTERN
from gdrcheck.transfer import ATOMICS, MODES, OPERATIONS

EXAMPLES = """\
examples:
  gdrcheck pingpong --listen                     on one machine; prints a token
  GDRCHECK_TOKEN=... gdrcheck pingpong node2     on the other; prints the result
  gdrcheck pingpong node2 -d mlx5_3 --gpu 2 --method dmabuf
  gdrcheck pingpong node2 --modes host-host      without GPUs
  gdrcheck pingpong node2 -s 64K,1M -n 100 --operations WRITE,READ --numbers

Both ends must be of the same version of gdrcheck. Each end chooses its own GPU and NIC; what is
measured, and marked how, the caller says for both. Every byte is verified, by the GPU and by the
CPU. docs/pingpong.md shows what to expect.

exit codes of the caller: 0 every byte right, 1 something measured is wrong, 2 not everything could
be measured, or wrong input. Of the listener: 0 it served a caller to the end, who has the result;
2 it did not; 1 it found its own end unusable. Of both: 3 a bug in gdrcheck, 130 interrupted.
"""
DEFAULT_TIMEOUT_S = 600.0
# Less would leave the waits inside of it too short for busy machines.
LEAST_TIMEOUT_OF_CALLER_S = 10.0
# What hand_messages allows.
MAX_ITERATIONS = 1000
MAX_QUEUE_PAIRS = 16
MTUS = (256, 512, 1024, 2048, 4096)
# What only the caller says, as a user may have typed it. The listener is told by the caller.
OF_CALLER = {
    "size": "-s/--size",
    "iterations": "-n/--iterations",
    "modes": "--modes",
    "operations": "--operations",
    "numbers": "--numbers",
    "tclass": "-T/--tclass",
    "mtu": "-m/--mtu",
    "qp": "-q/--qp",
}


def add_pingpong(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``gdrcheck pingpong`` to ``parser``."""
    parser.epilog = EXAMPLES
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.usage = "gdrcheck pingpong [options] (--listen [ADDRESS] | HOST)"
    who = parser.add_mutually_exclusive_group(required=True)
    who.add_argument(
        "host",
        nargs="?",
        type=of.host,
        metavar="HOST",
        help="call the listener there: its name or its address",
    )
    who.add_argument(
        "--listen",
        nargs="?",
        const="0.0.0.0",
        type=of.own_address,
        metavar="ADDRESS",
        help="wait for a caller (default: on every IPv4 address; all of IPv6 is ::)",
    )
    _add_end(parser.add_argument_group("this end: its GPU, its NIC, the way to the other end"))
    _add_measured(parser.add_argument_group("what is measured; only the caller says it"))


def _add_end(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "-d",
        "--device",
        "--ib-dev",
        type=of.matching(DEVICE_NAME_PATTERN, "an RDMA device such as mlx5_0"),
        metavar="NIC",
        help="RDMA device (default: the one closest to the GPU)",
    )
    group.add_argument(
        "-i",
        "--ib-port",
        type=of.whole(1, 255),
        metavar="N",
        help="its port (default: the first that is active)",
    )
    group.add_argument(
        "-x",
        "--gid-index",
        type=of.whole(0, 0xFFFF),
        metavar="N",
        help="entry of the port's GID table (default: a routable address of RoCE v2, IPv4 first)",
    )
    group.add_argument(
        "--gpu",
        metavar="GPU",
        help="number in PCI order, PCI slot, UUID, or none (default: the one closest to the NIC)",
    )
    group.add_argument(
        "--method",
        choices=("any", "dmabuf", "peermem", "both"),
        default="any",
        help="how its memory is registered (default any: by dma-buf where that works, else by "
        "peermem; which one it was is said)",
    )
    group.add_argument(
        "--node",
        type=of.matching(NODE_NAME_PATTERN, "a name of letters, digits, '_', '.', '-'"),
        metavar="NAME",
        help="what to call this end (default: its host name)",
    )
    group.add_argument(
        "-p",
        "--port",
        type=of.whole(1, 65535),
        default=DEFAULT_PORT,
        metavar="PORT",
        help=f"TCP port on which the ends agree; data goes over RDMA (default {DEFAULT_PORT})",
    )
    group.add_argument(
        "--token-file",
        type=Path,
        metavar="FILE",
        help="file with the token that both ends must know (-: standard input; default: "
        "GDRCHECK_TOKEN; a listener without either makes one and prints it)",
    )
    group.add_argument(
        "--timeout",
        type=of.seconds,
        default=DEFAULT_TIMEOUT_S,
        metavar="SECONDS",
        help="how long a listener waits for a caller, and how long everything may take for a "
        f"caller (default {DEFAULT_TIMEOUT_S:g})",
    )
    group.add_argument(
        "--time-scale",
        type=of.scale,
        default=1.0,
        metavar="FACTOR",
        help="multiplies the deadlines, for slow machines (default 1)",
    )
    group.add_argument(
        "--keep", action="store_true", help="listener: serve callers until none comes in time"
    )


def _add_measured(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "-s",
        "--size",
        type=of.sizes,
        metavar="BYTES",
        help="sizes of messages, such as 64K,1M (default: those around cache lines, MTUs and "
        "pages, and 1 MiB)",
    )
    group.add_argument(
        "-n",
        "--iterations",
        "--iters",
        type=of.whole(1, MAX_ITERATIONS),
        metavar="N",
        help="messages of each size, of each way to register, 1 to 1000 (default 3)",
    )
    group.add_argument(
        "--modes",
        type=of.modes,
        metavar="LIST",
        help=f"memory of source and sink: {', '.join(MODES)} (default: all)",
    )
    group.add_argument(
        "--operations",
        type=of.names((*OPERATIONS, *ATOMICS), "an operation"),
        metavar="LIST",
        help=f"default: {', '.join(OPERATIONS)}; not by default: {', '.join(ATOMICS)}",
    )
    group.add_argument(
        "--numbers",
        action="store_true",
        help="latency and bandwidth as well, of what was right",
    )
    group.add_argument(
        "-q",
        "--qp",
        type=of.whole(1, MAX_QUEUE_PAIRS),
        metavar="N",
        help="queue pairs, for bandwidth, 1 to 16 (default 4)",
    )
    group.add_argument(
        "-T",
        "--tclass",
        type=of.whole(0, 255),
        metavar="N",
        help="traffic class, such as 106 or 0x6a (default 0)",
    )
    group.add_argument(
        "-m",
        "--mtu",
        type=int,
        choices=MTUS,
        metavar="BYTES",
        help="path MTU (default: the largest that both ports can do)",
    )
    group.add_argument(
        "--json", action="store_true", help="as JSON; schema: gdrcheck schema pingpong"
    )
