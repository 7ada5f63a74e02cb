"""The emulated driver in this process, with a file of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.emulated_gpu import loaded
from lab.emulated_gpu.config import VARIABLE
from tests.checks.world import CONFIG, World


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """Two healthy GPUs and a healthy NIC, until a test says otherwise."""
    conf, out = tmp_path / "gpus.conf", tmp_path / "out"
    out.mkdir()
    CONFIG.write(conf)
    monkeypatch.setenv(VARIABLE, str(conf))
    loaded.in_process(conf)
    return World(conf, out)
