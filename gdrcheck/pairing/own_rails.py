"""What a node of a run has of its rails: endpoint children, tools, and why some cannot be used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gdrcheck.pairing.messages import RailInfo
from gdrcheck.pairing.pairs import LocalGpu
from gdrcheck.pairing.rail import WORKER, RailProcess, open_request
from gdrcheck.pairing.tool_end import ToolEnd
from gdrcheck.run import RunSpec


@dataclass(frozen=True, slots=True)
class OwnRails:
    """By rail: nothing runs yet, and who made it closes ``processes`` and ``tools``."""

    processes: Mapping[int, RailProcess]
    tools: Mapping[int, ToolEnd]
    blocked: Mapping[int, str]

    @classmethod
    def of(
        cls,
        run: RunSpec,
        node: str,
        infos: Sequence[RailInfo],
        gpus: Mapping[int, LocalGpu],
        out_dir: Path,
        *,
        command: Sequence[str] = WORKER,
        root: Path = Path("/"),
    ) -> OwnRails:
        """The rails of ``node`` as the rendezvous told of them; ``gpus`` are those in use."""
        profile, waits = run.profile_of(node), run.waits
        # A region that a peer may change by atomics is made only if somebody is to do that.
        atomics = profile.transfers.atomics
        usable = [rail for rail in infos if rail.blocked_by is None]
        return cls(
            processes={
                rail.id: RailProcess(
                    node=node,
                    rail_id=rail.id,
                    request=open_request(profile, waits, rail.nic, rail.port, atomics=atomics),
                    gpu=gpus.get(rail.id),
                    waits=waits,
                    out_dir=out_dir,
                    command=command,
                    root=root,
                )
                for rail in usable
            },
            tools={
                rail.id: ToolEnd(
                    node=node,
                    rail=rail,
                    gpu=gpus.get(rail.id),
                    profile=profile,
                    waits=waits,
                    out_dir=out_dir,
                    root=root,
                    channel_address=run.node(node).address,
                )
                for rail in usable
            },
            blocked={rail.id: rail.blocked_by for rail in infos if rail.blocked_by is not None},
        )
