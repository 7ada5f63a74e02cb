"""Registering memory of the emulated GPU with a simulated NIC: what comes back, what is undone."""

from __future__ import annotations

import os
from collections.abc import Sequence

import pytest

from gdrcheck.registration import METHODS, Attempt, Method
from tests.gpu_layer.bodies import open_descriptors
from tests.memory.conftest import World

SIZES = (64 << 10, 2 << 20, 4 << 20)


def attempt(world: World, method: Method, sizes: Sequence[int] = SIZES) -> Attempt:
    """The result, after which neither the GPU nor the NIC holds anything."""
    free_before, _ = world.gpu.memory_info()
    files = open_descriptors()
    result: Attempt = world.load("memory.attempt").attempt(
        world.gpu, world.device, method, bar1_bytes=1 << 30, wanted_bytes=sizes
    )
    assert open_descriptors() == files
    if "dereg_mr" not in world.nic.refuses:
        assert world.nic.alive == world.at_rest
    world.emulation.set()
    assert world.gpu.memory_info()[0] == free_before
    return result


@pytest.mark.parametrize("method", METHODS)
def test_every_size_and_every_kind_of_range_registers(world: World, method: Method) -> None:
    result = attempt(world, method)
    assert result.refusal is None
    assert result.sizes_bytes == SIZES
    assert result.registered_bytes == SIZES[-1]
    kinds = [region.range for region in result.regions]
    assert kinds == ["whole", "whole", "interior", "first neighbour", "second neighbour", "whole"]
    for region in result.regions:
        assert (region.address, region.length_bytes) == (
            region.requested_address,
            region.requested_bytes,
        )
        assert region.register_us > 0
        assert region.deregister_us > 0
        assert (region.flag == "plain") is (region.export_us is not None) is (method == "dmabuf")
    assert result.growth is not None
    assert result.growth.times == 64
    assert result.growth.fds_after == result.growth.fds_before
    assert result.proof is not None
    assert result.proof.gpu_memory


def test_a_region_of_a_dmabuf_is_addressed_by_offset_inside_of_a_page(world: World) -> None:
    interior, first, second = attempt(world, "dmabuf").regions[2:5]
    page = os.sysconf("SC_PAGESIZE")
    for region in (interior, first, second):
        assert 0 < region.address < page
        assert region.requested_bytes % page
    assert (first.address + first.length_bytes) % page == second.address


def test_neighbours_touch_and_live_at_the_same_time(world: World) -> None:
    first, second = attempt(world, "peermem").regions[3:5]
    assert first.address + first.length_bytes == second.address
    assert first.lkey != second.lkey
    registered = [
        number
        for number, step in enumerate(world.steps)
        if step.startswith(("ibv_reg_mr 525065 B", "ibv_reg_mr 525067 B"))
    ]
    assert len(registered) == 2
    between = world.steps[registered[0] : registered[1]]
    assert not any(step.startswith("ibv_dereg_mr") for step in between)


@pytest.mark.parametrize(
    ("method", "call", "number"), [("peermem", "reg_mr", 14), ("dmabuf", "reg_dmabuf_mr", 22)]
)
def test_a_refused_registration_says_errno_size_and_range(
    world: World, method: Method, call: str, number: int
) -> None:
    world.nic.refuses[call] = number
    # The probe calls ibv_reg_dmabuf_mr, too.
    result = attempt(world, method)
    assert result.refusal is not None
    assert (result.refusal.stage, result.refusal.errno) == ("register", number)
    assert (result.refusal.range, result.refusal.length_bytes) == ("whole", 64 << 10)
    assert result.refusal.cuda is None
    assert result.regions == ()
    assert result.growth is None


def test_what_worked_before_a_refusal_is_kept(world: World) -> None:
    world.nic.refuses["reg_mr"] = 14
    # All of the smallest size: once, then warm-up and rounds; the whole of the second.
    world.nic.after["reg_mr"] = 1 + 8 + 64 + 1
    result = attempt(world, "peermem")
    assert result.refusal is not None
    assert result.refusal.range == "interior"
    assert result.registered_bytes == 2 << 20
    assert result.growth is not None


def test_a_second_neighbour_that_is_refused_takes_the_first_back(world: World) -> None:
    world.nic.refuses["reg_mr"] = 12
    world.nic.after["reg_mr"] = 1 + 8 + 64 + 1 + 1 + 1
    result = attempt(world, "peermem")
    assert result.refusal is not None
    assert result.refusal.range == "second neighbour"
    assert result.regions[-1].range == "first neighbour"
    assert result.regions[-1].deregister_us > 0


def test_a_deregistration_that_fails_is_a_refusal_and_the_rest_is_undone(world: World) -> None:
    world.nic.refuses["dereg_mr"] = 16
    result = attempt(world, "dmabuf")
    assert result.refusal is not None
    assert (result.refusal.stage, result.refusal.errno) == ("deregister", 16)
    world.nic.refuses.clear()


def test_the_first_refusal_is_the_cause_and_the_others_are_told(world: World) -> None:
    world.nic.refuses |= {"reg_mr": 12, "dereg_mr": 16}
    # The first neighbour is registered when the second is refused, and then cannot be undone.
    world.nic.after |= {"reg_mr": 1 + 8 + 64 + 1 + 1 + 1, "dereg_mr": 1 + 8 + 64 + 1 + 1}
    result = attempt(world, "peermem")
    assert result.refusal is not None
    assert (result.refusal.stage, result.refusal.errno) == ("register", 12)
    assert "while undoing it: ibv_dereg_mr on sim0: EBUSY" in result.refusal.text
    world.nic.refuses.clear()


@pytest.mark.parametrize(
    ("fault", "stage", "name"),
    [
        ("fail cuMemAlloc = 2", "allocate", "CUDA_ERROR_OUT_OF_MEMORY"),
        ("fail cuMemGetHandleForAddressRange = 801", "export", "CUDA_ERROR_NOT_SUPPORTED"),
        ("fail cuPointerGetAttribute = 1", "prove", "CUDA_ERROR_INVALID_VALUE"),
        ("fail cuMemGetInfo = 999", "allocate", "CUDA_ERROR_UNKNOWN"),
        ("gone = 1", "allocate", "CUDA_ERROR_UNKNOWN"),
    ],
)
def test_a_refusal_of_the_gpu_has_the_name_of_its_error(
    world: World, fault: str, stage: str, name: str
) -> None:
    free, _ = world.gpu.memory_info()
    world.emulation.set(faults=[fault])
    result: Attempt = world.load("memory.attempt").attempt(
        world.gpu, world.device, "dmabuf", bar1_bytes=None, wanted_bytes=SIZES
    )
    assert result.refusal is not None
    assert (result.refusal.stage, result.refusal.cuda) == (stage, name)
    assert result.refusal.errno is None
    assert world.nic.alive == world.at_rest
    world.emulation.set()
    assert world.gpu.memory_info()[0] == free


def test_managed_memory_is_never_registered(world: World) -> None:
    world.emulation.set(faults=["managed = 1"])
    result = attempt(world, "peermem")
    assert result.refusal is not None
    assert result.refusal.stage == "prove"
    assert "managed" in result.refusal.text
    assert result.proof is not None
    assert not result.proof.gpu_memory
    assert result.regions == ()
    assert not any(step.startswith("ibv_reg_mr") for step in world.steps)


def test_the_probes_come_first_and_are_kept(world: World) -> None:
    result = attempt(world, "peermem")
    assert (result.support.dmabuf_errno, result.support.dmabuf_attribute) == (9, True)
    first = next(step for step in world.steps if step.startswith(("ibv_reg", "cuMemAlloc")))
    assert first.startswith("ibv_reg_dmabuf_mr")
    assert "of dma-buf -1" in first


def test_a_device_without_the_call_is_tried_all_the_same(world: World) -> None:
    world.nic.refuses["reg_dmabuf_mr"] = 95
    result = attempt(world, "dmabuf")
    assert result.support.dmabuf_errno == 95
    assert result.refusal is not None
    assert (result.refusal.stage, result.refusal.errno) == ("register", 95)


def test_the_region_goes_before_its_descriptor_and_both_before_the_memory(world: World) -> None:
    world.steps.clear()
    attempt(world, "dmabuf", sizes=(64 << 10,))
    last = [
        max(number for number, step in enumerate(world.steps) if step.startswith(prefix))
        for prefix in ("ibv_reg_dmabuf_mr", "ibv_dereg_mr", "cuMemFree")
    ]
    assert last == sorted(last)


def coherent(world: World) -> None:
    """Its GPU exports for PCIe as well, as one that shares page tables with the CPU does."""
    world.emulation.set(attributes={100: 1})


def test_a_nic_that_refuses_the_mapping_for_pcie_gets_the_plain_one_and_that_is_told(
    world: World,
) -> None:
    coherent(world)
    # The first after the probe.
    world.nic.refuses["reg_dmabuf_mr"] = 524
    world.nic.after["reg_dmabuf_mr"] = world.nic.times["reg_dmabuf_mr"] = 1
    result = attempt(world, "dmabuf")
    assert result.refusal is None
    assert {region.flag for region in result.regions} == {"plain"}
    assert all("errno 524" in region.other_refused for region in result.regions)
    pcie = "cuMemGetHandleForAddressRange (pcie)"
    asked = [step for step in world.steps if step.startswith(pcie)]
    assert len(asked) == 1


def test_the_mapping_for_pcie_is_kept_where_the_nic_takes_it(world: World) -> None:
    coherent(world)
    result = attempt(world, "dmabuf")
    assert result.refusal is None
    assert {(region.flag, region.other_refused) for region in result.regions} == {("pcie", "")}


def test_a_mapping_that_worked_once_is_not_exchanged_for_another(world: World) -> None:
    coherent(world)
    world.nic.refuses["reg_dmabuf_mr"] = 12
    # The probe and all of the smallest size, as far as that is registered as a whole.
    world.nic.after["reg_dmabuf_mr"] = 1 + 1 + 8 + 64
    result = attempt(world, "dmabuf")
    assert result.refusal is not None
    assert (result.refusal.errno, result.refusal.length_bytes) == (12, 2 << 20)
    assert {region.flag for region in result.regions} == {"pcie"}


def test_a_nic_that_refuses_both_mappings_is_told_with_both(world: World) -> None:
    coherent(world)
    world.nic.refuses["reg_dmabuf_mr"] = 22
    result = attempt(world, "dmabuf")
    assert result.regions == ()
    assert result.refusal is not None
    assert (result.refusal.stage, result.refusal.errno) == ("register", 22)
    assert result.refusal.text.count("EINVAL") == 2


def test_what_others_take_of_the_gpu_meanwhile_is_no_leak(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken(world, monkeypatch, [0, 64 << 20])
    growth = attempt(world, "peermem").growth
    assert growth is not None
    assert growth.left == ()


def test_what_is_taken_again_and_again_is_a_leak(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken(world, monkeypatch, [0, *(number * (32 << 20) for number in range(1, 9))])
    growth = attempt(world, "peermem").growth
    assert growth is not None
    assert growth.left == (f"{32 << 20} bytes of the GPU",)


def taken(world: World, monkeypatch: pytest.MonkeyPatch, amounts: Sequence[int]) -> None:
    """Before each look at what is free, so much is in use by others; after the last, as then."""
    left = list(amounts)
    state = world.load("memory.growth")._state

    def after_others(*arguments: object) -> tuple[int, int, int]:
        files, resident, free = state(*arguments)
        return files, resident, free - (left.pop(0) if len(left) > 1 else left[0])

    monkeypatch.setattr(world.load("memory.growth"), "_state", after_others)


def test_the_first_program_that_registers_gpu_memory_keeps_its_promises(world: World) -> None:
    """Allocate 4 KiB, register the device pointer, compare address and length, give all back."""
    result = attempt(world, "peermem", (4096,))
    assert result.refusal is None
    (region,) = result.regions
    assert region.requested_bytes == region.length_bytes == 4096
    assert region.address == region.requested_address
    assert region.lkey
    assert region.rkey
    assert result.proof is not None
    assert result.proof.gpu_memory
    steps = [step.partition(" ")[0] for step in world.steps]
    assert steps.index("cuMemAlloc") < steps.index("ibv_reg_mr")
    assert steps[::-1].index("cuMemFree") < steps[::-1].index("ibv_dereg_mr")


def test_what_is_too_small_for_ranges_inside_registers_whole(world: World) -> None:
    assert [one.range for one in attempt(world, "dmabuf", (4096, 64 << 10)).regions] == [
        "whole",
        "whole",
        "interior",
        "first neighbour",
        "second neighbour",
    ]
