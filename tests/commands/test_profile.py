"""gdrcheck profile --from: valid, says what the node is, and finds nothing on that node."""

from __future__ import annotations

import json
import re
from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from gdrcheck import probes
from gdrcheck.facts import Acs, Facts, Unreadable
from gdrcheck.outcome import Outcome
from gdrcheck.profile import Profile
from gdrcheck.profile_file import parse_profile
from tests import facts as build
from tests.captured.machines import MACHINES
from tests.captured.running import NODE, run_checks
from tests.commands.support import Done, run, saved, two_sockets

TODAY = date(2026, 11, 30)
UNREADABLE = Unreadable(unreadable="Permission denied")
PRIVILEGED = Unreadable(unreadable="least privilege", privilege=True)
unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=60)


def drafted(facts: Facts, folder: Path) -> Done:
    return run("profile", "--from", saved(facts, folder))


def profile_of(facts: Facts, folder: Path) -> Profile:
    done = drafted(facts, folder)
    assert done.code == 0, done.err
    return parse_profile(done.out, "out", TODAY)


def test_profile_promises_what_the_node_is(tmp_path: Path) -> None:
    profile = profile_of(two_sockets(), tmp_path)
    assert profile.missing_core() == ()
    assert profile.model_dump(mode="json", include={"gpus", "rails"}, exclude_none=True) == {
        "gpus": {"count": 2, "model": "NVIDIA H200"},
        "rails": {
            "count": 2,
            "nics": [{"slot": "0000:16:06.0", "gpu": 0}, {"slot": "0000:96:06.0", "gpu": 1}],
            "port_rate_gbps": 400,
            "link_layer": "infiniband",
        },
    }
    assert profile.expect.model_dump(mode="json", exclude_defaults=True) == {
        "os": "Ubuntu 24.04.3 LTS",
        "kernel": "6.8.0-60-generic",
        "command_line": ["iommu=pt"],
        "iommu": "passthrough",
        "ofed": "inbox",
        "firmware": "28.43.2026",
        "driver": "580.95.05",
        "cuda": "13.0",
        "open_module": True,
        "fabric_manager": "absent",
        "mig": "disabled",
        "bar1_bytes": 256 << 30,
        "vbios": "96.00.A5.00.1A",
        "ecc": "enabled",
        "compute_mode": "default",
        "persistence": "on",
        "power_limit_w": 700,
        "nvlinks": 18,
        "mtu_bytes": 4096,
        "rail_distance": "PIX",
        "nic_link": {"speed_gts": 32, "width": 16},
        "gpu_link": {"speed_gts": 32, "width": 16},
        "acs_redirect": "off",
        "relaxed_ordering": True,
        "max_payload_bytes": 256,
        "max_read_request_bytes": 4096,
    }


def test_head_says_what_the_file_is_and_what_must_come_first(tmp_path: Path) -> None:
    head = drafted(build.facts(), tmp_path).out.partition("\n\n")[0].replace("\n# ", " ")
    assert "from the facts of node node1" in head
    assert "correct it where the two differ" in head
    assert "should have been judged without findings first" in head
    assert "EMULATED" not in head
    emulated = drafted(build.facts(emulated=True), tmp_path)
    assert emulated.out.startswith("---\n# EMULATED")


def test_head_says_that_the_method_of_registration_is_left_open(tmp_path: Path) -> None:
    done = drafted(build.facts(), tmp_path)
    assert "`registration: any`" in done.out.partition("\n\n")[0]
    assert parse_profile(done.out, "out", TODAY).registration == "any"
    without = drafted(build.facts(nvml=None, pci=build.pci_tree(functions=())), tmp_path)
    assert (without.code, without.err) == (0, without.err)
    assert "registration" not in without.out


# The virtual machines with H200s have no NIC, and so no rail to promise.
WITH_RAILS = [name for name in MACHINES if name not in ("h200vm", "h200x2")]


def test_a_machine_without_a_nic_gives_no_profile(tmp_path: Path) -> None:
    facts = probes.collect(NODE, MACHINES["h200vm"]().write(tmp_path / "root"))
    done = drafted(facts, tmp_path)
    assert (done.code, done.out) == (2, "")
    assert "no NIC can serve one" in done.err


@pytest.mark.parametrize("name", WITH_RAILS)
def test_checks_find_nothing_on_the_machine_that_the_profile_was_made_of(
    name: str, tmp_path: Path
) -> None:
    root = MACHINES[name]().write(tmp_path / "root")
    facts = probes.collect(NODE, root)
    done = drafted(facts, tmp_path)
    assert done.code == 0, done.err
    ran = run_checks(root, parse_profile(done.out, "out", TODAY), tmp_path / "out")
    assert ran.findings == {}
    assert [ran.of(bad) for bad in (Outcome.FAILED, Outcome.ERROR, Outcome.BLOCKED)] == [{}] * 3


@pytest.mark.parametrize("name", WITH_RAILS)
def test_nothing_that_is_of_one_node_only_is_written(name: str, tmp_path: Path) -> None:
    facts = probes.collect(NODE, MACHINES[name]().write(tmp_path / "root"))
    command_line = "root=UUID=8f3e0d60-1111-2222-3333-444455556666 iommu=pt serial=SN1234567"
    host = facts.host.model_copy(update={"command_line": command_line})
    done = drafted(facts.model_copy(update={"host": host}), tmp_path)
    assert done.code == 0, done.err
    text = done.out + done.err
    assert not re.search(r"(?i)uuid|gpu-[0-9a-f]|sn1234567|[0-9a-f]{8}-[0-9a-f]{4}-", text)
    assert 'command_line:\n    - "iommu=pt"\n' in done.out


def test_what_is_left_out_is_told_on_standard_error_once_a_reason(tmp_path: Path) -> None:
    facts = build.facts(
        host=build.host(os=PRIVILEGED, units=PRIVILEGED),
        rdma_stack=build.rdma_stack(ofed=PRIVILEGED),
    )
    done = drafted(facts, tmp_path)
    assert done.code == 0
    assert done.err == (
        "left out of the profile:\n"
        "  expect.os, expect.ofed, expect.fabric_manager: least privilege\n"
    )
    expect = parse_profile(done.out, "out", TODAY).expect
    assert (expect.os, expect.ofed, expect.fabric_manager) == (None, None, None)
    assert expect.kernel == "6.8.0-60-generic"


def test_modules_that_come_by_themselves_are_not_promised(tmp_path: Path) -> None:
    modules = tuple(build.module(name) for name in (*build.MODULES, "nvidia_uvm", "nvidia_peermem"))
    facts = build.facts(
        host=build.host(modules=modules),
        nvidia=build.nvidia_driver(
            peermem=build.peermem(loaded=True, module="nvidia_peermem", clients=("nv_mem",))
        ),
    )
    assert profile_of(facts, tmp_path).expect.modules == ("nvidia_peermem",)


def test_idle_gpu_does_not_lower_what_is_promised(tmp_path: Path) -> None:
    idle = build.link(current_gts=2.5)
    tree = build.pci_tree()
    functions = [
        one.model_copy(update={"link": idle}) if one.is_nvidia_gpu else one
        for one in tree.functions
    ]
    facts = build.facts(pci=build.pci_tree(functions=tuple(functions)))
    link = profile_of(facts, tmp_path).expect.gpu_link
    assert link is not None
    assert link.speed_gts == 32


def test_values_that_are_patterns_match_themselves_only(tmp_path: Path) -> None:
    profile = profile_of(build.facts(host=build.host(kernel="6.8.0-[a]*", os="What?")), tmp_path)
    assert (profile.expect.kernel, profile.expect.os) == ("6.8.0-[[]a][*]", "What[?]")


def test_node_without_gpus_promises_none(tmp_path: Path) -> None:
    tree = build.pci_tree()
    without = tuple(one for one in tree.functions if not one.is_nvidia_gpu)
    facts = build.facts(nvidia=None, nvml=None, pci=build.pci_tree(functions=without))
    profile = profile_of(facts, tmp_path)
    assert profile.gpus is not None
    assert profile.gpus.count == 0
    assert profile.expect.about_gpus() == ()
    assert profile.rails is not None
    assert profile.rails.nics[0].gpu is None


def gpu_model(*models: str | Unreadable) -> Facts:
    facts = two_sockets()
    gpus = tuple(
        build.gpu(gpu.slot, model=model)
        for gpu, model in zip(facts.nvml.gpus, models, strict=False)  # type: ignore[union-attr]
    )
    return facts.model_copy(update={"nvml": build.nvml(gpus=gpus)})


def down() -> Facts:
    return build.facts(
        rdma_devices=(build.rdma_device(ports=(build.port(state="DOWN"),)),),
    )


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        (build.facts(pci=UNREADABLE), "gpus.count: the PCI functions are unreadable: Permission"),
        (build.facts(nvml=UNREADABLE), "gpus.model: 1 GPUs, and NVML does not say which: Permis"),
        (build.facts(nvml=None), "gpus.model: 1 GPUs, and NVML does not say which: NVIDIA's dri"),
        (gpu_model("NVIDIA H200"), "gpus.model: NVML has no answer for 0000:96:05.0"),
        (gpu_model("NVIDIA H200", UNREADABLE), "gpus.model: NVML does not say the model of each"),
        (gpu_model("A", "B"), "gpus.model: A and B; a profile holds one model"),
        (gpu_model("A\x1b[2J", "A\x1b[2J"), "gpus.model: the name is no plain text"),
        (build.facts(rdma_devices=UNREADABLE), "every NIC: the list of RDMA devices is unreadable"),
        (build.facts(rdma_devices=()), "rails: no NIC can serve one"),
        (down(), "mlx5_0: no port is active"),
    ],
)
def test_facts_without_the_core_are_refused_by_name(
    facts: Facts, said: str, tmp_path: Path
) -> None:
    done = drafted(facts, tmp_path)
    assert (done.code, done.out) == (2, "")
    assert f"facts.json: no profile can be made: {said}" in done.err


def with_acs_error() -> Facts:
    tree = build.pci_tree()
    functions = tuple(
        one.model_copy(update={"aer_fatal": 3}) if one.slot == build.NIC_SLOT else one
        for one in tree.functions
    )
    return build.facts(pci=build.pci_tree(functions=functions))


def narrow() -> Facts:
    tree = build.pci_tree()
    narrowed = build.link(current_width=8)
    functions = tuple(
        one.model_copy(update={"link": narrowed}) if one.slot == build.NIC_SLOT else one
        for one in tree.functions
    )
    return build.facts(pci=build.pci_tree(functions=functions))


@pytest.mark.parametrize(
    ("facts", "code"),
    [
        (with_acs_error(), "PCI-AER-UNCORRECTABLE at node1/mlx5_0"),
        (narrow(), "PCI-LINK-WIDTH at node1/mlx5_0"),
        (build.facts(nvml=build.nvml(gpus=(build.gpu(fabric_state="in progress"),))), "DRV-FABRIC"),
    ],
)
def test_a_node_that_breaks_what_always_holds_gives_no_profile(
    facts: Facts, code: str, tmp_path: Path
) -> None:
    done = drafted(facts, tmp_path)
    assert (done.code, done.out) == (2, "")
    assert "no profile is made of a node with findings; repair it first:\n" in done.err
    assert f"\n  {code}" in done.err


def test_what_could_not_be_judged_is_told(tmp_path: Path) -> None:
    tree = build.pci_tree()
    functions = tuple(one.model_copy(update={"aer_fatal": UNREADABLE}) for one in tree.functions)
    done = drafted(build.facts(pci=build.pci_tree(functions=functions)), tmp_path)
    assert done.code == 0
    assert "could not be judged:\n" in done.err


def test_acs_that_redirects_is_promised_as_it_is(tmp_path: Path) -> None:
    tree = build.pci_tree()
    redirecting = build.settings(acs=Acs(enabled=("SrcValid", "ReqRedir")))
    functions = tuple(
        one.model_copy(update={"settings": redirecting}) if one.is_bridge else one
        for one in tree.functions
    )
    facts = build.facts(pci=build.pci_tree(functions=functions))
    assert profile_of(facts, tmp_path).expect.acs_redirect == "on"


def texts(value: Any, text: str) -> Any:
    """``value`` with ``text`` for every value that a node says of its software or its hardware."""
    names = (
        "os",
        "kernel",
        "command_line",
        "ofed",
        "firmware",
        "version",
        "cuda",
        "model",
        "board",
    )
    if isinstance(value, dict):
        return {
            key: text if key in names and isinstance(one, str) else texts(one, text)
            for key, one in value.items()
        }
    return [texts(one, text) for one in value] if isinstance(value, list) else value


@unhurried
@given(st.text(max_size=250))
@example("# no comment")
@example('a": [&x *y !!z')
@example("~")
@example("NVIDIA H200\nmatrix: full")
@example("*" * 100)
def test_no_text_of_a_node_breaks_the_profile(text: str) -> None:
    facts = texts(build.facts().model_dump(mode="json"), text)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "facts.json"
        path.write_text(json.dumps(facts))
        done = run("profile", "--from", path)
    assert all(line.isprintable() for line in (done.out + done.err).splitlines())
    assert done.code in (0, 2)
    assert bool(done.out) is (done.code == 0)
    if done.out:
        profile = parse_profile(done.out, "out", TODAY)
        assert profile.gpus is not None
        assert profile.matrix == "rails"


def test_device_that_cannot_send_from_here_serves_no_rail(tmp_path: Path) -> None:
    roce = {"rate_gbps": 400, "link_layer": "ethernet"}
    local = {"index": 1, "gid": "fe80::1", "type": "RoCE v2", "netdev": "ens1"}
    mapped = {"index": 3, "gid": "::ffff:10.0.0.1", "type": "RoCE v2", "netdev": "ens1"}
    closed = {"name": "mlx5_2", "error": "Permission denied", "error_number": 13, "ports": ()}
    devices = (
        build.rdma_device("mlx5_0", slot=None, ports=(build.port(gids=(local,), **roce),)),
        build.rdma_device("mlx5_1", ports=(build.port(gids=(local, mapped), **roce),)),
        build.rdma_device("mlx5_2", slot=None, verbs=closed, ports=(build.port(**roce),)),
    )
    done = drafted(build.facts(rdma_devices=devices), tmp_path)
    assert 'nics:\n    - {slot: "0000:1a:00.0", gpu: 0}\n' in done.out
    assert "mlx5_0: no GID beyond link-local ones\n" in done.err
    assert "mlx5_2: does not open: Permission denied\n" in done.err
