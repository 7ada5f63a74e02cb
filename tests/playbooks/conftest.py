"""Real ansible-playbook, no guests: what goes wrong before a node is touched, and one local node
with a fake container engine."""

from __future__ import annotations

import importlib.util
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
FAKE_BIN = Path(__file__).parent / "fake_bin"
DEADLINE_S = 240

PROFILE = """---
gpus: {count: 0}
rails:
  count: 1
  nics: [{name: "rxe*"}]
  port_rate_gbps: 2.5
  link_layer: ethernet
"""


@dataclass
class Place:
    """An inventory folder, and what a run of the playbook over it needs."""

    folder: Path
    environment: dict[str, str] = field(default_factory=dict)

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def play(
        self, *arguments: str, inventory: str = "hosts.yml", playbook: str = "validate.yml"
    ) -> subprocess.CompletedProcess[str]:
        """Run a playbook; output and errors come together, as a person sees them."""
        return subprocess.run(
            [
                Path(sys.executable).parent / "ansible-playbook",
                "-i",
                self.folder / inventory,
                *arguments,
                playbook,
            ],
            cwd=REPOSITORY,
            env={**os.environ, **self.environment},
            text=True,
            check=False,
            timeout=DEADLINE_S,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A folder with a good profile and good variables; hosts.yml is the test's."""
    made = Place(
        tmp_path / "inventory",
        {
            "ANSIBLE_CONFIG": str(REPOSITORY / "ansible.cfg"),
            "ANSIBLE_HOME": str(tmp_path / "ansible"),
            "ANSIBLE_NOCOLOR": "1",
            "COLUMNS": "200",
        },
    )
    made.write("profiles/small.yml", PROFILE)
    made.write(
        "group_vars/gpu.yml",
        f"---\ngdrcheck_profile: small\ngdrcheck_results_dir: {tmp_path / 'results'}\n",
    )
    return made


def free_port(address: str) -> int:
    """A port of ``address`` at which nothing listens now."""
    with socket.socket() as probe:
        probe.bind((address, 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="session")
def module() -> Callable[[str], ModuleType]:
    """Loads a module of playbooks/library, with what it imports from Ansible's name space."""
    _load("ansible.module_utils.gdrcheck", "module_utils/gdrcheck.py")

    def load(name: str) -> ModuleType:
        return _load(f"tests_loaded_{name}", f"library/{name}.py")

    return load


@pytest.fixture(scope="session")
def filters() -> ModuleType:
    """The filter plugins."""
    return _load("tests_loaded_filters", "filter_plugins/gdrcheck.py")


@pytest.fixture(scope="session")
def progress() -> ModuleType:
    """The callback plugin."""
    return _load("tests_loaded_progress", "callback_plugins/gdrcheck_progress.py")


def _load(name: str, path: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, REPOSITORY / "playbooks" / path)
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    sys.modules[name] = loaded
    spec.loader.exec_module(loaded)
    return loaded
