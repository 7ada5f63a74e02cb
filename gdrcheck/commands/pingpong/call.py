"""The caller: meets the listener, drives both ends, and shows what came of it."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from contextlib import ExitStack

from gdrcheck.commands.output import print_json, say
from gdrcheck.commands.pingpong.end import Prepared, waits_of
from gdrcheck.commands.pingpong.measure import Measured, Wish, measure
from gdrcheck.commands.pingpong.party import BEAT_S, Party, tell, tell_end
from gdrcheck.commands.pingpong.reach import channel_to
from gdrcheck.commands.pingpong.report import Report, ReportEnd, verdict
from gdrcheck.commands.pingpong.token import CALLER, LISTENER, identity
from gdrcheck.commands.pingpong.words import report_lines
from gdrcheck.findings.model import Finding
from gdrcheck.outcome import PeerError
from gdrcheck.pairing.channel import Channel
from gdrcheck.pairing.hand_messages import End, Greeted, Greeting, Settings
from gdrcheck.pairing.messages import Serving
from gdrcheck.pairing.plan import ITERATIONS, QUEUE_PAIRS, SIZES_BYTES
from gdrcheck.pairing.session import PairSession
from gdrcheck.pairing.waits import WalkWaits
from gdrcheck.run import Deadlines
from gdrcheck.transfer import ATOMICS, MODES, OPERATIONS, has_gpu

NOTHING = Measured(path_mtu=None, transfers=(), numbers=(), findings=(), not_measured=())


def call(args: argparse.Namespace, party: Party, addresses: Sequence[str]) -> int:
    """Call the listener on ``args.host``, at one of its ``addresses``, measure, print the result;
    the exit code of it.
    """
    began = time.monotonic()
    settings, wish = _settings(args), _wish(args)
    waits = waits_of(settings)
    prepared = party.prepared(waits)
    tell_end(prepared.end)
    talk = _Call(args, addresses, party, prepared, settings, waits)
    measured, problems = NOTHING, list[str]()
    if prepared.end.rail.blocked_by is not None:
        problems.append(f"{party.node} cannot take part: {prepared.end.rail.blocked_by}")
    else:
        try:
            measured = talk.measured(wish)
        except PeerError as error:
            problems.append(str(error))
    report = _report(talk, wish, measured, problems, time.monotonic() - began)
    if args.json:
        print_json(report)
    else:
        say(report_lines(report))
    return report.verdict.exit_code


def _settings(args: argparse.Namespace) -> Settings:
    return Settings(
        traffic_class=args.tclass or 0,
        path_mtu=args.mtu,
        queue_pairs=args.qp or QUEUE_PAIRS,
        atomics=any(one in ATOMICS for one in args.operations or ()),
        largest_bytes=max(args.size or SIZES_BYTES),
        timeout_s=args.timeout,
        time_scale=args.time_scale,
    )


def _wish(args: argparse.Namespace) -> Wish:
    return Wish(
        sizes_bytes=args.size or SIZES_BYTES,
        sizes_named=args.size is not None,
        iterations=args.iterations or ITERATIONS,
        modes=args.modes or MODES,
        modes_named=args.modes is not None,
        operations=args.operations or OPERATIONS,
        numbers=args.numbers,
    )


class _Call:
    """One call, from the first connection to the last ``bye``. ``listener``: who answered."""

    def __init__(
        self,
        args: argparse.Namespace,
        addresses: Sequence[str],
        party: Party,
        prepared: Prepared,
        settings: Settings,
        waits: Deadlines,
    ) -> None:
        self._args, self._party, self._prepared = args, party, prepared
        self._addresses, self._settings, self._waits = addresses, settings, waits
        self.caller: End = prepared.end
        self.listener: End | None = None

    def measured(self, wish: Wish) -> Measured:
        """What came of all that was wished. PeerError when the listener is not to be had."""
        with ExitStack() as stack:
            channel = stack.enter_context(self._connected())
            channel.start_heartbeats(BEAT_S)
            listener = self._greet(channel)
            walk = WalkWaits.for_rails(self._waits, 1)
            party, caller = self._party, self.caller
            rail = stack.enter_context(
                party.process(self._prepared, caller.node, self._settings, self._waits)
            )
            channel.receive(self._waits.connect_s, Serving, silence_s=walk.silence_s)
            session = stack.enter_context(
                PairSession(channel, caller.node, {0: rail}, self._waits, walk)
            )
            return measure(session, caller, listener, self._settings, self._waits, wish)

    def _connected(self) -> Channel:
        host, port, waits = self._args.host, self._args.port, self._waits
        tell(f"calling {host} port {port}, {waits.connect_s:g} s at most")
        who = identity(self._party.token, CALLER)
        try:
            return channel_to(self._addresses, port, who, LISTENER, waits.connect_s)
        except PeerError as error:
            raise PeerError(
                f"{error}. Does gdrcheck pingpong --listen run on {host}, with this token (it "
                "hangs up on another one), and does the firewall let this port through?",
                side=error.side,
                step=error.step,
            ) from error

    def _greet(self, channel: Channel) -> End:
        """Both ends tell who they are; from now on each calls the other by its name."""
        channel.send(Greeting(end=self.caller, settings=self._settings))
        listener = channel.receive(self._waits.connect_s, Greeted).end
        if listener.node == self.caller.node:
            raise PeerError(
                f"the listener calls itself {listener.node}, as this end does: no result could "
                "tell them apart",
                side=LISTENER,
                step="greeting",
            )
        channel.peer = listener.node
        self.listener = listener
        tell_end(listener)
        return listener


def _report(
    talk: _Call, wish: Wish, measured: Measured, problems: Sequence[str], duration_s: float
) -> Report:
    ends = [end for end in (talk.caller, talk.listener) if end is not None]
    findings = _findings(ends, wish, measured)
    not_measured = (*problems, *measured.not_measured)
    return Report(
        verdict=verdict(measured.transfers, findings, not_measured),
        emulated=any(end.emulated for end in ends),
        software_rdma=any(end.software for end in ends),
        caller=ReportEnd.of(talk.caller),
        listener=ReportEnd.of(talk.listener) if talk.listener else None,
        path_mtu=measured.path_mtu,
        transfers=measured.transfers,
        numbers=measured.numbers,
        findings=findings,
        not_measured=not_measured,
        notes=_notes(ends, wish),
        duration_s=round(duration_s, 1),
    )


def _findings(ends: Sequence[End], wish: Wish, measured: Measured) -> tuple[Finding, ...]:
    """What the ends found of themselves, as far as it matters, and what both found together."""
    gpus = any(has_gpu(mode) for mode in wish.modes_between(ends))
    own = [
        finding
        for end in ends
        if gpus or end.rail.blocked_by is not None
        for finding in end.findings
    ]
    found = [*own, *measured.findings]
    return tuple(one for index, one in enumerate(found) if one not in found[:index])


def _notes(ends: Sequence[End], wish: Wish) -> tuple[str, ...]:
    if wish.modes_named:
        return ()
    return tuple(
        f"{end.node} was started with --gpu none: GPU memory was not asked for"
        for end in ends
        if end.gpu_unwanted
    )
