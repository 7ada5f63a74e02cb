"""A device behind a fake of pyverbs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.verbs import fake_pyverbs


@pytest.fixture
def fake_device() -> Iterator[Any]:
    """The device ``sim0``, open, of which nothing is left at the end."""
    with fake_pyverbs.installed():
        with fake_pyverbs.load("gdrcheck.verbs.device").open_device("sim0") as device:
            yield device
            fake_pyverbs.nic.refuses.clear()
            assert fake_pyverbs.nic.alive == ["context", "pd"]
        assert fake_pyverbs.nic.alive == []
