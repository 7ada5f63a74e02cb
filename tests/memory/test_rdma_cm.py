"""Both ends of an exchange by rdma_cm: real code, over emulated GPUs and a simulated rdma_cm."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest

from gdrcheck import steps
from gdrcheck.verbs import protocol
from gdrcheck.verbs.cm_protocol import (
    IMMEDIATE,
    MESSAGE_BYTES,
    CmReport,
    Go,
    Prepare,
    Prepared,
    Request,
    encode_request,
)
from tests.gpu_layer.emulation import SLOTS, Emulation
from tests.memory.children import Child
from tests.verbs import fake_cmid, fake_pyverbs

ADDRESS = "192.0.2.1"
TOKEN = "0123456789abcdef" * 2
RESULTS: dict[str, Any] = {"prepare": Prepared, "go": CmReport}


class CmChild(Child):
    """An rdma_cm child in a thread."""

    def tell(self, request: Request) -> Any:
        """Its result. protocol.WorkerFailure if it reports an error."""
        self._last += 1
        self._requests.write(encode_request(self._last, request))
        line = self._replies.readline()
        return protocol.decode_reply(line, self._last, request, RESULTS[request.command])


class Pair:
    """The child of the source, on the first GPU, and that of the sink, on the second."""

    def __init__(self, source: CmChild, sink: CmChild, emulation: Emulation) -> None:
        self.source, self.sink = source, sink
        self.emulation = emulation

    def prepare(self, memory: str, *methods: str, **changes: Any) -> int:
        """Get both ready; the port that the sink listens on."""
        self.source.tell(prepare("source", memory, methods, **changes))
        ready = self.sink.tell(prepare("sink", memory, methods, **changes))
        assert isinstance(ready.port, int)
        return ready.port

    def go(self, port: int) -> tuple[CmReport, CmReport]:
        """The reports of source and sink."""
        asked = Go(address=ADDRESS, port=port)
        with ThreadPoolExecutor(2) as pool:
            ends = [pool.submit(end.tell, asked) for end in (self.source, self.sink)]
            return ends[0].result(), ends[1].result()


def prepare(role: str, memory: str, methods: tuple[str, ...], **changes: Any) -> Prepare:
    fields = {
        "role": role,
        "memory": memory,
        "methods": methods or ("host",),
        "device": "sim0",
        "address": ADDRESS,
        "gpu": {"slot": SLOTS[role == "sink"]},
        "emulated": True,
        "token": TOKEN,
        "completion_s": 5,
        **changes,
    }
    return Prepare.model_validate(fields)


@pytest.fixture
def pair(own_emulation: Emulation) -> Iterator[Pair]:
    steps.set_sink(None)
    with fake_cmid.installed():
        with ExitStack() as stack:
            serve = fake_pyverbs.load("gdrcheck.memory.rdma_cm_worker").serve
            yield Pair(CmChild(serve, stack), CmChild(serve, stack), own_emulation)
            own_emulation.set()
            fake_pyverbs.nic.refuses.clear()
        assert fake_pyverbs.nic.alive == []


@pytest.mark.parametrize(
    ("memory", "methods"),
    [("pinned", ("host",)), ("gpu", ("dmabuf",)), ("gpu", ("peermem", "dmabuf"))],
)
def test_the_numbers_of_the_kernel_arrive(
    pair: Pair, memory: str, methods: tuple[str, ...]
) -> None:
    sent, arrived = pair.go(pair.prepare(memory, *methods))
    assert sent.completed, sent
    assert arrived.completed, arrived
    assert [message.method for message in arrived.messages] == list(methods)
    for message in (*sent.messages, *arrived.messages):
        assert message.first == (0, 2, 4, 6, 8)
    assert {message.immediate for message in arrived.messages} == {IMMEDIATE}
    assert fake_pyverbs.nic.transfers == [("SEND", MESSAGE_BYTES)] * len(methods)


def test_one_child_does_one_exchange_after_the_other(pair: Pair) -> None:
    for memory, method in (("pinned", "host"), ("gpu", "dmabuf"), ("gpu", "peermem")):
        sent, arrived = pair.go(pair.prepare(memory, method))
        assert sent.completed
        assert arrived.completed


def test_the_nic_is_given_the_address_of_the_method(pair: Pair) -> None:
    sent, _ = pair.go(pair.prepare("gpu", "dmabuf", "peermem"))
    by_offset, by_pointer = sent.messages
    assert by_offset.address == 0
    # The second message lies behind the first.
    assert by_pointer.address > MESSAGE_BYTES
    assert by_pointer.address % 4096 == 0


@pytest.mark.parametrize("memory", ["pinned", "gpu"])
def test_a_wrong_byte_at_the_sink_is_seen_by_both_verifiers(pair: Pair, memory: str) -> None:
    def spoil(sink: int, length: int) -> None:
        last = ctypes.c_uint8.from_address(sink + length - 1)
        last.value ^= 0xFF

    fake_pyverbs.nic.spoil = spoil
    _, arrived = pair.go(pair.prepare(memory, "host" if memory == "pinned" else "dmabuf"))
    (message,) = arrived.messages
    assert not arrived.completed
    assert message.by_gpu == message.by_cpu
    assert message.by_gpu is not None
    assert message.by_gpu.first_bad_offset == MESSAGE_BYTES - 1
    assert f"the first at {MESSAGE_BYTES - 1}" in arrived.wrong


def test_a_message_that_never_got_into_memory_is_poison(pair: Pair) -> None:
    fake_pyverbs.nic.copy = lambda _sink, _source, _length: None
    _, arrived = pair.go(pair.prepare("gpu", "dmabuf"))
    (message,) = arrived.messages
    assert message.by_gpu is not None
    assert (message.by_gpu.looks_like, message.by_gpu.bad_bytes) == ("poison", MESSAGE_BYTES)
    assert not arrived.completed


def test_another_immediate_is_wrong(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    port = pair.prepare("gpu", "dmabuf")
    deliver = fake_pyverbs.QP._deliver

    def other(self: Any, opcode: str, ends: tuple[int, bool, int], peer: Any, data: bytes) -> None:
        deliver(self, opcode, (*ends[:2], 0x35120000), peer, data)

    monkeypatch.setattr(fake_pyverbs.QP, "_deliver", other)
    _, arrived = pair.go(port)
    assert not arrived.completed
    assert arrived.wrong == "registered by dmabuf: the immediate is 0x1235, expected 0x1234"


def test_without_an_immediate_it_is_wrong(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    port = pair.prepare("gpu", "dmabuf")
    deliver = fake_pyverbs.QP._deliver

    def without(self: Any, _opcode: str, *rest: Any) -> None:
        deliver(self, "SEND", *rest)

    monkeypatch.setattr(fake_pyverbs.QP, "_deliver", without)
    _, arrived = pair.go(port)
    assert not arrived.completed


def test_the_gpus_writes_are_flushed_by_a_read_where_there_is_no_other_way(pair: Pair) -> None:
    # cuda.h: flush options and writes ordering, neither known to this driver.
    pair.emulation.set(attributes={117: 0, 118: 0})
    sent, arrived = pair.go(pair.prepare("gpu", "peermem"))
    assert sent.completed
    assert arrived.completed
    assert arrived.messages[0].flushed == "by read"
    assert ("READ", 1) in fake_pyverbs.nic.transfers


def test_a_completion_with_an_error_is_told(pair: Pair) -> None:
    port = pair.prepare("gpu", "dmabuf", completion_s=0.2)
    fake_pyverbs.nic.status, fake_pyverbs.nic.vendor_error = 12, 0x81
    sent, arrived = pair.go(port)
    assert not sent.completed
    assert not arrived.completed
    assert sent.completion_error is not None
    assert arrived.completion_error is not None
    assert (sent.completion_error.status, sent.completion_error.vendor_error) == (
        "RETRY_EXC_ERR",
        0x81,
    )
    assert arrived.completion_error.status == protocol.DEADLINE


def test_nobody_listens_there(pair: Pair) -> None:
    pair.prepare("pinned")
    with pytest.raises(protocol.WorkerFailure, match=r"192\.0\.2\.1 port 1: rdma_cm says REJECTED"):
        pair.source.tell(Go(address=ADDRESS, port=1))


def test_a_stranger_is_turned_away_and_the_other_end_still_served(pair: Pair) -> None:
    port = pair.prepare("gpu", "dmabuf")
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(pair.sink.tell, Go(address=ADDRESS, port=port))
        pair.source.tell(prepare("source", "gpu", ("dmabuf",), token="f" * 32))
        with pytest.raises(protocol.WorkerFailure, match="REJECTED"):
            pair.source.tell(Go(address=ADDRESS, port=port))
        pair.source.tell(prepare("source", "gpu", ("dmabuf",)))
        assert pair.source.tell(Go(address=ADDRESS, port=port)).completed
        assert waiting.result().completed


def test_a_taken_port_is_given_up_for_another(pair: Pair) -> None:
    fake_cmid.net.taken = 3
    assert pair.source.tell(prepare("source", "pinned", ())).port is None
    assert len(set(fake_cmid.net.bound)) > 1


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"address": "192.0.2.9"}, "rdma_bind_addr 192.0.2.9 port .*ENODEV"),
        ({"address": "127.0.0.1"}, "rdma_bind_addr 127.0.0.1: not the address of a port"),
        ({"address": "0.0.0.0"}, "rdma_bind_addr 0.0.0.0: not the address of a port"),
        ({"address": "node2"}, "rdma_bind_addr node2: not an IP address"),
        ({"device": "sim1"}, "192.0.2.1: is of sim0 port 1, not of sim1 port 1"),
        ({"port": 2}, "192.0.2.1: is of sim0 port 1, not of sim0 port 2"),
        ({"emulated": False}, "this process is the lab's emulation"),
        ({"gpu": {"slot": "0000:99:00.0"}}, "CUDA does not show the GPU at 0000:99:00.0"),
        ({"gpu": {"slot": SLOTS[0], "uuids": ["GPU-none"]}}, "CUDA does not show the GPU"),
    ],
)
def test_what_is_not_as_it_was_planned_is_refused(
    pair: Pair, changes: dict[str, Any], told: str
) -> None:
    with pytest.raises(protocol.WorkerFailure, match=told):
        pair.source.tell(prepare("source", "pinned", (), **changes))


def test_a_registration_that_is_refused_keeps_its_errno(pair: Pair) -> None:
    fake_pyverbs.nic.refuses = {"reg_dmabuf_mr": 95}
    with pytest.raises(protocol.WorkerFailure) as told:
        pair.source.tell(prepare("source", "gpu", ("dmabuf",)))
    assert told.value.info.errno == 95
    assert told.value.info.step == "register"


def test_an_export_that_is_refused_keeps_its_cuda_error(pair: Pair) -> None:
    pair.emulation.set(faults=("fail cuMemGetHandleForAddressRange = 801",))
    with pytest.raises(protocol.WorkerFailure) as told:
        pair.source.tell(prepare("source", "gpu", ("dmabuf",)))
    assert told.value.info.cuda == "CUDA_ERROR_NOT_SUPPORTED"


def test_managed_memory_is_not_sent_in_the_gpus_name(pair: Pair) -> None:
    pair.emulation.set(faults=("managed = 1",))
    with pytest.raises(protocol.WorkerFailure, match="not memory of the GPU"):
        pair.source.tell(prepare("source", "gpu", ("peermem",)))


def test_nothing_goes_unprepared(pair: Pair) -> None:
    with pytest.raises(protocol.WorkerFailure, match="nothing is prepared"):
        pair.source.tell(Go(address=ADDRESS, port=20_000))
    pair.go(pair.prepare("pinned"))
    with pytest.raises(protocol.WorkerFailure, match="nothing is prepared"):
        pair.source.tell(Go(address=ADDRESS, port=20_000))
