"""Two endpoint children, one on each of two lab nodes, driven from here over ssh."""

from __future__ import annotations

import contextlib
import shlex
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

from pydantic import BaseModel

from gdrcheck.verbs import protocol
from lab import api

Result = TypeVar("Result", bound=BaseModel)


def container(image: str) -> str:
    """The shell command that runs Python in ``image`` on a node, less Python's own arguments.

    It has what a container needs for RDMA, as the playbook grants it.
    """
    return (
        "sudo podman run --interactive --rm --network host --read-only "
        "--device /dev/infiniband/uverbs0 --cap-drop all --cap-add IPC_LOCK "
        f"--ulimit memlock=-1:-1 --entrypoint /usr/bin/python3 {shlex.quote(image)}"
    )


class WorkerEnd:
    """One child and its numbered requests."""

    def __init__(self, node: api.Node, command: str) -> None:
        self.node = node
        self._last = 0
        self._process = subprocess.Popen(
            node.ssh_command(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )

    def ask(self, request: protocol.Request, expected: type[Result]) -> Result:
        """The reply to a request. Raises what ``protocol.decode_reply`` raises, or EOFError."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._last += 1
        self._process.stdin.write(protocol.encode_request(self._last, request))
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise EOFError(f"the worker on {self.node.name} ended during {request.command}")
        return protocol.decode_reply(line, self._last, request, expected)

    def close(self) -> None:
        """End the child by ending its stdin."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class WorkerPair:
    """Two connected ends: ``source`` measures, ``sink`` serves."""

    def __init__(self, source: WorkerEnd, sink: WorkerEnd) -> None:
        self._ends = (source, sink)

    def both(
        self, source: protocol.Request, sink: protocol.Request, expected: type[Result]
    ) -> tuple[Result, Result]:
        """Ask both ends at the same time; the results of source and sink."""
        with ThreadPoolExecutor(2) as pool:
            asked = [
                pool.submit(end.ask, request, expected)
                for end, request in zip(self._ends, (source, sink), strict=True)
            ]
            return asked[0].result(), asked[1].result()

    def connect(self, queue_pairs: int = 1) -> None:
        """Make queue pairs on both ends and connect them."""
        made = protocol.CreateQp(queue_pairs=queue_pairs)
        source, sink = self.both(made, made, protocol.EndpointInfo)
        self.both(
            protocol.Connect(remote=sink), protocol.Connect(remote=source), protocol.Connected
        )


@contextmanager
def worker_pair(
    source: api.Node, sink: api.Node, request: protocol.Open, image: str, queue_pairs: int = 1
) -> Iterator[tuple[WorkerPair, protocol.Opened]]:
    """Workers in containers of ``image`` on two nodes, opened and connected; ended afterwards.

    Beside the pair: what the source opened.
    """
    command = f"{container(image)} -m gdrcheck.memory.worker"
    with contextlib.ExitStack() as stack:
        ends = []
        for node in (source, sink):
            end = WorkerEnd(node, command)
            stack.callback(end.close)
            ends.append(end)
        pair = WorkerPair(*ends)
        opened, _ = pair.both(request, request, protocol.Opened)
        pair.connect(queue_pairs)
        yield pair, opened
