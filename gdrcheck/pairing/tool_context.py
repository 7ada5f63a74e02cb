"""What both of a rail's tools, perftest and rdma_cm, must know of their end. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gdrcheck.pairing.channel import EndFailure
from gdrcheck.pairing.messages import RailInfo
from gdrcheck.pairing.pairs import LocalGpu
from gdrcheck.profile import Profile
from gdrcheck.run import Deadlines
from gdrcheck.verbs.protocol import ErrorInfo


@dataclass(frozen=True, slots=True)
class ToolContext:
    """This end of a rail. ``channel_address`` is where the node's channel listens, if it does."""

    node: str
    rail: RailInfo
    gpu: LocalGpu | None
    profile: Profile
    waits: Deadlines
    out_dir: Path
    root: Path = Path("/")
    channel_address: str | None = None

    @property
    def name(self) -> str:
        """``node1/mlx5_0 (rail 0)``."""
        return f"{self.node}/{self.rail.nic} (rail {self.rail.id})"

    @property
    def exclusive(self) -> str:
        """Why a tool cannot use a GPU that takes one process at a time."""
        return (
            f"the GPU of {self.name} is in compute mode exclusive_process, and the endpoint child "
            "has it"
        )

    def failure(self, step: str, text: str, error: ErrorInfo | None = None) -> EndFailure:
        """What this end could not do, to raise."""
        return EndFailure(f"{self.name}: {step}: {text}", side=self.node, step=step, error=error)
