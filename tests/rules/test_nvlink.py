"""NVLinks that are down, errors of NVSwitches, and a link in words."""

from __future__ import annotations

import pytest

from gdrcheck.facts import Facts, Gpu, LogLine, NvLink, Unreadable
from gdrcheck.findings.model import Where
from gdrcheck.outcome import NotJudged, NotPromised, ProbeError
from gdrcheck.profile import Profile
from gdrcheck.rules import nvlink as rules
from tests import facts as make
from tests.gpu_facts import gpu_health, nvlink, nvlinks

GPU0 = Where(node="node1", gpu="gpu0")
UNREAD = Unreadable(unreadable="Unknown Error")
PRIVILEGE = Unreadable(unreadable="least privilege: no collector", privilege=True)
SLOTS = ("0000:1b:00.0", "0000:2b:00.0")
SWITCH = make.pci_function("0000:05:00.0", vendor=0x10DE, device=0x22A3, class_code=0x068000)


def gpu(links: object, slot: str = SLOTS[0], **changes: object) -> Gpu:
    return make.gpu(slot=slot, health=gpu_health(nvlinks=links), **changes)


def promise(**expect: object) -> Profile:
    return make.profile(expect=expect)


def down(*numbers: int) -> tuple[NvLink, ...]:
    return nvlinks(*(NvLink(number=number, active=False) for number in numbers))


def beside(first: Gpu, second: Gpu | None = None) -> Facts:
    gpus = (first, second or gpu(nvlinks(), SLOTS[1]))
    return make.facts(nvml=make.nvml(gpus=gpus))


@pytest.mark.parametrize("promised", [{"nvlinks": 18}, {"nvlinks": 12}, {}])
def test_all_links_up(promised: dict[str, object]) -> None:
    healthy = gpu(nvlinks())
    assert rules.links_down(GPU0, healthy, promise(**promised), beside(healthy)) is None


def test_fewer_links_than_promised() -> None:
    sick = gpu(down(3, 7))
    found = rules.links_down(GPU0, sick, promise(nvlinks=18), beside(sick))
    assert found is not None
    assert (found.code, found.where) == ("GPU-NVLINK-DOWN", GPU0)
    assert found.observed == "16 NVLinks are up"
    assert found.evidence == {"down": "3, 7"}
    assert rules.links_down(GPU0, sick, promise(nvlinks=16), beside(sick)) is None


def test_a_gpu_at_switches_is_to_have_as_many_as_another_one() -> None:
    sick = gpu(down(*range(18)))
    found = rules.links_down(GPU0, sick, promise(), beside(sick))
    assert found is not None
    assert found.expected == "18, as another GPU of this model has on this node"
    for change in ({"model": "NVIDIA L40S"}, {"mig": "enabled"}):
        other = gpu(nvlinks(), SLOTS[1], **change)
        with pytest.raises(NotJudged, match="0 of 18 NVLinks are up"):
            rules.links_down(GPU0, sick, promise(), beside(sick, other))


def test_links_that_all_gpus_lack_are_not_proven_sound() -> None:
    one, other = gpu(down(3, 7)), gpu(down(4, 8), SLOTS[1])
    with pytest.raises(NotJudged, match=r"16 of 18 NVLinks are up.*expect.nvlinks.*down: 3, 7"):
        rules.links_down(GPU0, one, promise(), beside(one, other))
    assert rules.links_down(GPU0, one, promise(nvlinks=18), beside(one, other)) is not None


def test_links_between_gpus_are_not_judged_without_a_promise() -> None:
    bridged = tuple(nvlink(at, remote="gpu", remote_slot=SLOTS[1]) for at in range(12))
    with pytest.raises(NotJudged, match="12 of 12 NVLinks are up"):
        rules.links_down(GPU0, gpu(bridged), promise(), beside(gpu(bridged), gpu((), SLOTS[1])))


def test_a_gpu_without_nvlinks() -> None:
    alone = beside(gpu(()), gpu((), SLOTS[1]))
    with pytest.raises(NotPromised, match="has no NVLinks"):
        rules.links_down(GPU0, gpu(()), promise(), alone)
    for promised, facts in ((promise(nvlinks=18), alone), (promise(), beside(gpu(())))):
        found = rules.links_down(GPU0, gpu(()), promised, facts)
        assert found is not None
        assert found.evidence == {"down": "none that the driver lists"}


@pytest.mark.parametrize("links", [UNREAD, nvlinks(NvLink(number=4, active=UNREAD))])
def test_links_that_were_not_read_are_an_error(links: object) -> None:
    with pytest.raises(ProbeError, match="NVLink"):
        rules.links_down(GPU0, gpu(links), promise(), beside(gpu(links)))


def test_links_that_nobody_expects_need_not_be_read() -> None:
    facts = beside(gpu(UNREAD), gpu((), SLOTS[1]))
    with pytest.raises(NotJudged, match="Unknown Error"):
        rules.links_down(GPU0, gpu(UNREAD), promise(), facts)
    with pytest.raises(ProbeError):
        rules.links_down(GPU0, gpu(UNREAD), promise(nvlinks=18), facts)


def logged(*texts: str, switches: bool = True, log: object = None) -> Facts:
    lines = tuple(LogLine(topic="sxid", seconds_since_boot=7.0, text=text) for text in texts)
    tree = make.pci_tree()
    functions = (*tree.functions, SWITCH) if switches else tree.functions
    return make.facts(
        pci=make.pci_tree(functions=functions), host=make.host(kernel_log=log or lines)
    )


FATAL = "nvidia-nvswitch0: SXid (PCI:0000:c2:00.0): 20034, Fatal, Link 28 LTSSM Fault Up"
OTHER = "nvidia-nvswitch4: SXid (PCI:0000:c6:00.0): 19084, Non-fatal, Link 29 AN1 Heartbeat"


def test_a_fatal_error_of_an_nvswitch_is_told_once_with_its_last_line() -> None:
    found = rules.switch_error(promise(), logged(OTHER, FATAL, FATAL.replace("28", "29")))
    assert found is not None
    assert (found.code, found.where) == ("GPU-NVSWITCH-ERROR", Where(node="node1"))
    assert found.observed == "20034 of PCI:0000:c2:00.0"
    assert "Link 29" in found.evidence["SXid 20034 of PCI:0000:c2:00.0"]


def test_other_errors_of_nvswitches_are_shown_only() -> None:
    assert rules.switch_error(promise(), logged(OTHER)) is None
    assert rules.switch_error(promise(), logged()) is None


def test_a_node_without_nvswitches_is_skipped_unless_its_log_tells_of_one() -> None:
    with pytest.raises(NotPromised, match="no NVSwitch"):
        rules.switch_error(promise(), logged(switches=False))
    assert rules.switch_error(promise(), logged(FATAL, switches=False)) is not None
    with pytest.raises(NotPromised, match="no GPUs"):
        rules.switch_error(make.profile(gpus=None), logged(FATAL))


def test_a_log_that_was_not_read_is_no_proof() -> None:
    with pytest.raises(NotJudged, match="least privilege"):
        rules.switch_error(promise(), logged(log=PRIVILEGE))
    with pytest.raises(ProbeError, match="kernel log"):
        rules.switch_error(promise(), logged(log=UNREAD))


@pytest.mark.parametrize(
    ("link", "words"),
    [
        (nvlink(), "up to a switch"),
        (
            nvlink(remote="gpu", remote_slot=SLOTS[1], replay_errors=3, crc_errors=UNREAD),
            f"up to a gpu at {SLOTS[1]}; replay errors 3; CRC errors unreadable (Unknown Error)",
        ),
        (NvLink(number=0, active=False), "down"),
        (NvLink(number=0, active=UNREAD), "unreadable (Unknown Error)"),
    ],
)
def test_a_link_in_words(link: NvLink, words: str) -> None:
    assert rules.told(link) == words
