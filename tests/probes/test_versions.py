"""The versions of what is in the image."""

from __future__ import annotations

from pathlib import Path

import pytest

from gdrcheck.probes.versions import rdma_core_version, read_versions
from tests.probes import trees
from tests.probes.test_host import why


def test_versions_come_from_the_record_of_the_image(tmp_path: Path) -> None:
    trees.write(
        tmp_path,
        {"opt/gdrcheck/versions.json": '{"apt": {"libibverbs1": "56"}, "pip": {"pytest": "9"}}'},
    )
    found = read_versions(tmp_path)
    assert (found["libibverbs1"], found["pytest"]) == ("56", "9")
    assert rdma_core_version(found) == "56"


@pytest.mark.parametrize("text", [None, "", "{", "[1]", '{"apt": 1}', '{"apt": {}}', "\0"])
def test_without_a_record_the_version_of_rdma_core_is_unreadable(
    tmp_path: Path, text: str | None
) -> None:
    if text is not None:
        trees.write(tmp_path, {"opt/gdrcheck/versions.json": text})
    found = read_versions(tmp_path)
    assert "gdrcheck" in found
    said = why(rdma_core_version(found))
    assert said.startswith("versions.json")
    assert said.count("versions.json") == 1
