"""Faults of GPUs, drivers and NICs: each is read back as its own finding, at its own place only.

Whatever is wrong with one of the two GPUs, every case of the other one passes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from gdrcheck.outcome import Outcome
from gdrcheck.registration import METHODS
from lab.emulated_gpu.config import Config, Faults
from tests import facts as builders
from tests.captured.running import Ran
from tests.checks.world import CONFIG, World, facts, peermem, profile, wrong
from tests.verbs.fake_pyverbs import Nic

GPUS = ("gpu0", "gpu1")
OF_A_GPU = ("gpu_opens", "gpu_memory_kinds", "gpu_pattern")
EFAULT, EOPNOTSUPP = 14, 95


def cases_of(gpu: str, ran: Ran) -> dict[str, Outcome]:
    """The outcomes of one GPU's cases."""
    return {id_: case.outcome for id_, case in ran.cases.items() if f"/{gpu}" in id_}


def assert_found(ran: Ran, found: Mapping[str, str]) -> None:
    """``found`` are the codes by place; a GPU that is in none of them passes every case."""
    assert {place: code for code, place in ran.findings} == found
    assert {len(cases) for cases in ran.findings.values()} <= {1}
    assert ran.of(Outcome.ERROR) == {}
    for gpu in GPUS:
        if not any(gpu in place or place == "node1" for place in found):
            assert set(cases_of(gpu, ran).values()) == {Outcome.PASSED}


def test_on_a_clean_node_everything_registers_and_moves(world: World) -> None:
    ran = world.run()
    assert_found(ran, {})
    assert set(ran.cases) == {
        "cuda_starts[node1]",
        *(f"{check}[node1/{gpu}]" for check in OF_A_GPU for gpu in GPUS),
        *(f"gpu_memory_registers[node1/{gpu}/sim0, {one}]" for gpu in GPUS for one in METHODS),
        *(f"gpu_memory_moves[node1/{gpu}/sim0, {one}]" for gpu in GPUS for one in METHODS),
    }
    told = ran.cases["gpu_memory_registers[node1/gpu0/sim0, dmabuf]"].properties
    assert told["method"] == "dmabuf"
    assert told["sizes tried"] == "4 KiB, 64 KiB, 2 MiB, 128 MiB"
    assert told["limited by"].startswith("1 GiB asked, 128 MiB tried")
    assert told["mapping of the export"] == "plain"
    for name in ("whole 128 MiB", "interior 1048589 B", "first neighbour 525065 B"):
        assert all(f"{step} " in told[name] for step in ("export", "register", "deregister"))
    kinds = ran.cases["gpu_memory_kinds[node1/gpu0]"].properties
    assert kinds["pinned memory"].startswith(
        "pinned (host memory, not GPUDirect): memory type host"
    )
    moved = ran.cases["gpu_memory_moves[node1/gpu0/sim0, peermem]"].properties
    assert moved["gpu to host by READ"] == "1 B, 8 B, 63 B, 4096 B, 65537 B, 1048589 B"


@pytest.mark.parametrize(
    ("name", "number", "code"),
    [
        ("cuInit", 802, "GPU-CUDA-FABRIC"),
        ("cuInit", 803, "GPU-CUDA-MISMATCH"),
        ("cuInit", 100, "GPU-CUDA-NONE"),
        ("cuInit", 304, "GPU-CUDA-FAILED"),
        ("cuModuleLoadData", 222, "GPU-CUDA-DRIVER-OLD"),
    ],
)
def test_what_concerns_the_node_is_found_once(
    world: World, name: str, number: int, code: str
) -> None:
    ran = world.run(replace(CONFIG, faults=Faults(fail={name: number})))
    assert_found(ran, {"node1": code})
    about = ("gpu_memory_registers", "gpu_memory_moves")
    assert {id_ for id_ in ran.cases if id_.startswith(about)} <= set(ran.of(Outcome.BLOCKED))
    assert set(ran.of(Outcome.BLOCKED).values()) == {f"blocked by {code} at node1"}


def test_a_driver_that_is_too_old_is_found_once(world: World) -> None:
    ran = world.run(replace(CONFIG, cuda_version=11080))
    assert_found(ran, {"node1": "GPU-CUDA-DRIVER-OLD"})
    assert set(cases_of("gpu0", ran).values()) == {Outcome.BLOCKED}
    assert "11.8" in ran.cases["cuda_starts[node1]"].message


def test_cuda_shows_no_gpu_where_two_are_promised(world: World) -> None:
    ran = world.run(replace(CONFIG, gpus=()))
    assert_found(ran, {"node1": "GPU-CUDA-NONE"})


def test_a_gpu_that_cuda_does_not_show_is_named(world: World) -> None:
    ran = world.run(replace(CONFIG, gpus=CONFIG.gpus[:1]))
    assert_found(ran, {"node1/gpu1": "GPU-CUDA-UNSEEN"})


def test_gpus_that_change_places_are_told_by_their_uuids(world: World) -> None:
    """CUDA counts the fastest first unless told otherwise: its numbers mean nothing."""
    ran = world.run(replace(CONFIG, gpus=tuple(reversed(CONFIG.gpus))))
    assert_found(ran, {})


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        (Faults(fail={"cuMemAlloc": 2}), "GPU-MEMORY-FULL"),
        (Faults(managed=True), "GPU-MEMORY-KIND"),
        (Faults(verify_lies=True), "GPU-VERIFIERS-DISAGREE"),
        (Faults(gone=True), "GPU-GONE"),
        (Faults(gone=True, after={"gone": 40}), "GPU-GONE"),
        (Faults(fail={"cuDevicePrimaryCtxRetain": 46}), "GPU-CUDA-FAILED"),
        (Faults(fail={"cuLaunchKernel": 719}), "GPU-CUDA-FAILED"),
    ],
)
@pytest.mark.parametrize("number", [0, 1])
def test_one_gpu_that_fails_is_named_and_the_other_one_is_not(
    world: World, fault: Faults, code: str, number: int
) -> None:
    ran = world.run(replace(CONFIG, gpu_faults={number: fault}))
    assert_found(ran, {f"node1/gpu{number}": code})
    assert f"blocked by {code} at node1/gpu{number}" in ran.of(Outcome.BLOCKED).values()


@pytest.mark.parametrize("calls", [200, 500, 900])
def test_a_gpu_that_disappears_between_two_registrations_is_found_once(
    world: World, calls: int
) -> None:
    ran = world.run(wrong(0, gone=True, after={"gone": calls}))
    assert_found(ran, {"node1/gpu0": "GPU-GONE"})


def without_dmabuf(**attributes: int) -> Config:
    """The first GPU's driver says that it cannot export memory."""
    first, second = CONFIG.gpus
    values = {124: 0, **{int(key[1:]): value for key, value in attributes.items()}}
    faults = {0: Faults(fail={"cuMemGetHandleForAddressRange": 801})}
    return replace(CONFIG, gpus=(replace(first, attributes=values), second), gpu_faults=faults)


def test_an_absent_method_is_skipped_when_the_other_one_may_stand_in_for_it(world: World) -> None:
    ran = world.run(without_dmabuf(), promises=profile(registration="any"))
    assert ran.findings == {}
    skipped = ran.of(Outcome.SKIPPED)
    assert set(skipped) == {
        "gpu_memory_registers[node1/gpu0/sim0, dmabuf]",
        "gpu_memory_moves[node1/gpu0/sim0, dmabuf]",
    }
    assert all("attribute 0" in why and "801" in why for why in skipped.values())


@pytest.mark.parametrize(
    ("attributes", "code"), [({}, "MR-DMABUF-NO-GPU"), ({"_116": 0}, "MR-GPU-NO-GDR")]
)
def test_a_method_that_is_named_must_work(
    world: World, attributes: dict[str, int], code: str
) -> None:
    ran = world.run(without_dmabuf(**attributes), promises=profile(registration="dmabuf"))
    assert {place: found for found, place in ran.findings} == {"node1/gpu0/sim0": code}
    assert cases_of("gpu1", ran)["gpu_memory_registers[node1/gpu1/sim0, dmabuf]"] == "passed"


@pytest.mark.parametrize("registration", ["any", "both"])
def test_an_export_that_is_refused_is_broken_even_where_any_method_will_do(
    world: World, registration: str
) -> None:
    config = wrong(1, fail={"cuMemGetHandleForAddressRange": 801})
    ran = world.run(config, promises=profile(registration=registration))
    assert_found(ran, {"node1/gpu1/sim0": "MR-DMABUF-EXPORT"})
    assert ran.cases["gpu_memory_registers[node1/gpu1/sim0, peermem]"].outcome == "passed"


def test_a_nic_without_dmabuf_says_errno_95(world: World) -> None:
    def without(nic: Nic) -> None:
        nic.refuses["reg_dmabuf_mr"] = EOPNOTSUPP

    ran = world.run(nic=without, promises=profile(registration="any"))
    assert ran.findings == {}
    assert set(ran.of(Outcome.SKIPPED)) == {
        f"gpu_memory_{check}[node1/{gpu}/sim0, dmabuf]"
        for check in ("registers", "moves")
        for gpu in GPUS
    }
    assert all("errno 95" in why for why in ran.of(Outcome.SKIPPED).values())


def test_peermem_that_is_loaded_and_not_registered_is_told_from_one_that_is_absent(
    world: World,
) -> None:
    def nothing_registers(nic: Nic) -> None:
        nic.refuses |= {"reg_dmabuf_mr": EOPNOTSUPP, "reg_mr": EFAULT}

    clients = builders.nvidia_driver(peermem=peermem(clients=("nvme",)))
    for driver, code in (
        (clients, "MR-PEERMEM-UNREGISTERED"),
        (builders.nvidia_driver(), "MR-PEERMEM-ABSENT"),
    ):
        known = facts(nvidia=driver)
        promises = profile(registration="any", matrix="rails")
        ran = world.run(known=known, nic=nothing_registers, promises=promises)
        assert set(ran.findings) == {
            ("MR-DMABUF-PROVIDER", "node1/gpu0/sim0"),
            (code, "node1/gpu0/sim0"),
        }


def test_a_registration_that_works_without_peermem_was_of_other_memory(world: World) -> None:
    known = facts(nvidia=builders.nvidia_driver())
    ran = world.run(known=known, promises=profile(registration="any", matrix="rails"))
    # Also where nothing is promised: it never is what it says.
    assert set(ran.findings) == {("MR-NOT-GPU-MEMORY", f"node1/{gpu}/sim0") for gpu in GPUS}


def test_what_bar1_allows_is_tried_and_said(world: World) -> None:
    gpus = tuple(replace(gpu, memory_mib=2048, bar1_mib=256) for gpu in CONFIG.gpus)
    config = replace(CONFIG, gpus=gpus)
    ran = world.run(config, known=facts(config), promises=profile(matrix="rails"))
    told = ran.cases["gpu_memory_registers[node1/gpu0/sim0, peermem]"]
    assert told.outcome == "passed"
    assert told.properties["sizes tried"] == "4 KiB, 64 KiB, 2 MiB, 128 MiB"
    assert told.properties["limited by"] == (
        "1 GiB asked, 128 MiB tried: BAR1 has 256 MiB, 255 MiB of it free, of which 16 MiB are "
        "left alone"
    )


def test_a_bar1_that_is_full_is_found_by_the_size_that_no_longer_fits(world: World) -> None:
    def full(nic: Nic) -> None:
        nic.refuses["reg_mr"] = EFAULT
        # All but the largest size of the first GPU.
        nic.after["reg_mr"] = 1 + 1 + 8 + 64 + 1 + 1 + 2

    gpus = tuple(replace(gpu, memory_mib=2048, bar1_mib=256) for gpu in CONFIG.gpus)
    config = replace(CONFIG, gpus=gpus)
    promises = profile(registration="peermem", matrix="rails")
    ran = world.run(config, known=facts(config), promises=promises, nic=full)
    assert set(ran.findings) == {("MR-BAR1-FULL", "node1/gpu0/sim0")}


def test_an_emulated_driver_that_the_facts_do_not_tell_of_is_an_error(world: World) -> None:
    ran = world.run(known=facts(emulated=False))
    assert ran.findings == {}
    assert "emulated driver of the lab" in ran.of(Outcome.ERROR)["cuda_starts[node1]"]
    assert set(ran.of(Outcome.BLOCKED).values()) == {"blocked by error in cuda_starts[node1]"}
    assert len(ran.of(Outcome.BLOCKED)) == len(ran.cases) - 1


def test_bytes_that_the_nic_leaves_out_are_found(world: World) -> None:
    def lossy(nic: Nic) -> None:
        nic.copy = lambda _sink, _source, _length: None

    ran = world.run(nic=lossy)
    assert set(ran.findings) == {("MR-DATA-WRONG", f"node1/{gpu}/sim0") for gpu in GPUS}
    assert "poison" in ran.cases["gpu_memory_moves[node1/gpu0/sim0, dmabuf]"].message


def test_a_context_that_is_not_given_back_is_an_error_of_the_last_case(world: World) -> None:
    ran = world.run(wrong(1, fail={"cuDevicePrimaryCtxRelease": 2}))
    assert ran.findings == {}
    (case,) = ran.of(Outcome.ERROR)
    assert case == list(ran.cases)[-1]
    assert "cuDevicePrimaryCtxRelease on 0000:25:00.0" in ran.cases[case].message


def test_kinds_of_memory_that_a_gpu_does_not_offer_are_said_and_not_missed(world: World) -> None:
    first, second = CONFIG.gpus
    config = wrong(
        0,
        replace(CONFIG, gpus=(replace(first, attributes={110: 0, 83: 0}), second)),
        fail={"cuMemCreate": 801, "cuMemAllocManaged": 801},
    )
    ran = world.run(config)
    assert_found(ran, {})
    told = ran.cases["gpu_memory_kinds[node1/gpu0]"].properties
    assert told["gpu-vmm memory"] == "not offered by this GPU (attribute 110 is 0)"
    assert told["managed memory"] == "not offered by this GPU (attribute 83 is 0)"
    assert told["gpu memory"].startswith("gpu: memory type device")


def test_a_full_matrix_moves_data_through_every_pair(world: World) -> None:
    moved = {id_ for id_ in world.run(promises=profile(matrix="full")).cases if "moves" in id_}
    assert moved == {
        f"gpu_memory_moves[node1/{gpu}/sim0, {one}]" for gpu in GPUS for one in METHODS
    }
