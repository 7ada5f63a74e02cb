"""The listener: proves who calls, and does what the caller asks of this end."""

from __future__ import annotations

import argparse
import os
import threading
from contextlib import ExitStack

from gdrcheck.commands.pingpong.end import Prepared, waits_of
from gdrcheck.commands.pingpong.party import (
    BEAT_S,
    Party,
    blocked_code,
    tell,
    tell_end,
    tell_findings,
)
from gdrcheck.commands.pingpong.token import CALLER, LISTENER, VARIABLE, identity
from gdrcheck.commands.pingpong.told import ToldRail
from gdrcheck.outcome import InputError, PeerError, ProbeError, Verdict
from gdrcheck.pairing.channel import Channel
from gdrcheck.pairing.hand_messages import Greeted, Greeting
from gdrcheck.pairing.listener import Listener
from gdrcheck.pairing.messages import Refused
from gdrcheck.pairing.serve import Responder
from gdrcheck.pairing.waits import WalkWaits
from gdrcheck.run import DEFAULT_PORT, Deadlines

SERVED = 0
NOT_SERVED = Verdict.INCOMPLETE.exit_code


def listen(args: argparse.Namespace, party: Party, *, new_token: bool) -> int:
    """Wait for a caller and serve it, or with ``--keep`` one after the other; the exit code.

    The caller has the result: 0 says that one was served to the end.
    """
    prepared = party.prepared(Deadlines().scaled(args.time_scale))
    tell_end(prepared.end)
    tell_findings(prepared.end.findings)
    if prepared.end.rail.blocked_by is not None:
        tell(f"{party.node} cannot take part: {prepared.end.rail.blocked_by}")
        return blocked_code(prepared.end)
    busy = threading.Event()
    with ExitStack() as stack:
        try:
            listener = stack.enter_context(_listener(args, party, busy))
        except ProbeError as error:
            raise _cannot_listen(args, error) from error
        _tell_how_to_call(args, party, new_token)
        return _serve_callers(args, party, prepared, listener, busy)


def _listener(args: argparse.Namespace, party: Party, busy: threading.Event) -> Listener:
    def refusal(*_: object) -> Refused | None:
        reason = f"{party.node} serves another caller"
        return Refused(reason=reason, retry=True) if busy.is_set() else None

    who = identity(party.token, LISTENER)
    return Listener(who, args.listen, args.port, (CALLER,), refusal, BEAT_S)


def _cannot_listen(args: argparse.Namespace, error: ProbeError) -> InputError:
    reason = os.strerror(error.error_number) if error.error_number else str(error)
    return InputError(
        f"cannot listen on {args.listen} port {args.port}: {reason}; another program may hold the "
        "port (take another one with -p at both ends), or the address is not this machine's"
    )


def _serve_callers(
    args: argparse.Namespace,
    party: Party,
    prepared: Prepared,
    listener: Listener,
    busy: threading.Event,
) -> int:
    code = NOT_SERVED
    while True:
        channel = listener.accept(None, "pair", args.timeout)
        if channel is None:
            tell(f"no caller within {args.timeout:g} s")
            return code
        busy.set()
        try:
            _serve(party, prepared, channel)
            code = SERVED
        except PeerError as error:
            tell(f"the caller was not served to the end: {error}")
            code = NOT_SERVED
        finally:
            channel.close()
            busy.clear()
        if not args.keep:
            return code


def _serve(party: Party, prepared: Prepared, channel: Channel) -> None:
    """One caller, from its greeting to its ``bye``. PeerError when it is lost before."""
    greeting = channel.receive(Deadlines().connect_s, Greeting)
    caller, settings = greeting.end, greeting.settings
    # Until now the ends were called by their parts, since neither knew the other's name.
    channel.peer = caller.node
    name = party.node if party.node != caller.node else f"{party.node}-{LISTENER}"
    tell_end(caller)
    waits = waits_of(settings)
    walk = WalkWaits.for_rails(waits, 1)
    with party.process(prepared, name, settings, waits, ToldRail) as rail:
        channel.send(Greeted(end=prepared.end.model_copy(update={"node": name})))
        Responder({0: rail}, {}, walk).serve(channel, walk.begun_by(0))
    tell(f"{caller.node} was served to the end; it has the result")


def _tell_how_to_call(args: argparse.Namespace, party: Party, new_token: bool) -> None:
    tell(f"{party.node} listens on {args.listen} port {args.port}")
    port = "" if args.port == DEFAULT_PORT else f" -p {args.port}"
    command = f"gdrcheck pingpong {party.node}{port}"
    if new_token:
        tell("on the other machine:", f"  {VARIABLE}={party.token} {command}")
    else:
        tell("on the other machine, with the same token:", f"  {command}")
