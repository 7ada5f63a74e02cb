"""Two endpoint children in threads of this process: real code on both ends, over a simulated NIC.

Each has a GPU of its own of the emulated driver, and host memory.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any, BinaryIO

from gdrcheck import steps
from gdrcheck.registration import METHODS, Method
from gdrcheck.transfer import Mode, Operation, Role, Variant, variants
from gdrcheck.verbs import protocol
from gdrcheck.verbs.protocol import Arm, ExchangeResult
from tests.gpu_layer.emulation import SLOTS, Emulation
from tests.verbs import fake_pyverbs

ROLES: tuple[Role, ...] = ("source", "sink")
BUFFER_BYTES = 1 << 17


class Child:
    """One endpoint child: requests go in and replies come back as lines, as in a process."""

    def __init__(self, serve: Callable[[BinaryIO, BinaryIO], None], stack: ExitStack) -> None:
        (asked, ask), (answers, answer) = os.pipe(), os.pipe()
        self._requests = os.fdopen(ask, "wb", buffering=0)
        self._replies = stack.enter_context(os.fdopen(answers, "rb"))
        self._last = 0

        def run() -> None:
            with os.fdopen(asked, "rb") as requests, os.fdopen(answer, "wb") as replies:
                serve(requests, replies)

        thread = threading.Thread(target=run)
        thread.start()
        stack.callback(thread.join)
        stack.callback(self._requests.close)

    def ask(self, request: protocol.Request) -> Any:
        """Its result. protocol.WorkerFailure if it reports an error."""
        self._last += 1
        self._requests.write(protocol.encode_request(self._last, request))
        expected = protocol.RESULT_OF[request.command]
        return protocol.decode_reply(self._replies.readline(), self._last, request, expected)


class Children:
    """The child of the source and that of the sink; ``ask`` both at the same time."""

    def __init__(self, source: Child, sink: Child) -> None:
        self.ends = (source, sink)

    def ask(self, *requests: protocol.Request) -> tuple[Any, Any]:
        """What source and sink answer, each to its request, or both to the same one."""
        asked = requests if len(requests) == 2 else requests * 2
        with ThreadPoolExecutor(2) as pool:
            first, second = (
                pool.submit(end.ask, request) for end, request in zip(self.ends, asked, strict=True)
            )
            return first.result(), second.result()

    def open(self, *, gpu: bool = True, methods: tuple[Method, ...] = METHODS, **more: Any) -> Any:
        """Open both ends, with GPU memory of the first GPU and of the second."""
        fields = {"device": "sim0", "buffer_bytes": BUFFER_BYTES, "completion_s": 10, **more}
        opened = self.ask(protocol.Open.model_validate(fields))
        if gpu:
            self.ask(*(gpu_of(end, methods) for end in range(2)))
        return opened

    def connect(self, queue_pairs: int = 2) -> None:
        """Make queue pairs at both ends and connect them."""
        source, sink = self.ask(protocol.CreateQp(queue_pairs=queue_pairs))
        self.ask(protocol.Connect(remote=sink), protocol.Connect(remote=source))

    def exchange(
        self, operation: Operation, mode: Mode | tuple[Variant, ...], **changes: Any
    ) -> tuple[ExchangeResult, ExchangeResult]:
        """The results of source and sink."""
        ways = variants(mode, METHODS, METHODS) if isinstance(mode, str) else mode
        self.ask(*(armed(operation, role, ways, **changes) for role in ROLES))
        return self.ask(protocol.Go())


def gpu_of(end: int, methods: tuple[Method, ...] = METHODS, **more: Any) -> protocol.OpenGpu:
    """The request for the GPU of the first end, or of the second."""
    fields = {
        "gpu": {"slot": SLOTS[end]},
        "methods": methods,
        "emulated": True,
        "buffer_bytes": BUFFER_BYTES,
        **more,
    }
    return protocol.OpenGpu.model_validate(fields)


def armed(operation: Operation, role: Role, ways: tuple[Variant, ...], **changes: Any) -> Arm:
    """The plan of one end."""
    sizes = (8,) if operation in ("FETCH_ADD", "CMP_SWAP") else (1, 8, 65, 4097)
    fields = {
        "operation": operation,
        "role": role,
        "variants": ways,
        "sizes_bytes": sizes,
        "iterations": 2,
        "run_tag": 42,
        "direction": 1,
        **changes,
    }
    return Arm.model_validate(fields)


@contextmanager
def children(emulation: Emulation) -> Iterator[Children]:
    """Two children that have done nothing yet; ended afterwards, when nothing of them is left."""
    emulation.set()
    steps.set_sink(None)
    # The simulated NIC says that its netdev is the first interface of this machine.
    assert socket.if_indextoname(1)
    with fake_pyverbs.installed():
        with ExitStack() as stack:
            serve = fake_pyverbs.load("gdrcheck.memory.worker").serve
            yield Children(Child(serve, stack), Child(serve, stack))
            emulation.set()
            fake_pyverbs.nic.refuses.clear()
        assert fake_pyverbs.nic.alive == []


@contextmanager
def connected(emulation: Emulation, **more: Any) -> Iterator[Children]:
    """Two children, opened and connected."""
    with children(emulation) as both:
        both.open(**more)
        both.connect()
        yield both


def renewed(pair: Children) -> None:
    """New queue pairs on both ends."""
    pair.ask(protocol.CloseQp())
    pair.connect()
