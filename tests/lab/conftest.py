"""One lab for the session: four nodes, because some faults need bystanders."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab import api
from tests.lab.warm import Warm, warm

IMAGE = "localhost/gdrcheck:dev"


@pytest.fixture(scope="session")
def the_lab() -> Iterator[api.Lab]:
    """The lab ``test`` with four nodes, taken down at the end; or the one that GDRCHECK_LAB names,
    which must be up with the image, and stays up: for working on a test.
    """
    if name := os.environ.get("GDRCHECK_LAB"):
        yield api.Lab(name)
        return
    with api.running(nodes=4, name="test", image=IMAGE) as running:
        yield running


@pytest.fixture(scope="session")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where runs of this session leave their files."""
    return tmp_path_factory.mktemp("results")


@pytest.fixture(scope="session")
def pair(the_lab: api.Lab, results: Path) -> Iterator[Warm]:
    """Warm containers on node1 and node2."""
    with warm(the_lab.nodes[:2], IMAGE, results) as containers:
        yield containers
