"""The topology in lines: PCI Express tree, matrix of distances, rails, legend."""

from __future__ import annotations

from collections.abc import Sequence

from gdrcheck.facts import Facts
from gdrcheck.show import notices, pci
from gdrcheck.show.matrix import RailEnds, Topology
from gdrcheck.show.words import UNKNOWN, Gaps, wrapped

MARK = "*"
LEGEND = (
    ("X", "itself"),
    ("PIX", "below one PCIe switch at most"),
    ("PXB", "across several PCIe switches, not the host bridge"),
    ("PHB", "across the host bridge (CPU)"),
    ("NODE", "across host bridges of one NUMA node"),
    ("SYS", "across NUMA nodes (between CPUs)"),
    ("NV#", "NVLink: the number of links between two GPUs"),
    (UNKNOWN, "not known"),
)


def as_lines(facts: Facts, found: Topology) -> list[str]:
    """Everything about the topology ``found`` in ``facts``."""
    gaps = Gaps()
    parts = [
        [f"node {found.node}", *notices.of_facts(facts)],
        ["PCI Express:", *(pci.tree(facts, gaps) or ["no GPU or RDMA NIC on it was found"])],
        matrix(found),
        gpus(found, gaps),
        rails(found),
        legend(found),
        gaps.lines(),
    ]
    return [line for part in parts if part for line in ("", *part)][1:]


def matrix(found: Topology) -> list[str]:
    """A row for each function, a column for each NIC; the cell of a rail carries a mark."""
    if not found.nics:
        return ["no RDMA NIC was found: there are no distances to show"]
    columns = [nic.name for nic in found.nics]
    marked = {(rail.gpu, rail.nic) for rail in found.rails}
    rows = [["", *columns]]
    for end in found.functions:
        cells = [
            (found.distances[end.name][column] or UNKNOWN)
            + (MARK if (end.name, column) in marked else "")
            for column in columns
        ]
        rows.append([end.name, *cells])
    return ["distances:", *table(rows)]


def gpus(found: Topology, gaps: Gaps) -> list[str]:
    """What leads from each GPU to each other one, and which may use whose memory."""
    if len(found.gpus) < 2:
        return []
    names = [gpu.name for gpu in found.gpus]
    rows = [["", *names]]
    rows += [[one, *(found.gpu_links[one][other] or UNKNOWN for other in names)] for one in names]
    return ["between GPUs:", *table(rows), "", *_peer_access(found, gaps)]


def _peer_access(found: Topology, gaps: Gaps) -> list[str]:
    """NVML's word on peer access: in one line where it is the same of all."""
    title = "GPUs that may use each other's memory (peer access), by NVML:"
    said: dict[str, list[str]] = {}
    for one in found.peer_access:
        way = f"{one.gpu} -> {one.peer}"
        read = gaps.text(one.read, f"peer access {way}, read")
        write = gaps.text(one.write, f"peer access {way}, write")
        said.setdefault(f"read {read}, write {write}", []).append(way)
    if not said:
        return [title, "not known"]
    if len(said) == 1:
        return [title, f"each two: {next(iter(said))}"]
    told = [f"{words}: {', '.join(ways)}" for words, ways in said.items()]
    return [title, *(line for text in told for line in wrapped(text, ""))]


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """``rows`` with their columns aligned."""
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def rails(found: Topology) -> list[str]:
    """The rails, a line each, who says so, and which NICs serve none."""
    title = {
        "profile": "rails, as the profile promises them:",
        "topology": "rails, as the topology suggests them (no profile was given):",
    }[found.rails_from]
    lines = table([_rail(rail) for rail in found.rails]) if found.rails else ["none"]
    if found.undecided is not None:
        lines = wrapped(found.undecided, "")
    left_out = [line for text in found.not_rails for line in wrapped(f"no rail: {text}", "")]
    return [title, *lines, *left_out]


def _rail(rail: RailEnds) -> list[str]:
    if rail.nic is None:
        return [f"rail {rail.id}", rail.gpu or "no GPU", "no NIC", rail.missing or UNKNOWN]
    port = f", port {rail.port}" if rail.port != 1 else ""
    distance = (rail.distance or UNKNOWN) if rail.gpu else ""
    return [f"rail {rail.id}", rail.gpu or "no GPU", f"{rail.nic}{port}", distance]


def legend(found: Topology) -> list[str]:
    """What the words of the matrices mean; nothing without one."""
    if not found.nics and len(found.gpus) < 2:
        return []
    mark = (MARK, "a rail: this GPU and this NIC belong together")
    return ["legend:", *(f"{word:<4}  {text}" for word, text in (*LEGEND, mark))]
