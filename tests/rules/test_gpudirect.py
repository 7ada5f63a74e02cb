"""What is judged of dma-buf and of nvidia-peermem."""

from __future__ import annotations

import pytest

from gdrcheck.facts import Facts, LogLine, Unreadable
from gdrcheck.outcome import NotJudged
from gdrcheck.rules import gpudirect as rules
from tests import facts as builders
from tests.rules.judging import said

LEFT_NOTHING = Unreadable(unreadable="the host collector did not run", privilege=True)
BROKEN = Unreadable(unreadable="file: Input/output error")
REFUSED = "nvidia_peermem: disagrees about version of symbol ib_register_peer_memory_client"
UNSET = {"CONFIG_DMA_SHARED_BUFFER": "n"}
SET = {"CONFIG_PCI_P2PDMA": "y", "CONFIG_DMA_SHARED_BUFFER": "y"}


def machine(
    host: dict[str, object] | None = None,
    nvidia: dict[str, object] | None = None,
    ofed: object = "inbox",
) -> Facts:
    return builders.facts(
        host=builders.host(**(host or {})),
        nvidia=builders.nvidia_driver(**(nvidia or {})),
        rdma_stack=builders.rdma_stack(ofed=ofed),
    )


@pytest.mark.parametrize("registration", ["dmabuf", "both"])
@pytest.mark.parametrize(
    ("facts", "outcome"),
    [
        (machine(), "passed"),
        (machine({"kernel": "5.12.0"}), "passed"),
        (machine({"kernel": "5.4.0-150-generic"}), "DRV-DMABUF-IMPOSSIBLE"),
        (machine({"kernel": "5.4.0-150-generic"}, ofed="MLNX_OFED_LINUX-24.10"), "not judged"),
        (machine({"kernel": "4.18.0-553.el8_10.x86_64"}), "not judged"),
        (machine({"kernel": BROKEN}), "error"),
        (
            machine({"kernel_config": SET | {"CONFIG_DMA_SHARED_BUFFER": "n"}}),
            "DRV-DMABUF-IMPOSSIBLE",
        ),
        (machine({"kernel_config": SET | {"CONFIG_DMABUF_MOVE_NOTIFY": "n"}}), "passed"),
        (machine({"kernel_config": LEFT_NOTHING}), "not judged"),
        (machine({"kernel_config": BROKEN}), "error"),
        (machine(nvidia={"open_module": False}), "DRV-DMABUF-IMPOSSIBLE"),
        (
            machine({"kernel_config": LEFT_NOTHING}, {"open_module": False}),
            "DRV-DMABUF-IMPOSSIBLE",
        ),
        (machine(nvidia={"open_module": BROKEN}), "error"),
        (machine(nvidia={"cuda": "11.6"}), "DRV-DMABUF-IMPOSSIBLE"),
        (machine(nvidia={"cuda": BROKEN}), "passed"),
    ],
)
def test_dmabuf_needs_kernel_options_and_the_open_module(
    registration: str, facts: Facts, outcome: str
) -> None:
    promised = builders.profile(registration=registration)
    assert said(rules.dmabuf_impossible, promised, facts) == outcome


def test_all_obstacles_are_named_at_once() -> None:
    facts = machine({"kernel": "5.4.0", "kernel_config": {"CONFIG_DMA_SHARED_BUFFER": "n"}})
    finding = rules.dmabuf_impossible(builders.profile(registration="dmabuf"), facts)
    assert finding is not None
    assert finding.observed == "kernel 5.4.0; CONFIG_DMA_SHARED_BUFFER=n"


def peermem(
    clients: tuple[str, ...] | Unreadable | None = ("nv_mem",),
    *,
    loaded: object = True,
    name: str | None = "nvidia_peermem",
    module: dict[str, object] | None = None,
    log: object = (),
) -> Facts:
    """A machine with that peermem; ``module`` are changes to the module's facts."""
    known = builders.module(name or "nvidia_peermem", **({"loaded": loaded} | (module or {})))
    return machine(
        {"modules": (*builders.host().modules, known), "kernel_log": log},
        {"peermem": builders.peermem(loaded=loaded, module=name, clients=clients)},
    )


def refused(text: str, topic: str = "peermem") -> tuple[LogLine, ...]:
    return (LogLine(topic=topic, seconds_since_boot=1, text=text),)


NOT_LOADED = peermem(None, loaded=False, name=None)
MISSING = "blocked by DRV-MODULE-MISSING at node1"


@pytest.mark.parametrize("registration", ["peermem", "both"])
@pytest.mark.parametrize(
    ("facts", "outcome"),
    [
        (peermem(), "passed"),
        (peermem(("nv_mem_nc",), name="nv_peer_mem"), "passed"),
        (peermem(()), "DRV-PEERMEM-INERT"),
        (peermem(("other",)), "DRV-PEERMEM-INERT"),
        (peermem(None), "not judged"),
        (peermem(None, name="efa_nv_peermem"), "not judged"),
        (peermem(BROKEN), "error"),
        (peermem(loaded=BROKEN, name=None), "error"),
        (NOT_LOADED, MISSING),
        (
            peermem(None, loaded=False, name=None, log=refused(REFUSED)),
            "blocked by DRV-PEERMEM-SYMBOLS at node1",
        ),
    ],
)
def test_a_loaded_peermem_must_be_a_client(registration: str, facts: Facts, outcome: str) -> None:
    promised = builders.profile(registration=registration)
    assert said(rules.peermem_inert, promised, facts) == outcome


def unloaded(*lines: LogLine) -> Facts:
    return peermem(None, loaded=False, name=None, log=lines)


@pytest.mark.parametrize("registration", ["peermem", "both"])
@pytest.mark.parametrize(
    ("facts", "outcome"),
    [
        (peermem(), "passed"),
        (unloaded(*refused(REFUSED)), "DRV-PEERMEM-SYMBOLS"),
        (
            unloaded(*refused("nv_peer_mem: Unknown symbol ib_x (err -2)", "symbols")),
            "DRV-PEERMEM-SYMBOLS",
        ),
        (unloaded(*refused("mlx4_ib: Unknown symbol ib_x", "symbols")), MISSING),
        (peermem(log=refused(REFUSED)), "passed"),  # it was loaded in the end
        (peermem(module={"disk_source_version": "ANOTHER"}), "DRV-PEERMEM-SYMBOLS"),
        (peermem(module={"source_version": None, "disk_source_version": None}), "passed"),
        (peermem(module={"disk_source_version": LEFT_NOTHING}), "not judged"),
        (peermem(module={"disk_source_version": BROKEN}), "error"),
        (peermem(None, loaded=False, name=None, log=LEFT_NOTHING), "not judged"),
        (NOT_LOADED, MISSING),
    ],
)
def test_peermem_must_fit_the_stack(registration: str, facts: Facts, outcome: str) -> None:
    promised = builders.profile(registration=registration)
    assert said(rules.peermem_symbols, promised, facts) == outcome


@pytest.mark.parametrize("registration", ["any", "dmabuf"])
def test_a_peermem_that_nobody_demands_is_shown_and_not_judged(registration: str) -> None:
    promised = builders.profile(registration=registration)
    with pytest.raises(NotJudged, match="clients: none; the profile does not demand"):
        rules.peermem_inert(promised, peermem(()))
    with pytest.raises(NotJudged, match=r"clients: unknown \(no /sys/kernel/mm/memory_peers\);"):
        rules.peermem_inert(promised, peermem(None))
    with pytest.raises(NotJudged, match="disagrees about version"):
        rules.peermem_symbols(promised, unloaded(*refused(REFUSED)))


@pytest.mark.parametrize("registration", ["any", "peermem"])
def test_a_dmabuf_that_nobody_demands_is_shown_and_not_judged(registration: str) -> None:
    promised = builders.profile(registration=registration)
    with pytest.raises(NotJudged, match="open kernel module: no"):
        rules.dmabuf_impossible(promised, machine(nvidia={"open_module": False}))
