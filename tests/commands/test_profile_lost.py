"""gdrcheck profile --from: a fault that takes a rail away never becomes the promise."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from gdrcheck import probes
from gdrcheck.facts import Facts, Unreadable
from gdrcheck.profile import Profile
from gdrcheck.profile_file import parse_profile
from tests import facts as build
from tests.captured.machines import MACHINES
from tests.captured.running import NODE
from tests.commands.support import Done, run, saved
from tests.commands.test_profile import TODAY, WITH_RAILS
from tests.gpu_facts import gpu_health

STORAGE = "mlx5_1, mlx5_7: no GID beyond link-local ones"


@cache
def captured(name: str) -> Facts:
    with TemporaryDirectory() as folder:
        return probes.collect(NODE, MACHINES[name]().write(Path(folder)))


def with_ports(facts: Facts, changes: Mapping[str, Mapping[str, object]]) -> Facts:
    """``facts`` in which the ports of the devices that are named are otherwise."""
    assert not isinstance(facts.rdma_devices, Unreadable)
    devices = tuple(
        device.model_copy(
            update={
                "ports": tuple(
                    port.model_copy(update=dict(changes[device.name])) for port in device.ports
                )
            }
        )
        if device.name in changes
        else device
        for device in facts.rdma_devices
    )
    return facts.model_copy(update={"rdma_devices": devices})


def without(facts: Facts, *names: str) -> Facts:
    assert not isinstance(facts.rdma_devices, Unreadable)
    left = tuple(device for device in facts.rdma_devices if device.name not in names)
    return facts.model_copy(update={"rdma_devices": left})


def drafted(facts: Facts, folder: Path, *more: str) -> Done:
    return run("profile", "--from", saved(facts, folder), *more)


def head(done: Done) -> list[str]:
    return done.out.partition("\n\n")[0].splitlines()


def profile_of(done: Done) -> Profile:
    assert done.code == 0, done.err
    return parse_profile(done.out, "out", TODAY)


FAULTS = {
    "down": ({"state": "DOWN"}, "no port is active (port 1 is DOWN)"),
    "init": ({"state": "INIT"}, "no port is active (port 1 is INIT)"),
    "slow": ({"rate_gbps": 200.0}, "200 Gb/s infiniband, unlike the 7 of 400 Gb/s infiniband"),
    "odd": (
        {"rate_gbps": Unreadable(unreadable="rate: odd")},
        "rate or link layer of its port are unreadable",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_nic_that_only_a_fault_keeps_from_its_gpu_is_told_and_no_profile_is_made(
    fault: str, tmp_path: Path
) -> None:
    change, why = FAULTS[fault]
    done = drafted(with_ports(captured("dgx"), {"mlx5_5": change}), tmp_path)
    assert (done.code, done.out) == (2, "")
    assert done.err == (
        f"{tmp_path}/facts.json: no profile can be made: mlx5_5: {why}, and gpu3 would get no NIC "
        "in its place; repair it first, or say --without mlx5_5 if it serves no rail\n"
    )


def test_each_device_has_a_line(tmp_path: Path) -> None:
    changes = {"mlx5_5": {"state": "DOWN"}, "mlx5_10": {"rate_gbps": 100.0}}
    done = drafted(with_ports(captured("dgx"), changes), tmp_path)
    assert [line.split(": ")[2] for line in done.err.splitlines()] == ["mlx5_5", "mlx5_10"]


def test_a_spare_nic_does_not_hide_that_the_gpu_lost_its_own(tmp_path: Path) -> None:
    spare = {"rate_gbps": 400.0, "link_layer": "infiniband"}
    changes = {"mlx5_0": {"state": "DOWN"}, "mlx5_1": spare}
    done = drafted(with_ports(captured("dgx"), changes), tmp_path)
    assert (done.code, done.out) == (2, "")
    assert (
        "mlx5_0: no port is active (port 1 is DOWN), and gpu0 would get mlx5_1 (NODE)" in done.err
    )


def test_roce_nic_without_an_address_or_that_does_not_open_is_lost_as_well(tmp_path: Path) -> None:
    done = drafted(with_ports(captured("roce"), {"mlx5_2": {"gids": ()}}), tmp_path)
    assert done.code == 2
    assert "mlx5_2: no GID beyond link-local ones, and gpu2 would get no NIC" in done.err


def test_who_says_that_a_nic_serves_no_rail_is_believed(tmp_path: Path) -> None:
    facts = with_ports(captured("dgx"), {"mlx5_5": {"state": "DOWN"}})
    done = drafted(facts, tmp_path, "--without", "mlx5_5")
    profile = profile_of(done)
    assert profile.rails is not None
    assert profile.rails.count == 7
    assert "# mlx5_5: serves no rail, as --without says" in head(done)
    assert "# gpu3: none of the 7 NICs is left for it" in head(done)


def test_without_names_a_device_that_is_there(tmp_path: Path) -> None:
    done = drafted(captured("dgx"), tmp_path, "--without", "mlx5_99")
    assert (done.code, done.out) == (2, "")
    assert done.err.endswith("--without mlx5_99: no such RDMA device\n")
    with pytest.raises(SystemExit, match="2"):
        run("profile", "--without", "mlx5_0", "schema")


def test_storage_ports_that_are_down_or_slow_are_no_rails_of_gpus(tmp_path: Path) -> None:
    done = drafted(captured("dgx"), tmp_path)
    assert profile_of(done).rails is not None
    title = head(done).index("# NICs that serve no rail here, and GPUs that have none:")
    assert head(done)[title + 1 :] == [
        f"# {STORAGE}",
        "# mlx5_2, mlx5_8: no port is active (port 1 is DOWN)",
    ]


def test_gpus_beyond_the_nics_are_told(tmp_path: Path) -> None:
    facts = without(captured("dgx"), "mlx5_9", "mlx5_11")
    done = drafted(facts, tmp_path)
    assert profile_of(done).rails is not None
    assert "# gpu5, gpu7: none of the 6 NICs is left for it" in head(done)
    silent = (
        "# 0000:c0:00.0, 0000:dc:00.0: a NIC by its vendor and class, but it has no RDMA device"
    )
    assert silent in head(done)


@pytest.mark.parametrize("name", WITH_RAILS)
def test_every_rdma_device_is_a_rail_or_told_in_the_head(name: str, tmp_path: Path) -> None:
    facts = captured(name)
    done = drafted(facts, tmp_path)
    profile, comments = profile_of(done), "\n".join(head(done))
    assert profile.rails is not None
    assert not isinstance(facts.rdma_devices, Unreadable)
    for device in facts.rdma_devices:
        served = any(
            nic.matches(name=device.name, slot=device.slot, netdev=None)
            for nic in profile.rails.nics
        )
        assert served or device.name in comments.replace(",", "").replace(":", "").split()


def test_gpus_that_the_driver_lost_give_no_profile(tmp_path: Path) -> None:
    lost = {build.GPU_SLOT: "GPU is lost", "index 3": "Unknown Error"}
    done = drafted(build.facts(nvml=build.nvml(gpus=(), lost=lost)), tmp_path)
    assert (done.code, done.out) == (2, "")
    assert done.err == "".join(
        f"{tmp_path}/facts.json: no profile can be made: gpus.count: NVML has lost {gpu}: {why}\n"
        for gpu, why in lost.items()
    )


def test_what_befell_the_gpus_is_told_beside_the_profile(tmp_path: Path) -> None:
    log = tuple(
        {"topic": topic, "seconds_since_boot": 1.0, "text": f"NVRM: Xid line {number}"}
        for number, topic in enumerate(("xid", "aer", *["xid"] * 6))
    )
    done = drafted(build.facts(host=build.host(kernel_log=log)), tmp_path)
    assert done.code == 0
    assert "Xid lines in the kernel log: 7. " in done.err
    assert [line[-1] for line in done.err.splitlines()[1:]] == list("34567")


def test_no_profile_is_made_of_a_node_with_a_fatal_xid(tmp_path: Path) -> None:
    text = "NVRM: Xid (PCI:0000:1b:00): 79, pid=1, GPU has fallen off the bus."
    log = ({"topic": "xid", "seconds_since_boot": 1.0, "text": text},)
    done = drafted(build.facts(host=build.host(kernel_log=log)), tmp_path)
    assert (done.code, done.out) == (2, "")
    assert "GPU-XID at node1/gpu0: observed 79 (hardware: " in done.err


def test_a_lowered_power_limit_is_promised_and_told(tmp_path: Path) -> None:
    gpu = build.gpu(health=gpu_health(power={"limit_w": 500.0}))
    done = drafted(build.facts(nvml=build.nvml(gpus=(gpu,))), tmp_path)
    assert done.code == 0, done.err
    assert "power_limit_w: 500" in done.out
    assert f"{gpu.slot}: 500 of 700 W" in done.err


def test_rails_in_software_say_so_in_the_first_line(tmp_path: Path) -> None:
    assert head(drafted(captured("lab"), tmp_path))[1] == (
        "# SOFT-ROCE: RDMA in software; this proves nothing about real NICs"
    )
    # A software device beside real ones is no rail.
    facts = captured("roce")
    assert not isinstance(facts.rdma_devices, Unreadable)
    soft = build.rdma_device("rxe0", slot=None, software=True)
    mixed = facts.model_copy(update={"rdma_devices": (*facts.rdma_devices, soft)})
    assert "SOFT-ROCE" not in drafted(mixed, tmp_path).out


def test_packets_are_marked_as_on_the_node(tmp_path: Path) -> None:
    assert profile_of(drafted(captured("dgx"), tmp_path)).pkey == 0x8001
    assert profile_of(drafted(captured("roce"), tmp_path)).traffic_class == 106
    done = drafted(captured("pod"), tmp_path)
    assert profile_of(done).traffic_class == 0
    assert "  traffic_class: none is forced on the NICs" in done.err
