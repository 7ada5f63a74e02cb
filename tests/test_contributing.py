"""The example in CONTRIBUTING.md is a check that works, and that can fail."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from gdrcheck import probes
from gdrcheck.outcome import CheckFailure
from gdrcheck.profile import Profile
from gdrcheck.rails import Rail, resolve
from tests.probes import trees

ROOT = Path(__file__).resolve().parents[1]
ONE = Profile.model_validate({"rails": {"count": 1, "nics": [{"name": "mlx5_0"}]}})


@pytest.fixture
def example() -> dict[str, Any]:
    block = re.search(r"```python\n(.*?)```", (ROOT / "CONTRIBUTING.md").read_text(), re.S)
    assert block is not None
    names: dict[str, Any] = {}
    exec(compile(block[1], "CONTRIBUTING.md", "exec"), names)
    return names


def rail(root: Path, **changes: str) -> Rail:
    trees.pci_nic(root, "mlx5_0", "0000:19:00.0", "eth1", **changes)
    return resolve(ONE, probes.collect("a", root))[0]


def test_the_example_passes_on_a_healthy_port(tmp_path: Path, example: dict[str, Any]) -> None:
    example["check_link_up"](rail(tmp_path))


def test_the_example_fails_on_a_port_without_link(tmp_path: Path, example: dict[str, Any]) -> None:
    with pytest.raises(CheckFailure, match="PORT-NOT-ACTIVE at a/mlx5_0"):
        example["check_link_up"](rail(tmp_path, phys_state="3: Disabled\n"))


@pytest.mark.parametrize("page", sorted(ROOT.glob("*.md")) + sorted((ROOT / "docs").glob("*.md")))
def test_no_page_has_a_placeholder_left(page: Path) -> None:
    assert not re.search(r"@[A-Z]+@", page.read_text())
