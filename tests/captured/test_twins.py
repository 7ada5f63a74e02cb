"""Each broken twin shows its code, at its place, and nothing else; what stands on it is blocked."""

from __future__ import annotations

from pathlib import Path

import pytest

from gdrcheck.findings.catalogue import ENTRIES, ENTRIES_BY_CODE
from gdrcheck.outcome import Outcome
from tests.captured.machines import MACHINES
from tests.captured.running import promised, run_checks
from tests.captured.twins import TWINS, Twin

REPOSITORY = Path(__file__).resolve().parents[2]
AREAS = ("HOST", "DRV", "GPU", "MR", "PCI", "PORT")
# Codes that the facts of one node, read once, cannot show, and the test that reads each back.
PROVEN_ELSEWHERE = {
    "GPU-NVLINK-ERRORS": "tests/rules/test_gpu_after.py",
    "GPU-VBIOS-DIFFERS": "tests/captured/test_two_nodes.py",
    "HOST-CAP-IPCLOCK": "tests/test_memory_rules.py",
    "HOST-CLOCK-OFFSET": "tests/rules/test_differences.py",
    "HOST-DRIFT": "tests/captured/test_two_nodes.py",
    "HOST-MEMLOCK-LIMIT": "tests/test_memory_rules.py",
    "MR-HOST-FAILED": "tests/test_memory_rules.py",
    "PORT-ERROR-RATE": "tests/captured/test_two_nodes.py",
    "PORT-ERRORS-GREW": "tests/captured/test_two_nodes.py",
    "PORT-FIRMWARE-DIFFERS": "tests/captured/test_two_nodes.py",
    "PORT-LINK-DOWNED": "tests/captured/test_two_nodes.py",
    "PORT-MTU-DIFFERS": "tests/captured/test_two_nodes.py",
}


@pytest.mark.parametrize("twin", TWINS, ids=lambda twin: twin.id)
def test_a_twin_shows_its_fault_and_no_other(twin: Twin, tmp_path: Path) -> None:
    machine = MACHINES[twin.machine]()
    root = machine.write(tmp_path / "root")
    for edit in twin.edits:
        edit(root)
    profile = promised(machine.profile, twin.promise)
    ran = run_checks(root, profile, tmp_path / "out", twin.wrong)
    expected = {*((twin.code, place) for place in twin.places), *twin.also}
    assert set(ran.findings) == expected
    assert all(len(cases) == 1 for cases in ran.findings.values()), ran.findings
    assert ran.severities == {ENTRIES_BY_CODE[code].severity for code, _ in expected}
    assert ran.of(Outcome.ERROR) == {}
    blockers = {f"blocked by {code} at {place}" for code, place in expected}
    blocked = ran.of(Outcome.BLOCKED)
    assert set(blocked.values()) <= blockers
    assert {id_.partition("[")[0] for id_ in blocked} >= set(twin.blocks)


def test_twins_have_names_of_their_own() -> None:
    names = [twin.id for twin in TWINS]
    assert len(set(names)) == len(names)


def test_every_code_is_read_back_somewhere() -> None:
    codes = {entry.code for entry in ENTRIES if entry.code.partition("-")[0] in AREAS}
    shown = {twin.code for twin in TWINS}
    assert codes - shown - set(PROVEN_ELSEWHERE) == set()
    assert (shown | set(PROVEN_ELSEWHERE)) - codes == set()


@pytest.mark.parametrize(("code", "path"), PROVEN_ELSEWHERE.items())
def test_the_test_that_proves_a_code_elsewhere_names_it(code: str, path: str) -> None:
    assert code in (REPOSITORY / path).read_text()
