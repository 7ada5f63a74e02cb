"""What CONTRIBUTING.md shows works when it is pasted, and what it names is there."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import pytest

from gdrcheck.outcome import Outcome
from gdrcheck.profile import Profile
from tests.captured import running
from tests.captured.edits import put
from tests.captured.machines import MACHINES
from tests.captured.running import Ran, run_checks
from tests.captured.twins import TWINS

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "CONTRIBUTING.md").read_text()
PORT = "sys/class/infiniband/mlx5_5/ports/1"


@pytest.fixture
def pasted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The project's checks with the example beside them, run in place of the checks alone."""
    block = re.search(r"`(checks/node/\w+\.py)`:\n\n```python\n(.*?)```", PAGE, re.DOTALL)
    assert block is not None
    shutil.copytree(ROOT / "checks", tmp_path / "checks")
    (tmp_path / block[1]).write_text(block[2])
    monkeypatch.setattr(running, "CHECKS", tmp_path / "checks")
    monkeypatch.setattr(sys, "path", [*sys.path])
    # The run is in this process, which may have loaded the checks from where they are.
    with other_modules("checks"):
        yield


@contextmanager
def other_modules(package: str) -> Iterator[None]:
    before = loaded(package)
    for name in before:
        del sys.modules[name]
    try:
        yield
    finally:
        for name in loaded(package):
            del sys.modules[name]
        sys.modules.update(before)


def loaded(package: str) -> dict[str, ModuleType]:
    return {name: one for name, one in sys.modules.items() if name.split(".")[0] == package}


def run(root: Path, name: str, profile: Profile | None = None) -> Ran:
    return run_checks(root, profile or MACHINES[name]().profile, root.with_name("out"))


def cases(ran: Ran, outcome: Outcome) -> list[str]:
    return [id_ for id_ in ran.of(outcome) if id_.startswith("link_up")]


@pytest.mark.usefixtures("pasted")
def test_the_example_passes_on_a_healthy_machine(tmp_path: Path) -> None:
    ran = run(MACHINES["dgx"]().write(tmp_path / "root"), "dgx")
    assert ran.findings == {}
    assert len(cases(ran, Outcome.PASSED)) == 8


@pytest.mark.usefixtures("pasted")
def test_the_example_finds_what_no_other_check_finds(tmp_path: Path) -> None:
    root = MACHINES["dgx"]().write(tmp_path / "root")
    put(f"{PORT}/phys_state", "6: LinkErrorRecovery")(root)
    assert run(root, "dgx").findings == {
        ("PORT-NOT-ACTIVE", "node1/mlx5_5"): ["link_up[node1/mlx5_5]"]
    }


@pytest.mark.usefixtures("pasted")
def test_the_example_is_blocked_by_the_finding_of_another_check(tmp_path: Path) -> None:
    (twin,) = [one for one in TWINS if one.code == "PORT-NOT-ACTIVE"]
    root = MACHINES[twin.machine]().write(tmp_path / "root")
    for edit in twin.edits:
        edit(root)
    ran = run(root, twin.machine)
    assert [len(found) for found in ran.findings.values()] == [1]
    assert cases(ran, Outcome.BLOCKED) == [f"link_up[{place}]" for place in twin.places]


@pytest.mark.usefixtures("pasted")
def test_the_example_is_about_rails_only(tmp_path: Path) -> None:
    ran = run(MACHINES["h200vm"]().write(tmp_path / "root"), "h200vm")
    assert [ran.of(Outcome.SKIPPED)[id_] for id_ in cases(ran, Outcome.SKIPPED)] == [
        "the profile promises no rails"
    ]


def test_every_path_that_the_page_names_is_there() -> None:
    quoted = re.findall(r"`([\w./-]*/[\w./-]*)`", PAGE)
    named = {path for path in quoted if path != "checks/node/check_links.py"}
    assert {"gdrcheck/facts/", "tests/facts.py", "schemas/facts.json"} <= named
    assert [path for path in sorted(named) if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("page", sorted(ROOT.glob("*.md")) + sorted((ROOT / "docs").glob("*.md")))
def test_no_page_has_a_placeholder_left(page: Path) -> None:
    assert not re.search(r"@[A-Z]+@", page.read_text())
