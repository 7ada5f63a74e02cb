"""One end of a ping-pong by hand: who it is, and what it was started with."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field

from gdrcheck.commands.output import say
from gdrcheck.commands.pingpong.choice import Wanted, choose
from gdrcheck.commands.pingpong.end import Prepared, prepare, with_settings
from gdrcheck.commands.pingpong.trial import Workers
from gdrcheck.commands.source import patience
from gdrcheck.facts import Facts
from gdrcheck.findings.model import Finding
from gdrcheck.outcome import Verdict
from gdrcheck.pairing.hand_messages import End, Settings
from gdrcheck.pairing.rail import RailProcess
from gdrcheck.run import Deadlines
from gdrcheck.show.finding import finding_lines

# Both ends say that they live far more often than either would give the other one up.
BEAT_S = 0.5


@dataclass(frozen=True, slots=True)
class Party:
    """What one end knows before it meets the other."""

    node: str
    facts: Facts
    wanted: Wanted
    token: str = field(repr=False)
    workers: Workers

    def prepared(self, waits: Deadlines) -> Prepared:
        """This end, tried. InputError when what the user named is not there."""
        facts = self.facts.model_copy(update={"node": self.node})
        choice = choose(facts, self.wanted)
        with patience("trying the NIC and the GPU"):
            return prepare(choice, self.node, self.wanted.gid_index, waits, self.workers)

    def process(
        self,
        prepared: Prepared,
        node: str,
        settings: Settings,
        waits: Deadlines,
        kind: type[RailProcess] = RailProcess,
    ) -> RailProcess:
        """The rail's process for a session with ``settings``. The caller closes it."""
        return kind(
            node=node,
            rail_id=0,
            request=with_settings(prepared.request, settings, waits),
            gpu=prepared.gpu,
            queue_pairs=settings.queue_pairs,
            waits=waits,
            out_dir=self.workers.out_dir,
            command=self.workers.command,
            root=self.workers.root,
        )


def tell(*lines: str) -> None:
    """Say how it goes, on standard error."""
    say(lines, sys.stderr)
    sys.stderr.flush()


def tell_end(end: End) -> None:
    """Say what an end uses."""
    tell(f"{end.node}: {end.about}")


def blocked_code(end: End) -> int:
    """The exit code of an end that cannot take part: FAIL with a finding, else INCOMPLETE."""
    return (Verdict.FAIL if end.findings else Verdict.INCOMPLETE).exit_code


def tell_findings(findings: Sequence[Finding]) -> None:
    """Say what is wrong with this end, and what to do."""
    for finding in findings:
        tell(*finding_lines(finding))
