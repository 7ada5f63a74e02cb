"""What two endpoint children refuse, and what of a failure each of them tells."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from gdrcheck.registration import METHODS
from gdrcheck.transfer import ATOMICS, Operation, variants
from gdrcheck.verbs import protocol
from tests.gpu_layer.emulation import Emulation
from tests.memory.children import ROLES, Children, armed, children, connected, gpu_of, renewed
from tests.verbs import fake_pyverbs


@pytest.mark.parametrize("operation", ["WRITE", "READ"])
@pytest.mark.parametrize("end", [0, 1])
@pytest.mark.parametrize("after", [0, 6])
def test_a_kernel_that_fails_stops_the_other_end_and_has_the_name_of_its_error(
    pair: Children, own_emulation: Emulation, operation: Operation, end: int, after: int
) -> None:
    pair.ask(*(armed(operation, role, variants("gpu-gpu", METHODS, METHODS)) for role in ROLES))
    own_emulation.set(faults_of={end: [f"fail cuLaunchKernel = 719 after {after}"]})
    with ThreadPoolExecutor(2) as pool:
        answers = [pool.submit(one.ask, protocol.Go()) for one in pair.ends]
        with pytest.raises(protocol.WorkerFailure) as told:
            answers[end].result()
        other = answers[1 - end].result()
    assert told.value.info.cuda == "CUDA_ERROR_LAUNCH_FAILED"
    assert other.stopped_by_peer
    assert other.completion_error is None
    own_emulation.set()
    with pytest.raises(protocol.WorkerFailure, match="queue pairs are used up"):
        pair.ends[end].ask(protocol.Go())


def test_a_completion_with_an_error_has_status_syndrome_and_variant(pair: Children) -> None:
    fake_pyverbs.nic.status, fake_pyverbs.nic.vendor_error = 12, 0x81
    for result in pair.exchange("WRITE", "gpu-gpu"):
        assert not result.completed
        assert result.completion_error is not None
        assert result.completion_error.status == "RETRY_EXC_ERR"
        assert result.completion_error.vendor_error == 0x81
        assert result.port_state == "ACTIVE"
    with pytest.raises(protocol.WorkerFailure, match="queue pairs are used up"):
        pair.exchange("WRITE", "gpu-gpu")
    fake_pyverbs.nic.status = 0
    renewed(pair)
    assert pair.exchange("WRITE", "gpu-gpu")[1].completed


@pytest.mark.parametrize("operation", ATOMICS)
def test_atomic_operations_are_refused_where_they_were_not_asked_for(
    own_emulation: Emulation, operation: Operation
) -> None:
    with connected(own_emulation, completion_s=1) as both:
        source, _ = both.exchange(operation, "gpu-gpu")
    assert source.completion_error is not None
    assert source.completion_error.status == "REM_ACCESS_ERR"


@pytest.mark.parametrize(
    ("fault", "cuda", "said"),
    [
        ("fail cuInit = 999", "CUDA_ERROR_UNKNOWN", "cuInit"),
        ("fail cuMemAlloc = 2", "CUDA_ERROR_OUT_OF_MEMORY", "cuMemAlloc"),
        ("fail cuMemGetHandleForAddressRange = 801", "CUDA_ERROR_NOT_SUPPORTED", "dma-buf|Handle"),
        ("managed = 1", None, "not memory of the GPU"),
    ],
)
def test_a_gpu_that_refuses_is_told_with_its_error_and_host_memory_goes_on(
    own_emulation: Emulation, fault: str, cuda: str | None, said: str
) -> None:
    with children(own_emulation) as both:
        both.open(gpu=False)
        own_emulation.set(faults=[fault])
        with pytest.raises(protocol.WorkerFailure, match=said) as told:
            both.ends[0].ask(gpu_of(0))
        assert told.value.info.cuda == cuda
        own_emulation.set()
        both.connect()
        assert both.exchange("SEND", "host-host")[1].completed


def test_a_region_that_the_nic_refuses_has_its_errno(own_emulation: Emulation) -> None:
    with children(own_emulation) as both:
        both.open(gpu=False)
        fake_pyverbs.nic.refuses["reg_dmabuf_mr"] = 95
        with pytest.raises(protocol.WorkerFailure, match="ibv_reg_dmabuf_mr") as told:
            both.ends[0].ask(gpu_of(0))
        assert (told.value.info.errno, told.value.info.cuda) == (95, None)
        # By the other method alone it works.
        both.ends[0].ask(gpu_of(0, ("peermem",)))


def test_a_driver_of_the_other_kind_is_refused(own_emulation: Emulation) -> None:
    with children(own_emulation) as both:
        both.open(gpu=False)
        with pytest.raises(protocol.WorkerFailure, match="lab's emulation"):
            both.ends[0].ask(gpu_of(0, emulated=False))
        with pytest.raises(protocol.WorkerFailure, match=r"does not show the GPU at 0000:99:00\.0"):
            both.ends[0].ask(gpu_of(0, gpu={"slot": "0000:99:00.0"}))


# --- the order of commands --------------------------------------------------------------------


def test_a_gid_index_that_is_forced_is_used_and_one_that_is_not_there_refused(
    own_emulation: Emulation,
) -> None:
    with children(own_emulation) as both:
        source, sink = both.open(gpu=False, gid_index=0)
        assert (source.gid_index, source.gid) == (0, "fe80::1")
        assert sink.gid_index == 0
        both.ask(protocol.Close())
        with pytest.raises(protocol.WorkerFailure, match="index 7, as asked"):
            both.ends[0].ask(protocol.Open(device="sim0", gid_index=7))


def test_the_state_of_the_port_can_be_asked_for_and_may_be_unreadable(pair: Children) -> None:
    source, _ = pair.ask(protocol.PortState())
    assert source.state == "ACTIVE"
    fake_pyverbs.nic.refuses["query_port"] = 19
    _, sink = pair.ask(protocol.PortState())
    assert sink.state.startswith("unreadable: query port 1 of sim0: ENODEV")


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        (protocol.Open(device="sim0"), "sim0 is open already"),
        (gpu_of(0), "there are queue pairs already"),
        (protocol.CreateQp(), "there are queue pairs already"),
        (protocol.Go(), "nothing is armed"),
    ],
)
def test_a_command_out_of_order_is_refused_and_changes_nothing(
    pair: Children, request_: protocol.Request, reason: str
) -> None:
    with pytest.raises(protocol.WorkerFailure, match=reason):
        pair.ends[0].ask(request_)
    assert pair.exchange("SEND", "host-host")[1].completed


def test_ends_with_different_numbers_of_queue_pairs_do_not_connect(
    own_emulation: Emulation,
) -> None:
    with children(own_emulation) as both:
        both.open(gpu=False)
        source, sink = both.ask(protocol.CreateQp(queue_pairs=1), protocol.CreateQp(queue_pairs=2))
        with pytest.raises(protocol.WorkerFailure, match="this end has 1 queue pairs, the other"):
            both.ask(protocol.Connect(remote=sink), protocol.Connect(remote=source))


def test_everything_is_undone_the_last_first(pair: Children) -> None:
    pair.exchange("SEND", "gpu-gpu")
    pair.ask(protocol.Close())
    assert fake_pyverbs.nic.alive == []
    pair.open()
    pair.connect()
    assert pair.exchange("SEND", "gpu-gpu")[1].completed
