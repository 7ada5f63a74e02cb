"""What every check may ask for: the run, the profile, the facts, and one case for each rail."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from gdrcheck import gates, rails, run
from gdrcheck.facts import Facts, Unreadable
from gdrcheck.findings.model import Where
from gdrcheck.outcome import Blocked, NotPromised
from gdrcheck.profile import Profile
from gdrcheck.rails import Rail
from gdrcheck.rules import absence
from gdrcheck.rules.driver import expected_modules, provider_missing

if TYPE_CHECKING:
    from gdrcheck.verbs.device import Device


# A file that is not named here comes after these.
LEVELS = {
    "check_host": 0,
    "check_driver": 1,
    "check_gpus": 2,
    "check_gpu_health": 3,
    "check_pci": 4,
    "check_ports": 5,
    "check_verbs": 6,
    "check_memory": 7,
    "check_cuda": 8,
    "check_gpu_load": 9,
    "check_gpu_peers": 10,
    "check_registration": 11,
}


@dataclass(frozen=True, slots=True)
class PromisedGpu:
    """A GPU that the profile promises: the N-th in PCI order. ``slot`` None: it is not there."""

    number: int
    where: Where
    slot: str | None


@dataclass(frozen=True, slots=True)
class ExpectedModule:
    """A kernel module that must be loaded on this node."""

    name: str
    where: Where


@dataclass(frozen=True, slots=True)
class Absent:
    """Stands for the parameters of a check whose subject the profile does not promise."""

    where: Where
    reason: str


class NodeCase:
    """The node as a parameter of a check that concerns no single rail."""

    def __init__(self, name: str) -> None:
        self.where = Where(node=name)


def pytest_configure(config: pytest.Config) -> None:
    """Registers the markers that checks use."""
    config.addinivalue_line("markers", "method(name): the registration method under test")


def spec_of(config: pytest.Config) -> run.RunSpec:
    """The run document of this pytest process."""
    return run.load(Path(config.getoption("--gdrcheck-run")))


def facts_of(config: pytest.Config) -> Facts:
    """The facts that the supervisor left beside the events."""
    path = Path(config.getoption("--gdrcheck-events")).with_name("facts.json")
    return Facts.model_validate_json(path.read_bytes())


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Cheapest cause first: what is there, then what opens, then what can be done with it."""
    items.sort(key=lambda item: LEVELS.get(item.path.stem, len(LEVELS)))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One case for the node, or for each rail, rail with its GPU, GPU or module of the profile."""
    name = metafunc.config.getoption("--gdrcheck-node")
    if "node" in metafunc.fixturenames:
        metafunc.parametrize("node", [pytest.param(NodeCase(name), id=name)])
    if not {"rail", "gpu_rail", "gpu", "module"} & set(metafunc.fixturenames):
        return
    profile = spec_of(metafunc.config).profile_of(name)
    facts = facts_of(metafunc.config)
    cases = rails.resolve(profile, facts)
    mark = metafunc.definition.get_closest_marker("method")
    method = f", {mark.args[0]}" if mark else ""
    subjects(metafunc, "rail", [(one.where.text() + method, one) for one in cases], "rails")
    gpus = promised_gpus(profile, facts)
    modules = [ExpectedModule(one, Where(node=name)) for one in expected_modules(profile)]
    subjects(metafunc, "gpu", [(one.where.text(), one) for one in gpus], "GPUs")
    with_gpu = [(one.where_with_gpu.text(), one) for one in cases] if gpus else []
    subjects(metafunc, "gpu_rail", with_gpu, "rails" if gpus else "GPUs")
    subjects(metafunc, "module", [(f"{name}, {one.name}", one) for one in modules], "modules")


def subjects(
    metafunc: pytest.Metafunc, fixture: str, cases: Sequence[tuple[str, object]], what: str
) -> None:
    """A case for each of ``cases``; with none, one case that says what is not promised."""
    if fixture not in metafunc.fixturenames:
        return
    name = metafunc.config.getoption("--gdrcheck-node")
    absent = Absent(Where(node=name), f"the profile promises no {what}")
    params = [pytest.param(value, id=id_) for id_, value in cases]
    metafunc.parametrize(fixture, params or [pytest.param(absent, id=name)], indirect=True)


def promised_gpus(profile: Profile, facts: Facts) -> list[PromisedGpu]:
    """The GPUs that the profile promises, each with its slot if it is there."""
    count = profile.gpus.count if profile.gpus else 0
    there = () if isinstance(facts.pci, Unreadable) else facts.pci.nvidia_gpus
    return [
        PromisedGpu(
            number=number,
            where=Where(node=facts.node, gpu=f"gpu{number}"),
            slot=there[number].slot if number < len(there) else None,
        )
        for number in range(count)
    ]


@pytest.fixture(scope="session")
def spec(pytestconfig: pytest.Config) -> run.RunSpec:
    """The run document."""
    return spec_of(pytestconfig)


@pytest.fixture(scope="session")
def profile(spec: run.RunSpec, pytestconfig: pytest.Config) -> Profile:
    """What the owner promises of this node."""
    return spec.profile_of(pytestconfig.getoption("--gdrcheck-node"))


@pytest.fixture(scope="session")
def facts(pytestconfig: pytest.Config) -> Facts:
    """What the probes read on this node."""
    return facts_of(pytestconfig)


def promised(request: pytest.FixtureRequest) -> object:
    """The case's subject; NotPromised when the profile has none."""
    if isinstance(request.param, Absent):
        raise NotPromised(request.param.reason)
    return request.param


@pytest.fixture
def rail(request: pytest.FixtureRequest, profile: Profile, facts: Facts) -> Rail:
    """A rail that the profile promises, if it tells which device serves it."""
    rail = cast(Rail, promised(request))
    absence.require_told_apart(profile, facts)
    return rail


@pytest.fixture
def gpu(request: pytest.FixtureRequest) -> PromisedGpu:
    """A GPU that the profile promises."""
    return cast(PromisedGpu, promised(request))


@pytest.fixture
def gpu_rail(request: pytest.FixtureRequest, profile: Profile, facts: Facts) -> Rail:
    """A rail of a node whose profile promises GPUs; ``gpu`` is None when none is left for it."""
    rail = cast(Rail, promised(request))
    absence.require_told_apart(profile, facts)
    return rail


@pytest.fixture
def module(request: pytest.FixtureRequest) -> ExpectedModule:
    """A kernel module that must be loaded."""
    return cast(ExpectedModule, promised(request))


@pytest.fixture
def present_rail(rail: Rail, profile: Profile, facts: Facts) -> Rail:
    """The rail, if it has its device; else the check is blocked."""
    absence.device_of(rail, profile, facts)
    return rail


@contextmanager
def opened_device(rail: Rail, facts: Facts) -> Iterator[Device]:
    """The rail's device, open; Blocked if it does not open."""
    gates.block(provider_missing(rail, facts))
    from gdrcheck.verbs.device import open_device
    from gdrcheck.verbs.errors import VerbsError

    with ExitStack() as stack:
        try:
            device = stack.enter_context(open_device(rail.nic))
        except VerbsError as error:
            raise Blocked(f"PORT-OPEN-FAILED at {rail.where.text()}") from error
        yield device


@pytest.fixture
def device(present_rail: Rail, facts: Facts) -> Iterator[Device]:
    """The rail's device, open; if it does not open, the check is blocked."""
    with opened_device(present_rail, facts) as device:
        yield device


@pytest.fixture
def active_rail(present_rail: Rail) -> Rail:
    """The rail, if its port is active; else the check is blocked."""
    gates.require_active_port(present_rail)
    return present_rail
