"""What is known around a registration, from the facts and from the attempt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from gdrcheck.facts import Acs, Facts, LogLine, Nvml, PciTree, Unreadable
from gdrcheck.registration import Refusal
from gdrcheck.rules.registration_cause import ENOTSUPP, Evidence
from gdrcheck.rules.registration_evidence import (
    errno_text,
    evidence_of_attempt,
    evidence_of_movement,
)
from tests import facts as builders
from tests.rules.attempts import attempt, movement, pair, proof, refused, region, with_peermem

BROKEN = Unreadable(unreadable="file: Input/output error")
FAR = Refusal("register", "refused", ENOTSUPP, range="interior", length_bytes=77)


def of(facts: Facts, method: str = "dmabuf", refusal: Refusal | None = FAR) -> Evidence:
    return evidence_of_attempt(
        refused(method, refusal, regions=(region(),)), pair(builders.profile(), facts), facts
    )


def test_the_refusal_and_what_registered_before() -> None:
    found = of(builders.facts())
    assert (found.stage, found.errno, found.cuda) == ("register", ENOTSUPP, None)
    assert (found.length_bytes, found.registered_bytes) == (77, 64 << 10)
    assert found.gpu_memory is True
    assert found.around["range"] == "interior, 77 bytes"
    assert found.around["registered before"] == "65536 bytes at most"
    assert found.around["errno"].startswith("524 ENOTSUPP")


def test_a_failure_tells_the_sizes_that_were_tried_and_the_one_that_failed() -> None:
    facts = builders.facts()
    changes = {"limited_by": "1 GiB asked, 512 MiB tried: BAR1 has 1 GiB"}

    def around(sizes: tuple[int, ...]) -> Mapping[str, str]:
        one = refused("dmabuf", sizes_bytes=sizes, **changes)
        return evidence_of_attempt(one, pair(builders.profile(), facts), facts).around

    assert around((4 << 10, 64 << 10))["sizes"] == "4 KiB, 64 KiB tried, failed at 64 KiB"
    assert around(())["sizes"] == "none tried"
    assert around(())["registered before"] == "nothing"


def test_without_a_refusal_there_is_no_step() -> None:
    facts = builders.facts()
    one = attempt(limited_by="2 MiB: BAR1 has 256 MiB", proof=proof(managed=True))
    found = evidence_of_attempt(one, pair(builders.profile(), facts), facts)
    assert (found.stage, found.gpu_memory) == (None, False)
    assert found.around["sizes"] == "2 MiB: BAR1 has 256 MiB"
    assert "managed" in found.around["buffer"]


@pytest.mark.parametrize(
    ("changes", "loaded", "registered"),
    [
        ({}, True, True),
        ({"clients": ()}, True, False),
        ({"clients": None}, True, None),
        ({"clients": BROKEN}, True, None),
        ({"module": "efa_nv_peermem", "clients": ()}, True, None),
        ({"loaded": False, "module": None, "clients": None}, False, None),
        ({"loaded": BROKEN, "module": None}, None, True),
    ],
)
def test_peermem_loaded_and_registered_are_told_apart(
    changes: dict[str, object], loaded: bool | None, registered: bool | None
) -> None:
    found = of(with_peermem(**changes), "peermem")
    assert (found.peermem_loaded, found.peermem_registered) == (loaded, registered)
    assert "loaded" in found.around["nvidia-peermem"]


def test_without_facts_of_the_driver_nothing_is_known() -> None:
    facts = builders.facts(nvidia=BROKEN, nvml=BROKEN, pci=BROKEN)
    found = of(facts)
    assert (found.peermem_loaded, found.peermem_registered) == (None, None)
    assert found.bar1_total_bytes is None
    assert found.distance is None
    assert found.around["GPU"] == "unknown"


def test_bar1_limits_and_virtualization_come_from_the_facts() -> None:
    limits = builders.limits(memlock_soft_bytes=64, effective_capabilities=0)
    gpu = builders.gpu(bar1_total_bytes=1000, bar1_used_bytes=BROKEN, virtualization="vgpu")
    nvml = Nvml.model_validate(builders.nvml(confidential_computing="on").model_dump())
    facts = builders.facts(limits=limits, nvml=nvml.model_copy(update={"gpus": (gpu,)}))
    found = of(facts)
    assert (found.bar1_total_bytes, found.bar1_used_bytes) == (1000, None)
    assert found.memlock_limited
    assert found.virtual_gpu
    assert found.around["confidential computing"] == "on"


def test_the_kernel_log_and_the_parameter_speak_of_topology() -> None:
    text = "NVRM: dma-buf attach failed: PCI topology not supported for dma-buf"
    line = LogLine(topic="dmabuf", seconds_since_boot=1, text=text)
    driver = builders.nvidia_driver(parameters={"GrdmaPciTopoCheckOverride": "1"})
    facts = builders.facts(host=builders.host(kernel_log=(line,)), nvidia=driver)
    found = of(facts)
    assert found.attach_refused == text
    assert found.topology_allowed
    assert found.around["kernel log, before the checks"] == text
    assert not of(builders.facts()).topology_allowed


def test_what_lies_between_gpu_and_nic_is_told() -> None:
    redirecting = builders.settings(port_type="downstream port", acs=Acs(enabled=("ReqRedir",)))
    tree = builders.pci_tree()
    functions = tuple(
        one.model_copy(update={"settings": redirecting}) if one.slot == builders.NIC_PORT else one
        for one in tree.functions
    )
    facts = builders.facts(pci=PciTree(functions=functions, misplaced={}))
    found = of(facts)
    assert found.distance == "PIX"
    assert f"{builders.NIC_PORT} on" in found.around["ACS redirect"]
    assert found.around["IOMMU"] == "identity; of the GPU: identity; of the NIC: identity"


def test_a_transfer_brings_its_status() -> None:
    facts = builders.facts()
    one = movement(
        refusal=Refusal("move", "no"), way="host to gpu", operation="READ", status="LOC_PROT_ERR"
    )
    found = evidence_of_movement(one, pair(builders.profile(), facts), facts)
    assert found.stage == "move"
    assert found.around["transfer"] == "READ, host to gpu"
    assert found.around["completion status"] == "LOC_PROT_ERR"
    assert "mapping of the export" not in found.around
    one = replace(one, flag="pcie")
    found = evidence_of_movement(one, pair(builders.profile(), facts), facts)
    assert found.around["mapping of the export"] == "pcie"


def test_a_mapping_that_the_nic_refused_before_is_told() -> None:
    facts = builders.facts()
    made = attempt(regions=(region(other_refused="ibv_reg_dmabuf_mr: errno 524"),))
    found = evidence_of_attempt(made, pair(builders.profile(), facts), facts)
    assert found.around["the other mapping"] == "ibv_reg_dmabuf_mr: errno 524"


def test_errnos_have_names() -> None:
    assert errno_text(14) == "14 EFAULT (Bad address)"
    assert errno_text(ENOTSUPP).startswith("524 ENOTSUPP")
    assert errno_text(4095).startswith("4095 unknown")
