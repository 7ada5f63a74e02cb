"""What a GPU shows while data is copied to it: its link, its clocks, its packets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from gdrcheck import topology
from gdrcheck.facts import Facts, Link, Unreadable
from gdrcheck.findings.model import Finding, Severity, Where
from gdrcheck.gpu_load import Load
from gdrcheck.outcome import Blocked, NotJudged, ProbeError
from gdrcheck.rules import gpu_load
from tests import facts as builders
from tests.captured import loads

WHERE = Where(node="node1", gpu="gpu0")
REFUSED = Unreadable(unreadable="NVML: unknown error")
FACTS = builders.facts(node="node1", nvml=builders.nvml(gpus=(builders.gpu(builders.GPU_SLOT),)))
HEALTHY = loads.whole_load(loads.now(FACTS, builders.GPU_SLOT))


def judged(load: Load, **expect: object) -> Finding | None:
    profile = builders.profile(gpus={"count": 1, "model": "*"}, expect=expect)
    return gpu_load.wrong(WHERE, builders.GPU_SLOT, load, profile, FACTS)


def link(**changes: object) -> Load:
    return loads.link(**changes)(HEALTHY)


def test_a_healthy_gpu_under_load_is_right_although_its_idle_link_is_slow() -> None:
    assert HEALTHY.idle.pcie.generation == 1
    assert judged(HEALTHY) is None
    told = gpu_load.told(HEALTHY)
    assert told["PCIe link"] == "generation 5 of 5, width 16 of 16; idle: generation 1"
    assert told["copied"] == "20.0 GB in 0.40 s, 50.0 GB/s"


@pytest.mark.parametrize(
    ("changes", "code", "observed", "expected"),
    [
        ({"generation": 4}, "PCI-LINK-SPEED", "generation 4 (16 GT/s)", "generation 5 (32 GT/s)"),
        ({"width": 8}, "PCI-LINK-WIDTH", "x8", "x16"),
    ],
)
def test_a_link_that_stays_low_under_load_is_found(
    changes: dict[str, object], code: str, observed: str, expected: str
) -> None:
    finding = judged(link(**changes))
    assert finding is not None
    assert (finding.code, finding.severity) == (code, Severity.FAIL)
    assert finding.observed == f"{observed} while 20.0 GB were copied"
    assert finding.expected == f"GPU and system can do {expected}"


def test_what_is_promised_may_be_more_than_gpu_and_system_can_do() -> None:
    slow = link(generation=4, max_generation=4)
    assert judged(slow) is None
    finding = judged(slow, gpu_link={"speed_gts": 32.0})
    assert finding is not None
    assert finding.code == "PCI-LINK-SPEED"
    assert finding.expected.startswith("at least generation 5 (32 GT/s)")


@pytest.mark.parametrize("name", gpu_load.THROTTLED)
def test_clocks_that_are_held_down_are_found(name: str) -> None:
    finding = judged(loads.held(name, "sw_power_cap")(HEALTHY))
    assert finding is not None
    assert finding.code == "GPU-THROTTLED"
    assert finding.observed.startswith(name)
    assert "sw_power_cap" not in finding.observed


@pytest.mark.parametrize("name", gpu_load.HARMLESS)
def test_what_a_sound_gpu_may_have_is_shown_with_its_meaning(name: str) -> None:
    load = loads.held(name)(HEALTHY)
    assert judged(load) is None
    assert gpu_load.told(load)["clock limits"] == f"{name} ({gpu_load.HARMLESS[name]})"


def test_one_reading_of_a_slowdown_may_be_a_change_of_clocks() -> None:
    *before, last = HEALTHY.under_load
    once = replace(last, clock_limits=("hw_slowdown",))
    assert judged(replace(HEALTHY, under_load=(*before, once))) is None
    assert judged(replace(HEALTHY, under_load=(*before, once, once))) is not None


def test_all_that_is_wrong_is_told_by_the_first_finding() -> None:
    finding = judged(loads.held("hw_thermal")(link(width=4, generation=2, replays=1000)))
    assert finding is not None
    assert finding.code == "GPU-THROTTLED"
    assert {"PCI-LINK-WIDTH", "PCI-LINK-SPEED", "GPU-PCIE-REPLAYS"} <= set(finding.evidence)


# 2 stood before the copy. Of 20 GB 1.6 more than the 3 that are free are allowed.
@pytest.mark.parametrize(("replays", "found"), [(2, False), (6, False), (7, True)])
def test_replays_are_held_against_what_was_copied(replays: int, found: bool) -> None:
    finding = judged(link(replays=replays))
    assert (finding is not None) is found
    if finding is not None:
        assert (finding.code, finding.severity) == ("GPU-PCIE-REPLAYS", Severity.WARN)


def unreadable(name: str) -> Callable[[Load], Load]:
    if name == "clock_limits":
        return lambda load: replace(
            load, under_load=tuple(replace(one, clock_limits=REFUSED) for one in load.under_load)
        )
    return loads.link(**{name: REFUSED})


VALUES = ("generation", "width", "max_generation", "max_width", "clock_limits")


@pytest.mark.parametrize("name", [*VALUES, "replays"])
def test_what_cannot_be_read_is_an_error(name: str) -> None:
    with pytest.raises(ProbeError, match="unknown error"):
        judged(unreadable(name)(HEALTHY))


@pytest.mark.parametrize("name", VALUES[:-1])
def test_what_the_gpu_does_not_have_is_not_judged(name: str) -> None:
    with pytest.raises(NotJudged, match="does not tell"):
        judged(link(**{name: None}))


def test_a_gpu_that_counts_no_replays_is_judged_by_the_rest() -> None:
    assert judged(link(replays=None)) is None


@pytest.mark.parametrize("name", VALUES[:-1])
def test_a_fault_is_found_beside_what_cannot_be_told(name: str) -> None:
    other: dict[str, Any] = {"width": 4} if "generation" in name else {"generation": 2}
    assert judged(link(**{name: REFUSED}, **other)) is not None


def test_replays_that_were_reset_meanwhile_are_an_error() -> None:
    with pytest.raises(ProbeError, match="fell from 2 to 0"):
        judged(link(replays=0))


def test_a_copy_of_nothing_is_an_error_whatever_else_was_seen() -> None:
    with pytest.raises(ProbeError, match="nothing was copied"):
        judged(replace(link(width=1), copied_bytes=0))


def test_a_link_that_was_found_before_blocks() -> None:
    functions = [one for one in builders.pci_tree().functions if one.slot != builders.GPU_SLOT]
    narrow = builders.gpu_function(link=builders.link(current_width=8))
    tree = builders.pci_tree(functions=(*functions, narrow))
    facts = FACTS.model_copy(update={"pci": tree})
    profile = builders.profile(gpus={"count": 1, "model": "*"})
    with pytest.raises(Blocked, match="PCI-LINK-WIDTH at node1/gpu0"):
        gpu_load.wrong(WHERE, builders.GPU_SLOT, link(width=8), profile, facts)
    # What was not found before is found all the same.
    both = loads.held("hw_thermal")(link(width=8))
    finding = gpu_load.wrong(WHERE, builders.GPU_SLOT, both, profile, facts)
    assert finding is not None
    assert finding.code == "GPU-THROTTLED"
    assert "PCI-LINK-WIDTH" not in finding.evidence


def behind(port: Link) -> Facts:
    """The GPU below a port with this link."""
    tree = builders.pci_tree()
    above = topology.path_up(tree, builders.GPU_SLOT)[1]
    rest = (one for one in tree.functions if one.slot != above.slot)
    changed = above.model_copy(update={"link": port})
    return FACTS.model_copy(update={"pci": builders.pci_tree(functions=(*rest, changed))})


def test_a_port_that_can_do_less_than_the_gpu_makes_no_finding() -> None:
    profile = builders.profile(gpus={"count": 1, "model": "*"})
    facts = behind(builders.link(max_width=8, max_gts=16.0))
    slow = link(width=8, generation=4)
    assert gpu_load.wrong(WHERE, builders.GPU_SLOT, slow, profile, facts) is None
    for worse in ({"width": 4}, {"generation": 3}):
        lower = link(**({"width": 8, "generation": 4} | worse))
        assert gpu_load.wrong(WHERE, builders.GPU_SLOT, lower, profile, facts) is not None


def test_a_port_that_an_emulator_made_up_hides_nothing() -> None:
    profile = builders.profile(gpus={"count": 1, "model": "*"})
    facts = behind(builders.link(max_width=1, max_gts=2.5))
    assert gpu_load.wrong(WHERE, builders.GPU_SLOT, HEALTHY, profile, facts) is None
    for changes, code in (
        ({"width": 8}, "PCI-LINK-WIDTH"),
        ({"generation": 1}, "PCI-LINK-SPEED"),
        ({"width": 1}, "PCI-LINK-WIDTH"),
    ):
        finding = gpu_load.wrong(WHERE, builders.GPU_SLOT, link(**changes), profile, facts)
        assert finding is not None
        assert finding.code == code
