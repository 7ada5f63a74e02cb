"""Facts about cables: what the other end of a port is."""

from __future__ import annotations

from typing import Literal

from gdrcheck.facts.base import FactsModel


class Neighbour(FactsModel):
    """The switch port at the other end of a cable, as it names itself.

    ``switch`` is what tells switches apart: the chassis id of LLDP (IEEE 802.1AB), or the node GUID
    of InfiniBand; ``switch_name`` is for people, empty when it has none. ``source``: ``lldpd`` was
    asked, ``frames`` were listened to, or ``file``: an imported list of the fabric's links.
    """

    switch: str
    switch_name: str
    port: str
    source: Literal["lldpd", "frames", "file"]

    def text(self) -> str:
        """``port Ethernet3 of leaf-1 (e4:1d:2d:0a:0b:0c)``."""
        return f"port {self.port} of {self.leaf}"

    @property
    def leaf(self) -> str:
        """The switch for people: its name and what tells it apart."""
        return f"{self.switch_name} ({self.switch})" if self.switch_name else self.switch
