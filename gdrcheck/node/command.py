"""``gdrcheck node``: reads what it was given, then supervises until the end or a deadline."""

from __future__ import annotations

import logging
import os
import re
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

from pydantic import ValidationError

from gdrcheck import run
from gdrcheck.node.clock import Stop, overall_s
from gdrcheck.node.finish import write_done
from gdrcheck.node.meeting import MeetingFactory
from gdrcheck.node.supervisor import DEFAULT_CHECKS, Assignment, supervise
from gdrcheck.outcome import InputError
from gdrcheck.pairing.rendezvous import Rendezvous
from gdrcheck.results.events import clip
from gdrcheck.results.plain import one_line

LOG = logging.getLogger(__name__)
INCOMPLETE = 2
# What an orderly stop may take: killing, the last events, the JUnit file.
GRACE_S = 30.0
SECRET_PATTERN = re.compile(r"[0-9a-f]{64}")


def run_node(
    *,
    run_file: Path,
    secret_file: Path,
    node: str,
    out: Path,
    lock: Path | None = None,
    present: Sequence[str] | None = None,
    checks: Path = DEFAULT_CHECKS,
    meet: MeetingFactory = Rendezvous,
) -> int:
    """The whole run of ``node``; returns its exit code: 0 PASS, 1 FAIL, 2 INCOMPLETE.

    Installs handlers for SIGTERM and SIGINT, so it wants the main thread. ``present`` are the
    nodes to expect; all of the run by default. InputError if what it was given is unusable.
    """
    assignment = read_assignment(
        run_file=run_file,
        secret_file=secret_file,
        node=node,
        out=out,
        lock=lock,
        present=present,
        checks=checks,
    )
    _log_to(out / "supervisor.log")
    stop = Stop()
    _stop_on_signals(stop)
    with _watchdog(out, stop, overall_s(assignment.spec.waits)):
        try:
            return supervise(assignment, stop, meet)
        except OSError as error:
            return _give_up(out, f"results cannot be written: {error}")
        # The outermost hook of the node: whoever waits for done.json must get it.
        except Exception as error:
            LOG.exception("the supervisor failed")
            what = one_line(clip(str(error)))
            return _give_up(out, f"the supervisor failed: {type(error).__name__}: {what}")


def _give_up(out: Path, reason: str) -> int:
    """Say ``reason`` wherever that is possible; returns the exit code."""
    print(reason, file=sys.stderr, flush=True)
    # Most likely the disk is full, so this may fail as well; the exit code remains.
    with suppress(OSError):
        write_done(out, INCOMPLETE, reason)
    return INCOMPLETE


def read_assignment(
    *,
    run_file: Path,
    secret_file: Path,
    node: str,
    out: Path,
    lock: Path | None = None,
    present: Sequence[str] | None = None,
    checks: Path = DEFAULT_CHECKS,
) -> Assignment:
    """What the options say, read and checked. InputError with every problem at once."""
    problems: list[str] = []
    spec = _read_run(run_file, problems)
    secret = _read_secret(secret_file, problems)
    if not out.is_dir():
        problems.append(f"--out {out}: no such directory")
    elif any(out.iterdir()):
        problems.append(f"--out {out}: holds files, as of an earlier run; give an empty one")
    if not checks.is_dir():
        problems.append(f"--checks {checks}: no such directory")
    if spec is None:
        raise InputError(*problems)
    names = [one.name for one in spec.nodes]
    expected = list(present) if present is not None else names
    for name in dict.fromkeys((node, *expected)):
        if name not in names:
            problems.append(f"{name} is no node of run {spec.run_id}: {', '.join(names)}")
    if node not in expected:
        problems.append(f"--present leaves out {node}, the node itself")
    if problems:
        raise InputError(*problems)
    return Assignment(
        spec=spec,
        run_file=run_file,
        node=node,
        secret=secret,
        secret_file=secret_file,
        out=out,
        lock=lock,
        present=tuple(name for name in names if name in expected),
        checks=checks,
    )


def _read_run(path: Path, problems: list[str]) -> run.RunSpec | None:
    try:
        return run.load(path)
    except OSError as error:
        problems.append(f"--run {path}: {error.strerror}")
    except ValidationError as error:
        for one in error.errors(include_url=False, include_input=False):
            place = ".".join(str(part) for part in one["loc"])
            problems.append(f"--run {path}: {place}: {one['msg']}")
    return None


def _read_secret(path: Path, problems: list[str]) -> bytes:
    try:
        text = path.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        problems.append(f"--secret {path}: {error}")
        return b""
    if not SECRET_PATTERN.fullmatch(text):
        problems.append(f"--secret {path}: expected 64 hex digits")
        return b""
    return bytes.fromhex(text)


def _log_to(path: Path) -> None:
    handler = logging.FileHandler(path)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logger = logging.getLogger("gdrcheck")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    path.chmod(0o644)


def _stop_on_signals(stop: Stop) -> None:
    def handle(number: int, _frame: FrameType | None) -> None:
        stop.request(f"stopped by {signal.Signals(number).name}")

    # PID 1 ignores signals that it has no handler for.
    signal.signal(signal.SIGTERM, handle)
    signal.signal(signal.SIGINT, handle)


@contextmanager
def _watchdog(out: Path, stop: Stop, seconds: float) -> Iterator[None]:
    """Asks for a stop after ``seconds``; ends this process, and so its container, if that fails."""
    reason = f"container deadline of {seconds:g} s"

    def end() -> None:
        print(reason, file=sys.stderr, flush=True)
        try:
            write_done(out, INCOMPLETE, reason)
        finally:
            os._exit(INCOMPLETE)

    timers = (
        threading.Timer(seconds, stop.request, [reason]),
        threading.Timer(seconds + GRACE_S, end),
    )
    for timer in timers:
        timer.daemon = True
        timer.start()
    try:
        yield
    finally:
        for timer in timers:
            timer.cancel()
