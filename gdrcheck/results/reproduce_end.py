"""One end of a failing pair: what its command says of its device, GPU and address. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from ipaddress import IPv6Address

from gdrcheck.facts import DEVICE_NAME_PATTERN, Facts, Unreadable
from gdrcheck.pairing.messages import RailInfo
from gdrcheck.profile import Gid
from gdrcheck.registration import METHODS
from gdrcheck.results.cases import CaseResult
from gdrcheck.results.ends import Ends
from gdrcheck.run import RunSpec

# The last entry of a GID table that pingpong takes.
MAX_GID_INDEX = 0xFFFF
GPU = re.compile(r"gpu([0-9]{1,2})")
BY_METHOD = re.compile(rf"\bby ({'|'.join(METHODS)})\b")


@dataclass(frozen=True, slots=True)
class End:
    """One end of a failing pair, with what the run knows of it."""

    place: str
    spec: RunSpec
    facts: Facts | None
    rail: RailInfo | None

    @property
    def node(self) -> str:
        return node_of(self.place)

    @property
    def nic(self) -> str | None:
        name = self.rail.nic if self.rail else self.place.rpartition("/")[2]
        return name if re.fullmatch(DEVICE_NAME_PATTERN, name) else None

    @property
    def gpu(self) -> str | None:
        """Its number in PCI order."""
        parts = self.place.split("/")[1:-1]
        name = (self.rail.gpu if self.rail else None) or next(iter(parts), "")
        match = GPU.fullmatch(name)
        return match[1] if match else None

    def options(self, members: Sequence[tuple[Ends, CaseResult]], *, gpus: bool) -> Iterator[str]:
        """What this end says of itself."""
        if self.nic is not None:
            yield f"-d {shlex.quote(self.nic)}"
        if self.rail is not None:
            yield f"-i {self.rail.port}"
        if (index := self._gid_index(members)) is not None:
            yield f"-x {index}"
        if gpus and self.gpu is not None:
            yield f"--gpu {self.gpu}"
        if gpus and (method := self._method(members)):
            yield f"--method {method}"

    def _gid_index(self, members: Sequence[tuple[Ends, CaseResult]]) -> int | None:
        """As the ends told each other; else that of the address which the node gave for the port.

        None: nobody said, and pingpong chooses by the same rule as the run without a wish.
        """
        told = re.compile(rf"(?:^|; ){re.escape(self.node)}: index ([0-9]{{1,5}}),")
        for _, case in members:
            for finding in case.findings:
                match = told.search(finding.evidence.get("gids", ""))
                if match and int(match[1]) <= MAX_GID_INDEX:
                    return int(match[1])
        if self.rail is None or self.facts is None:
            return None
        return _index_of(self.facts, self.rail, self.spec.profile_of(self.node).gid)

    def _method(self, members: Sequence[tuple[Ends, CaseResult]]) -> str | None:
        """Those of the variants which were wrong; else all that were used."""
        wrong = set()
        for ends, case in members:
            for finding in case.findings:
                source, separator, sink = finding.evidence.get("variant", "").partition(" to ")
                mine = source if ends.source == self.place else sink
                if separator and (match := BY_METHOD.search(mine)):
                    wrong.add(match[1])
        methods = wrong or set(self.rail.methods if self.rail else ())
        return "both" if len(methods) > 1 else next(iter(methods), None)


def _index_of(facts: Facts, rail: RailInfo, wanted: Gid) -> int | None:
    device = facts.rdma_device(rail.nic)
    port = device.port(rail.port) if device else None
    if port is None or isinstance(port.gids, Unreadable):
        return None
    if port.link_layer == "infiniband":
        return 0
    kind = "RoCE v2" if wanted.type == "auto" else wanted.type
    for entry in port.gids:
        address = IPv6Address(entry.gid)
        if str(address.ipv4_mapped or address) == rail.data_address and kind in entry.type:
            return entry.index
    return None


def node_of(place: str) -> str:
    """The name of the node of a place."""
    return place.partition("/")[0]
