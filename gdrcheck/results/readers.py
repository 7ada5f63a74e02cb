"""Reading the events of many nodes in processes of their own, so that both cores have work."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from fcntl import F_SETPIPE_SZ, fcntl
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from threading import Timer
from typing import NamedTuple

from gdrcheck.outcome import InputError
from gdrcheck.results import packed
from gdrcheck.results.told import Told, tell

# Up to here the start of the processes costs more than they save.
MAX_ALONE = 32
MAX_READERS = 2
# One node's events are 64 MiB at most, which take seconds.
DEADLINE_S = 300
END_S = 10
# Of several nodes. What anybody may ask for, as Linux is set up.
PIPE_BYTES = 1 << 20
REMEDY = "start the merge again"
# Never a copy of this process: it may have threads, and what it holds is of no use there.
CONTEXT = get_context("spawn")


class Task(NamedTuple):
    """A node to read; ``death`` says why cases of it may have no result."""

    node: str
    death: str


class _Reader(NamedTuple):
    process: BaseProcess
    way: Connection


@contextmanager
def reading(folder: Path, run_id: str, tasks: Sequence[Task]) -> Iterator[Iterator[Told]]:
    """What each node of ``tasks`` tells in ``folder``/NODE, in their order, as ``tell`` has it.

    The processes end with the block. The iterator raises InputError, one line, when one of them
    dies or takes too long: which node it was reading, and what to do.
    """
    count = 1 if len(tasks) <= MAX_ALONE else min(MAX_READERS, len(os.sched_getaffinity(0)))
    if count == 1:
        yield (tell(folder / task.node, task.node, run_id, task.death) for task in tasks)
        return
    with ExitStack() as stack:
        readers = [
            stack.enter_context(_started(folder, run_id, tasks[number::count]))
            for number in range(count)
        ]
        yield (_received(readers[number % count], task.node) for number, task in enumerate(tasks))


@contextmanager
def _started(folder: Path, run_id: str, tasks: Sequence[Task]) -> Iterator[_Reader]:
    """A process that sends what each node of ``tasks`` tells; it waits until that is taken."""
    ours, its = CONTEXT.Pipe(duplex=False)
    _widen(its)
    process = CONTEXT.Process(target=_read, args=(its, folder, run_id, tasks), daemon=True)
    with ours:
        # With no end of the pipe left here, the death of the process is the end of the file.
        with its:
            try:
                process.start()
            except OSError as error:
                what = f"cannot start a process to read what the nodes sent: {error.strerror}"
                raise InputError(f"{what}; {REMEDY} with less else to do") from error
        try:
            yield _Reader(process, ours)
        finally:
            process.kill()
            process.join(END_S)


def _widen(way: Connection) -> None:
    """Let a process read on while the merge is at what it sent before; else they wait in turns."""
    # Beyond what one user's pipes may hold the kernel refuses: then the pipe stays as it is.
    with suppress(PermissionError):
        fcntl(way.fileno(), F_SETPIPE_SZ, PIPE_BYTES)


def _read(way: Connection, folder: Path, run_id: str, tasks: Sequence[Task]) -> None:
    """The whole life of a reader process."""
    # Ctrl-C goes to all processes of a terminal: this one ends when the merge does.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.disable()
    with suppress(BrokenPipeError), way:
        for task in tasks:
            way.send_bytes(packed.pack(tell(folder / task.node, task.node, run_id, task.death)))


def _received(reader: _Reader, node: str) -> Told:
    late = f"reading the events of {node} took more than {DEADLINE_S} s; {REMEDY}"
    if not reader.way.poll(DEADLINE_S):
        raise InputError(late)
    # It comes in parts, and between two of them there is no deadline but this.
    timer = Timer(DEADLINE_S, reader.process.kill)
    timer.start()
    try:
        return packed.unpack(reader.way.recv_bytes(), node)
    # The end of the file; in the midst of a message it is an OSError.
    except (EOFError, OSError) as error:
        if not timer.is_alive():
            raise InputError(late) from error
        reader.process.join(END_S)
        raise InputError(
            f"the process that read the events of {node} ended with {_end(reader.process)}; "
            f"if memory is short, free some; {REMEDY}"
        ) from error
    finally:
        timer.cancel()


def _end(process: BaseProcess) -> str:
    code = process.exitcode
    if code is None or code >= 0:
        return f"exit code {code}"
    with suppress(ValueError):
        return f"signal {signal.Signals(-code).name}"
    return f"signal {-code}"
