"""Cases that ended a process, and which others must not touch the same devices after them. Pure."""

from __future__ import annotations

from pydantic import TypeAdapter

from gdrcheck.findings.model import Where
from gdrcheck.results.record import Model


class Hung(Model):
    """The case ``id`` at ``where``, which, as ``why`` says, left its devices in doubt.

    ``every_gpu``: not only those of its place, but all GPUs of the node.
    """

    id: str
    why: str
    where: Where
    every_gpu: bool = False

    @property
    def message(self) -> str:
        """The words for a case that is blocked by this one."""
        return f"blocked by {self.id}, {self.why}"

    def blocks(self, where: Where) -> bool:
        """Whether a case at ``where`` needs what is in doubt."""
        return where.gpu is not None if self.every_gpu else _shares_device(self.where, where)


HUNG = TypeAdapter(tuple[Hung, ...])


def _shares_device(one: Where, other: Where) -> bool:
    return one.node == other.node and (
        (one.nic is not None and one.nic == other.nic) or bool(_gpus(one) & _gpus(other))
    )


def _gpus(where: Where) -> set[str]:
    """The GPU, and the one that it is paired with in its node; a node alone is no GPU."""
    peer = {where.peer} if where.peer and "/" in where.peer else set()
    return peer | ({f"{where.node}/{where.gpu}"} if where.gpu else set())
