"""The loop-back over a simulated NIC: what is moved, and what is said when it is not."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import pytest

from tests.verbs import fake_pyverbs


@dataclass
class Ends:
    """A loop-back and two host buffers, registered from byte 100 of their payloads on."""

    loopback: Any
    source: Any
    sink: Any
    source_region: Any
    sink_region: Any


@contextmanager
def opened(device: Any) -> Iterator[Ends]:
    verbs = {
        name: fake_pyverbs.load(f"gdrcheck.verbs.{name}")
        for name in ("buffer", "device", "gid", "loopback", "memory", "queue_pair")
    }
    path = verbs["queue_pair"].Path(
        port=verbs["device"].PortInfo(1, "ACTIVE", "LinkUp", "ethernet", 0, 0, 4096),
        gid=verbs["gid"].GidChoice(1, "::ffff:192.0.2.1", "RoCE v2", "eth1"),
        pkey_index=0,
        traffic_class=0,
        service_level=0,
        promised_mtu=None,
        completion_s=1,
    )
    with contextlib.ExitStack() as stack:
        source, sink = verbs["buffer"].HostBuffer(4096), verbs["buffer"].HostBuffer(4096)
        regions = [
            stack.enter_context(
                verbs["memory"].register(
                    device, buffer.payload_address + 100, 3000, verbs["memory"].REMOTE
                )
            )
            for buffer in (source, sink)
        ]
        loopback = stack.enter_context(verbs["loopback"].open_loopback(device, path))
        yield Ends(loopback, source, sink, *regions)


@pytest.mark.parametrize("operation", ["WRITE", "READ"])
def test_bytes_go_from_the_source_to_the_sink_whatever_the_operation(
    fake_device: Any, operation: str
) -> None:
    with opened(fake_device) as ends:
        ends.source.payload[:] = 7
        ends.loopback.move(operation, (ends.source_region, 5), (ends.sink_region, 11), 33, 1)
        assert ends.sink.payload[111:144].tolist() == [7] * 33
        assert int(ends.sink.payload.sum()) == 7 * 33
        assert (ends.source.payload == 7).all()
        assert fake_pyverbs.nic.transfers == [(operation, 33)]


def test_a_write_is_over_only_when_the_sinks_owner_was_told(fake_device: Any) -> None:
    """The receive's completion, which orders what the owner reads, is waited for."""
    with opened(fake_device) as ends:
        queue = ends.loopback._queue.cq
        ends.loopback.move("WRITE", (ends.source_region, 0), (ends.sink_region, 0), 1, 1)
        assert not queue.work
        # Nothing of the sink's queue pair is left posted.
        assert not any(pair.receives for pair in fake_pyverbs.nic.pairs.values())


def test_a_refusal_of_the_far_end_is_told_and_not_what_was_flushed_by_it(fake_device: Any) -> None:
    with opened(fake_device) as ends:
        wrong = replace(ends.sink_region, rkey=ends.sink_region.rkey + 77)
        with pytest.raises(Exception, match=r"RDMA WRITE of 8 B through sim0") as told:
            ends.loopback.move("WRITE", (ends.source_region, 0), (wrong, 0), 8, 1)
    assert told.value.status == "REM_ACCESS_ERR"


def test_only_flushed_requests_are_a_failure_as_well(fake_device: Any) -> None:
    with opened(fake_device) as ends:
        fake_pyverbs.nic.status = 5
        with pytest.raises(Exception, match="WR_FLUSH_ERR") as told:
            ends.loopback.move("READ", (ends.source_region, 0), (ends.sink_region, 0), 8, 1)
    assert told.value.status == "WR_FLUSH_ERR"


def test_a_transfer_that_never_completes_ends_at_the_deadline(fake_device: Any) -> None:
    with opened(fake_device) as ends:
        fake_pyverbs.nic.status = None
        with pytest.raises(Exception, match=r"not completed within 0\.02 s") as told:
            ends.loopback.move("READ", (ends.source_region, 0), (ends.sink_region, 0), 8, 0.02)
    assert told.value.status == "DEADLINE"


def test_a_place_outside_of_the_region_is_never_posted(fake_device: Any) -> None:
    with opened(fake_device) as ends:
        with pytest.raises(ValueError, match="not within a region"):
            ends.loopback.move("READ", (ends.source_region, 2999), (ends.sink_region, 0), 2, 1)
        assert fake_pyverbs.nic.transfers == []


def test_a_second_queue_pair_that_is_refused_takes_the_first_back(fake_device: Any) -> None:
    fake_pyverbs.nic.refuses["create_qp"], fake_pyverbs.nic.after["create_qp"] = 12, 1
    with pytest.raises(Exception, match="ibv_create_qp on sim0: ENOMEM"), opened(fake_device):
        pass
    assert fake_pyverbs.nic.alive == ["context", "pd"]
