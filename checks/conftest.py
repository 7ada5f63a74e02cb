"""What every check may ask for: the run, the profile, the facts, and one case for each rail."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gdrcheck import gates, rails, run
from gdrcheck.facts import Facts
from gdrcheck.findings.model import Where
from gdrcheck.outcome import Blocked
from gdrcheck.profile import Profile
from gdrcheck.rails import Rail

if TYPE_CHECKING:
    from gdrcheck.verbs.device import Device


# A file that is not named here comes after these.
LEVELS = {"check_ports": 0, "check_verbs": 1, "check_memory": 2}


class NodeCase:
    """The node as a parameter of a check that concerns no single rail."""

    def __init__(self, name: str) -> None:
        self.where = Where(node=name)


def pytest_configure(config: pytest.Config) -> None:
    """Registers the markers that checks use."""
    config.addinivalue_line("markers", "method(name): the registration method under test")


def _spec(config: pytest.Config) -> run.RunSpec:
    return run.load(Path(config.getoption("--gdrcheck-run")))


def _facts(config: pytest.Config) -> Facts:
    path = Path(config.getoption("--gdrcheck-events")).with_name("facts.json")
    return Facts.model_validate_json(path.read_bytes())


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Cheapest cause first: what is there, then what opens, then what can be done with it."""
    items.sort(key=lambda item: LEVELS.get(item.path.stem, len(LEVELS)))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One case for the node, or one for each rail that the profile promises."""
    name = metafunc.config.getoption("--gdrcheck-node")
    if "node" in metafunc.fixturenames:
        metafunc.parametrize("node", [pytest.param(NodeCase(name), id=name)])
    if "rail" in metafunc.fixturenames:
        profile = _spec(metafunc.config).profile_of(name)
        cases = rails.resolve(profile, _facts(metafunc.config))
        mark = metafunc.definition.get_closest_marker("method")
        method = f", {mark.args[0]}" if mark else ""
        metafunc.parametrize(
            "rail", [pytest.param(rail, id=rail.where.text() + method) for rail in cases]
        )


@pytest.fixture(scope="session")
def spec(pytestconfig: pytest.Config) -> run.RunSpec:
    """The run document."""
    return _spec(pytestconfig)


@pytest.fixture(scope="session")
def profile(spec: run.RunSpec, pytestconfig: pytest.Config) -> Profile:
    """What the owner promises of this node."""
    return spec.profile_of(pytestconfig.getoption("--gdrcheck-node"))


@pytest.fixture(scope="session")
def facts(pytestconfig: pytest.Config) -> Facts:
    """What the probes read on this node."""
    return _facts(pytestconfig)


@pytest.fixture
def present_rail(rail: Rail, facts: Facts) -> Rail:
    """The rail, if it has its device; else the check is blocked."""
    gates.require_device(rail, facts)
    return rail


@pytest.fixture
def device(present_rail: Rail) -> Iterator[Device]:
    """The rail's device, open; if it does not open, the check is blocked."""
    from gdrcheck.verbs.device import open_device
    from gdrcheck.verbs.errors import VerbsError

    with ExitStack() as stack:
        try:
            device = stack.enter_context(open_device(present_rail.nic))
        except VerbsError as error:
            raise Blocked(f"PORT-OPEN-FAILED at {present_rail.where.text()}") from error
        yield device


@pytest.fixture
def active_rail(rail: Rail, facts: Facts) -> Rail:
    """The rail, if its port is active; else the check is blocked."""
    gates.require_active_port(rail, facts)
    return rail
