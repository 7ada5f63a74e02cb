"""CUDA of the node phase, started by the first case that needs it; cases of a GPU and a NIC."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import pytest

from checks.conftest import (
    PromisedGpu,
    facts_of,
    opened_device,
    promised,
    promised_gpus,
    spec_of,
    subjects,
)
from checks.node.cuda import cuda_refused, device_of, gpu_refused
from checks.node.peers import GpuPair, gpu_pairs
from checks.node.registering import Registering
from gdrcheck import gates, rails
from gdrcheck.facts import Facts
from gdrcheck.findings.model import Finding, Severity, Where
from gdrcheck.gpu_load import GpuGone
from gdrcheck.outcome import Blocked, CheckFailure, NotJudged, ProbeError
from gdrcheck.profile import Profile
from gdrcheck.rails import GpuNic, Rail
from gdrcheck.registration import METHODS, Attempt, Method
from gdrcheck.rules import absence, gpu_load, gpudirect, ports, registration
from gdrcheck.rules import cuda as cuda_rules
from gdrcheck.rules import gpu as gpu_rules
from gdrcheck.rules import gpu_peers as peer_rules
from gdrcheck.run import RunSpec

if TYPE_CHECKING:
    from gdrcheck.gpu.context import Gpu
    from gdrcheck.gpu.session import Session
    from gdrcheck.verbs.queue_pair import Path

# What these files find of a GPU keeps their later cases from using it.
LEVELS_OF_GPU = ("check_cuda", "check_registration")
FOUND = pytest.StashKey[dict[str, Finding]]()


@dataclass(frozen=True, slots=True)
class GpuNicMethod:
    """A GPU, a NIC, and the method by which memory of the one is registered with the other."""

    pair: GpuNic
    method: Method

    @property
    def where(self) -> Where:
        """The place of the GPU and the NIC."""
        return self.pair.where

    @property
    def gpu(self) -> PromisedGpu:
        """The GPU alone."""
        where = Where(node=self.where.node, gpu=self.where.gpu)
        return PromisedGpu(self.pair.gpu_number or 0, where, self.pair.gpu_slot)


def pytest_configure(config: pytest.Config) -> None:
    """Registers the marker of these checks; nothing is found yet."""
    config.addinivalue_line("markers", "moves: the pairs of GPU and NIC that data is moved through")
    config.stash[FOUND] = {}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A case for each two GPUs, and for each method and each GPU with each NIC.

    Of the latter fewer, if marked ``moves``.
    """
    if not {"gpu_nic", "gpu_pair"} & set(metafunc.fixturenames):
        return
    profile = spec_of(metafunc.config).profile_of(metafunc.config.getoption("--gdrcheck-node"))
    facts = facts_of(metafunc.config)
    subjects(metafunc, "gpu_pair", gpu_pairs(profile, facts), "two GPUs of a node")
    moves = metafunc.definition.get_closest_marker("moves")
    pairs = (rails.pairs_to_move_through if moves else rails.gpu_nic_pairs)(profile, facts)
    cases = [GpuNicMethod(pair, method) for pair in pairs for method in METHODS]
    lacking = "rails" if profile.gpus and profile.gpus.count else "GPUs"
    named = [(f"{case.where.text()}, {case.method}", case) for case in cases]
    subjects(metafunc, "gpu_nic", named, lacking)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Remembers the first finding of each GPU, and of CUDA: what comes later stands on it."""
    error = call.excinfo.value if call.excinfo else None
    if isinstance(error, CheckFailure) and item.path.stem in LEVELS_OF_GPU:
        where = error.finding.where
        if where.nic is None:
            item.config.stash[FOUND].setdefault(where.text(), error.finding)
    return (yield)


@pytest.fixture(scope="session")
def cuda(pytestconfig: pytest.Config, profile: Profile, facts: Facts) -> Iterator[Session]:
    """CUDA of this process. Its contexts are given back at the end, the last one first.

    ProbeError when one cannot be given back, unless that GPU was found wrong before.
    """
    from gdrcheck.gpu.session import Session

    session = Session()
    yield session
    errors = session.close()
    for gpu in promised_gpus(profile, facts):
        if gpu.slot and gpu.where.text() in pytestconfig.stash[FOUND]:
            errors.pop(gpu.slot, None)
    if errors:
        raise ProbeError("; ".join(map(str, errors.values())), step="give GPUs back")


@pytest.fixture
def started_cuda(cuda: Session, profile: Profile, facts: Facts) -> Session:
    """CUDA, if it starts; else the check is blocked."""
    try:
        gates.block(cuda_refused(cuda, profile, facts))
    except ProbeError as error:
        raise Blocked(f"error in cuda_starts[{facts.node}]") from error
    return cuda


@pytest.fixture
def open_gpu(
    gpu: PromisedGpu,
    started_cuda: Session,
    profile: Profile,
    facts: Facts,
    pytestconfig: pytest.Config,
) -> Gpu:
    """The GPU, open; blocked by what was found of it before, or by what keeps it from opening."""
    return _opened(gpu, started_cuda, profile, facts, pytestconfig)


@pytest.fixture
def gpu_pair(request: pytest.FixtureRequest) -> GpuPair:
    """Two GPUs that the profile promises."""
    return cast(GpuPair, promised(request))


@pytest.fixture
def open_pair(
    gpu_pair: GpuPair,
    started_cuda: Session,
    profile: Profile,
    facts: Facts,
    pytestconfig: pytest.Config,
) -> tuple[Gpu, Gpu]:
    """Both GPUs, open; blocked by what was found of one before, or keeps it from opening."""
    one, other = (
        _opened(gpu, started_cuda, profile, facts, pytestconfig)
        for gpu in (gpu_pair.one, gpu_pair.other)
    )
    return one, other


@pytest.fixture
def calls_of_pair(
    gpu_pair: GpuPair, facts: Facts, pytestconfig: pytest.Config
) -> Callable[[], AbstractContextManager[None]]:
    """A block whose errors of CUDA are findings about the two GPUs; neither is used after one."""
    from gdrcheck.gpu.errors import CudaError

    @contextmanager
    def judged() -> Iterator[None]:
        try:
            yield
        except CudaError as error:
            finding = peer_rules.call_failed(gpu_pair.where, error, gpu_pair.slots, facts)
            if error.function not in peer_rules.HARMLESS:
                for gpu in (gpu_pair.one, gpu_pair.other):
                    pytestconfig.stash[FOUND].setdefault(gpu.where.text(), finding)
            gates.fail(finding)

    return judged


def _opened(
    gpu: PromisedGpu, cuda: Session, profile: Profile, facts: Facts, config: pytest.Config
) -> Gpu:
    for place in (Where(node=facts.node), gpu.where):
        gates.block(config.stash[FOUND].get(place.text()))
    try:
        gates.block(gpu_refused(gpu, cuda, profile, facts))
    except ProbeError as error:
        raise Blocked(f"error in gpu_opens[{gpu.where.text()}]") from error
    device = device_of(gpu_rules.answering(gpu.where, gpu.slot, profile, facts), cuda)
    assert device is not None, "gpu_refused found it"
    return cuda.open(device)


@pytest.fixture
def calls(
    gpu: PromisedGpu, facts: Facts, pytestconfig: pytest.Config
) -> Callable[[], AbstractContextManager[None]]:
    """A block whose errors of CUDA are findings about the GPU, which is not used after one."""
    from gdrcheck.gpu.errors import CudaError

    @contextmanager
    def judged() -> Iterator[None]:
        try:
            yield
        except CudaError as error:
            found = cuda_rules.call_failed(gpu.where, error, gpu.slot or "", facts)
        except GpuGone as error:
            found = gpu_load.gone(gpu.where, error)
        else:
            return
        pytestconfig.stash[FOUND].setdefault(found.where.text(), found)
        gates.fail(found)

    return judged


@pytest.fixture(scope="session")
def attempts_made() -> dict[str, Attempt]:
    """The attempts of this process, by place and method."""
    return {}


@pytest.fixture
def gpu_nic(request: pytest.FixtureRequest, profile: Profile, facts: Facts) -> GpuNicMethod:
    """A GPU, a NIC and a method that can be tried, as far as the facts tell."""
    case = cast(GpuNicMethod, promised(request))
    absence.device_of(case.pair.rail, profile, facts)
    registration.require_known_rail(case.pair, profile, facts)
    gpudirect.require_method(case.method, profile, facts)
    registration.require_memlock(case.pair, facts)
    return case


@pytest.fixture
def registering(
    gpu_nic: GpuNicMethod,
    started_cuda: Session,
    profile: Profile,
    facts: Facts,
    attempts_made: dict[str, Attempt],
    pytestconfig: pytest.Config,
) -> Iterator[Registering]:
    """The GPU and the NIC, both open; blocked by what keeps one of them from opening."""
    gpu = _opened(gpu_nic.gpu, started_cuda, profile, facts, pytestconfig)
    with opened_device(gpu_nic.pair.rail, facts) as device:
        yield Registering(gpu_nic.pair, gpu, device, profile, facts, attempts_made)


@pytest.fixture
def registered(gpu_nic: GpuNicMethod, registering: Registering) -> Registering:
    """The same, if memory of the GPU registers with the NIC by the method."""
    try:
        finding = registering.finding(gpu_nic.method)
    except NotJudged:
        # What nobody promised is moved all the same where it can be.
        if not registering.works(gpu_nic.method):
            raise
        finding = None
    gates.block(finding if finding and finding.severity is Severity.FAIL else None)
    return registering


@pytest.fixture
def path(gpu_nic: GpuNicMethod, registered: Registering, profile: Profile, spec: RunSpec) -> Path:
    """The way from the NIC's port to itself; blocked by what is wrong with the port."""
    from gdrcheck.memory.path import loopback_path
    from gdrcheck.verbs.gid import NoUsableGid

    rail = gpu_nic.pair.rail
    gates.require_active_port(rail)
    _require("port_link_layer", ports.other_link_layer, rail, profile)
    if profile.pkey is not None:
        _require("port_partition", ports.pkey_missing, rail, profile)
    try:
        return loopback_path(registered.device, rail.port, profile, spec.waits.completion_s)
    except NoUsableGid as error:
        raise Blocked(f"PORT-GID-NONE at {rail.where.text()}") from error


def _require(
    check: str, rule: Callable[[Rail, Profile], Finding | None], rail: Rail, profile: Profile
) -> None:
    """Blocked by what ``rule`` finds, or by the error of the check that it belongs to."""
    try:
        gates.block(rule(rail, profile))
    except ProbeError as error:
        raise Blocked(f"error in {check}[{rail.where.text()}]") from error
