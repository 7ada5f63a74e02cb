"""``gdrcheck pingpong``: listens for a caller, or calls a listener and shows the result."""

from __future__ import annotations

import argparse
import logging
import platform
import re
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from gdrcheck import probes
from gdrcheck.commands.output import say
from gdrcheck.commands.pingpong.call import call
from gdrcheck.commands.pingpong.choice import NO_GPU, Wanted
from gdrcheck.commands.pingpong.listen import listen
from gdrcheck.commands.pingpong.options import LEAST_TIMEOUT_OF_CALLER_S, OF_CALLER
from gdrcheck.commands.pingpong.party import Party
from gdrcheck.commands.pingpong.reach import RESOLVE_S, addresses_of
from gdrcheck.commands.pingpong.token import VARIABLE, new_token, read_token
from gdrcheck.commands.pingpong.trial import Workers
from gdrcheck.commands.source import patience
from gdrcheck.facts import Facts
from gdrcheck.outcome import InputError
from gdrcheck.pairing.rail import WORKER
from gdrcheck.probes import LIVE_ROOT
from gdrcheck.results.plain import one_line
from gdrcheck.run import NODE_NAME_PATTERN
from gdrcheck.transfer import MODES, has_gpu

NAMELESS = "this-machine"


def run(args: argparse.Namespace) -> int:
    """Do the part that ``args`` asks for; returns the exit code. InputError for wrong input."""
    return take_part(args)


def take_part(
    args: argparse.Namespace,
    *,
    facts: Facts | None = None,
    command: Sequence[str] = WORKER,
    root: Path = LIVE_ROOT,
) -> int:
    """``run`` on a machine of which ``facts`` are known, with ``command`` as endpoint child.

    Handles SIGTERM and SIGINT as Ctrl-C, so it wants the main thread.
    """
    _refuse_contradictions(args)
    token = read_token(args.token_file)
    if token is None and args.host is not None:
        raise InputError(
            f"no token: set {VARIABLE} to what gdrcheck pingpong --listen printed on {args.host}, "
            "or give --token-file"
        )
    # The first process of a container has no handler for SIGTERM, and would stay; a job in the
    # background of a script has SIGINT ignored.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    addresses = () if args.host is None else addresses_of(args.host, RESOLVE_S * args.time_scale)
    with _warnings_told(), tempfile.TemporaryDirectory(prefix="gdrcheck-") as folder:
        party = Party(
            node=args.node or _host_name(),
            facts=facts or _facts(args.node, args.time_scale),
            wanted=Wanted(args.device, args.ib_port, args.gpu, args.method, args.gid_index),
            token=token or new_token(),
            workers=Workers(command, Path(folder), root),
        )
        if args.host is not None:
            return call(args, party, addresses)
        return listen(args, party, new_token=token is None)


def _refuse_contradictions(args: argparse.Namespace) -> None:
    problems = []
    if args.listen is not None:
        problems += [
            f"{spelling} is for the caller to say, who says it for both ends; expected it without "
            "--listen"
            for name, spelling in OF_CALLER.items()
            if getattr(args, name) not in (None, False)
        ]
        if args.json:
            problems.append("--json: the caller prints the result; expected it without --listen")
    elif args.keep:
        problems.append("--keep is for a listener; expected it with --listen")
    if args.host is not None and args.timeout < LEAST_TIMEOUT_OF_CALLER_S:
        problems.append(
            f"--timeout {args.timeout:g}: a caller needs {LEAST_TIMEOUT_OF_CALLER_S:g} seconds at "
            "least; expected more"
        )
    if args.gpu == NO_GPU and any(has_gpu(mode) for mode in MODES if mode in (args.modes or ())):
        problems.append("--gpu none leaves --modes host-host only; expected a GPU, or that mode")
    if problems:
        raise InputError(*problems)


def _facts(name: str | None, time_scale: float) -> Facts:
    with patience("reading this machine"):
        return probes.collect(name or _host_name(), within_s=probes.WITHIN_S * time_scale)


def _host_name() -> str:
    """The host's name, or a word for one that could not be a node's."""
    name = platform.node()
    return name if re.fullmatch(NODE_NAME_PATTERN, name) else NAMELESS


class _Told(logging.Handler):
    """Warnings of the channel and the rails, a line each."""

    def emit(self, record: logging.LogRecord) -> None:
        say([one_line(record.getMessage())], sys.stderr)


@contextmanager
def _warnings_told() -> Iterator[None]:
    handler = _Told(logging.WARNING)
    logger = logging.getLogger("gdrcheck")
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
