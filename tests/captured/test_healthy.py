"""Healthy machines: everything is read, nothing is wrong, and rails are what a person would say."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from gdrcheck import probes, rails, topology
from gdrcheck.facts import Unreadable
from gdrcheck.outcome import Outcome
from tests.captured.machine import Machine
from tests.captured.machines import MACHINES
from tests.captured.reading import unreadable
from tests.captured.running import NODE, run_checks


@pytest.fixture(params=MACHINES)
def machine(request: pytest.FixtureRequest) -> Machine:
    return MACHINES[request.param]()


def test_no_check_finds_anything(machine: Machine, tmp_path: Path) -> None:
    ran = run_checks(machine.write(tmp_path / "root"), machine.profile, tmp_path / "out")
    assert ran.findings == {}
    assert ran.of(Outcome.FAILED) == {}
    assert ran.of(Outcome.ERROR) == {}
    assert ran.of(Outcome.BLOCKED) == {}
    open_ones = ran.of(Outcome.NOT_JUDGED) | ran.of(Outcome.SKIPPED)
    named = set(machine.not_judged.split())
    assert named <= names(open_ones)
    # What is about rails needs no naming on a machine without any.
    about_rails = {id_ for id_, why in open_ones.items() if why == "the profile promises no rails"}
    assert names(open_ones) - names(about_rails) <= named


def names(cases: Iterable[str]) -> set[str]:
    return {id_.partition("[")[0] for id_ in cases}


def test_what_a_machine_has_is_read(machine: Machine, tmp_path: Path) -> None:
    facts = probes.collect(NODE, machine.write(tmp_path))
    missing = dict(unreadable(facts))
    others = {path: value for path, value in missing.items() if not value.privilege}
    assert others.keys() == set(machine.unreadable), others
    assert ("collector" in missing) is (len(missing) > len(others)) is not machine.collected


def test_rails_and_distances_are_those_written_down(machine: Machine, tmp_path: Path) -> None:
    facts = probes.collect(NODE, machine.write(tmp_path))
    resolved = rails.resolve(machine.profile, facts)
    assert [(rail.gpu, rail.nic, rail.distance) for rail in resolved] == [
        (rail.gpu, rail.nic, rail.distance) for rail in machine.rails
    ]
    assert not isinstance(facts.pci, Unreadable)
    assert tuple(gpu.slot for gpu in facts.pci.nvidia_gpus) == machine.gpus
    assert facts.pci.misplaced == {}
    measured = {pair: topology.distance(facts, *pair) for pair in machine.distances}
    assert measured == machine.distances


def test_a_profile_holds_the_core_promises(machine: Machine) -> None:
    assert machine.profile.missing_core() == (() if machine.rails else ("rails",))
