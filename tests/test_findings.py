"""The catalogue: complete, in shape, and every code that the software raises is in it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gdrcheck.findings import catalogue, show
from gdrcheck.findings.model import CODE_PATTERN, Entry, Finding, Where
from gdrcheck.outcome import InputError

ROOT = Path(__file__).resolve().parents[1]
# What a module of the catalogue may hold.
AREAS_OF_MODULE = {
    "host": ("HOST",),
    "drv": ("DRV",),
    "gpu": ("GPU",),
    "pci": ("PCI",),
    "port": ("PORT",),
    "port_settings": ("PORT",),
    "port_counters": ("PORT",),
    "differences": ("PORT", "HOST"),
    "mr": ("MR",),
    "pair": ("PAIR",),
    "run": ("RUN",),
}


def test_each_code_is_defined_once() -> None:
    codes = [entry.code for entry in catalogue.ENTRIES]
    assert sorted(set(codes)) == sorted(codes)
    assert set(catalogue.ENTRIES_BY_CODE) == set(codes)


def test_each_code_is_in_the_module_of_its_area() -> None:
    for module in catalogue.AREAS:
        name = module.__name__.rpartition(".")[2]
        for entry in module.ENTRIES:
            assert entry.code.split("-")[0] in AREAS_OF_MODULE[name]


@pytest.mark.parametrize("entry", catalogue.ENTRIES, ids=lambda entry: entry.code)
def test_each_entry_is_complete_and_reads_as_sentences(entry: Entry) -> None:
    assert re.fullmatch(CODE_PATTERN, entry.code)
    assert entry.causes
    assert entry.repair
    assert entry.source
    assert not entry.title.endswith(".")
    for sentence in (entry.meaning, entry.evidence, *entry.causes, *entry.repair):
        assert sentence.endswith("."), sentence
        assert "  " not in sentence, sentence


def test_every_code_that_is_raised_is_in_the_catalogue() -> None:
    quoted = re.compile(r'"(' + CODE_PATTERN.strip("^$") + r')"')
    raised: dict[str, Path] = {}
    for folder in ("gdrcheck", "checks", "playbooks"):
        for file in (ROOT / folder).rglob("*.py"):
            if file.parent.name != "findings":
                raised |= {found[0]: file for found in quoted.findall(file.read_text())}
    unknown = {code: str(file) for code, file in raised.items()}
    for code in catalogue.ENTRIES_BY_CODE:
        unknown.pop(code, None)
    assert unknown == {}
    assert raised


def test_entry_is_found_in_any_case() -> None:
    assert catalogue.entry("port-not-active").code == "PORT-NOT-ACTIVE"


def test_unknown_code_names_the_nearest() -> None:
    with pytest.raises(InputError, match=r"did you mean PORT-NOT-ACTIVE\?"):
        catalogue.entry("PORT-NOT-ACTIV")


def test_text_holds_causes_and_repairs_in_their_order() -> None:
    entry = catalogue.entry("MR-ENOMEM-MEMLOCK")
    text = " ".join(show.as_text(entry).split())
    positions = [text.index(part) for part in (entry.meaning, *entry.causes, *entry.repair)]
    assert positions == sorted(positions)


def test_page_of_findings_is_current() -> None:
    page = (ROOT / "docs" / "findings.md").read_text()
    assert page == show.as_markdown(catalogue.ENTRIES), (
        "run: gdrcheck explain --markdown > docs/findings.md"
    )


def test_finding_tells_place_observed_and_expected_in_one_line() -> None:
    finding = Finding(
        code="PORT-RATE-LOW",
        where=Where(node="node1", gpu="gpu0", nic="mlx5_0", peer="node2"),
        observed="200",
        expected="400",
        unit="Gb/s",
    )
    assert finding.text() == (
        "PORT-RATE-LOW at node1/gpu0/mlx5_0 (with node2): observed 200 Gb/s, expected 400 Gb/s"
    )
