"""One end of a rail's tools: what an initiator may ask of perftest and rdma_cm there."""

from __future__ import annotations

from pathlib import Path

from gdrcheck.outcome import PeerError
from gdrcheck.pairing.cm_end import CmEnd
from gdrcheck.pairing.deadline import Deadline
from gdrcheck.pairing.messages import Answer, RailInfo, Request
from gdrcheck.pairing.pairs import LocalGpu
from gdrcheck.pairing.perftest_end import PerftestEnd
from gdrcheck.pairing.tool_context import ToolContext
from gdrcheck.pairing.tools import (
    CmGo,
    CmPrepare,
    PerftestRun,
    PerftestServe,
    PerftestStop,
    PerftestStopped,
)
from gdrcheck.profile import Profile
from gdrcheck.run import Deadlines
from gdrcheck.verbs.protocol import Opened


class ToolEnd:
    """perftest and rdma_cm at this end; nothing runs before it is asked for. ``close`` it.

    ``opened`` is what the rail's endpoint child opened: perftest takes the same GID.
    """

    def __init__(
        self,
        *,
        node: str,
        rail: RailInfo,
        gpu: LocalGpu | None,
        profile: Profile,
        waits: Deadlines,
        out_dir: Path,
        root: Path = Path("/"),
        channel_address: str | None = None,
    ) -> None:
        self.context = ToolContext(
            node=node,
            rail=rail,
            gpu=gpu,
            profile=profile,
            waits=waits,
            out_dir=out_dir,
            root=root,
            channel_address=channel_address,
        )
        self.opened: Opened | None = None
        self._perftest = PerftestEnd(self.context)
        self._cm = CmEnd(self.context)

    def answer(self, request: Request, deadline: Deadline) -> Answer:
        """Do what is asked. EndFailure for what this end could not do, PeerError for the rest."""
        if isinstance(request, PerftestServe):
            return self._perftest.serve(request.plan, self._opened(), deadline)
        if isinstance(request, PerftestRun):
            return self._perftest.run(request, self._opened(), deadline)
        if isinstance(request, PerftestStop):
            return PerftestStopped(complaint=self._perftest.stop())
        if isinstance(request, CmPrepare):
            return self._cm.prepare(request, deadline)
        if isinstance(request, CmGo):
            return self._cm.go(request, deadline)
        text = f"refused: {request.TYPE} is nothing for perftest or rdma_cm"
        raise PeerError(text, side="initiator", step="check the request")

    def end_session(self) -> None:
        """End at once what a session left running, from any thread. More can be asked after."""
        self._perftest.kill()
        self._cm.interrupt()

    def close(self) -> None:
        """End everything. May be repeated."""
        self._perftest.kill()
        self._cm.close()

    def _opened(self) -> Opened:
        if self.opened is None:
            raise self.context.failure("perftest", "the port was not opened before")
        return self.opened
