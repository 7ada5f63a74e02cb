"""What the pages for users name is there: links, codes of findings, checks."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gdrcheck.findings.catalogue import ENTRIES_BY_CODE

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("*/README.md"), *(ROOT / "docs").glob("*.md")])
AREAS = {code.partition("-")[0] for code in ENTRIES_BY_CODE}


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
    assert [target for target in targets if not (page.parent / target).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_codes_are_those_of_the_catalogue(page: Path) -> None:
    quoted = re.findall(r"`([A-Z]+-[A-Z0-9-]*[A-Z0-9])[` ]", page.read_text(encoding="utf-8"))
    codes = {code for code in quoted if code.partition("-")[0] in AREAS}
    assert codes - set(ENTRIES_BY_CODE) == set()


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_cases_are_those_of_checks(page: Path) -> None:
    defined = {
        check
        for file in (ROOT / "checks").rglob("check_*.py")
        for check in re.findall(r"^def check_(\w+)\(", file.read_text(), re.MULTILINE)
    }
    named = set(re.findall(r"`(\w+)\[node\w*", page.read_text(encoding="utf-8")))
    # The page about adding a check shows one that is not there.
    assert named - defined - {"link_up"} == set()


def test_these_tests_read_something() -> None:
    page = (ROOT / "docs" / "gpu-memory.md").read_text(encoding="utf-8")
    assert "`MR-BAR1-FULL`" in page
    assert "`gpu_memory_registers[node1" in page
    assert "](evidence.md)" in page
