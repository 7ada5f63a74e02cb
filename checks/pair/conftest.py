"""One case for everything that this node's rails owe, and the walk through the rounds.

The node's own cases come last: each node has them, also one that owns no pair. Those of its GPUs
run without rendezvous and walk on a node that has no pairs at all.
"""

from __future__ import annotations

from collections.abc import Generator
from functools import partial
from pathlib import Path

import pytest

from checks.conftest import facts_of, spec_of
from checks.pair.measuring import Measuring
from checks.pair.one_by_one import run_each
from gdrcheck import gates, steps
from gdrcheck.facts import CountersAfter, Nvml, Unreadable
from gdrcheck.node.local_gpus import local_gpus
from gdrcheck.outcome import Blocked
from gdrcheck.pairing.cases import PairCase, pair_cases, plan_text
from gdrcheck.pairing.pairs import OwnedPair, owned_pairs
from gdrcheck.pairing.plan import ProgramPlan, program_plan
from gdrcheck.pairing.rendezvous import RendezvousResult
from gdrcheck.pairing.walk import PairWalk
from gdrcheck.probes import LIVE_ROOT
from gdrcheck.probes.counters import read_counters_after
from gdrcheck.probes.gpu import ANSWER, read_nvml
from gdrcheck.probes.ports import read_state
from gdrcheck.probes.xids import read_watch
from gdrcheck.rails import Rail
from gdrcheck.results.files import write_atomic
from gdrcheck.results.incoming import COUNTERS_FILE, FACTS_FILE, GPUS_FILE, XIDS_FILE
from gdrcheck.results.pairs import nodes_with_pairs
from gdrcheck.results.plugin import CHECK_PREFIX, NODE_CASE, PAIR_JOURNAL
from gdrcheck.run import RunSpec
from gdrcheck.xids import XidWatch

MEASURING = pytest.StashKey[Measuring]()
WALK = pytest.StashKey[PairWalk]()
SPEC = pytest.StashKey[RunSpec]()
OWNED = pytest.StashKey[tuple[OwnedPair, ...]]()
# All that hold a check, in the order of collection.
MODULES = pytest.StashKey[dict[pytest.Module, None]]()


def _rendezvous(config: pytest.Config) -> RendezvousResult:
    return RendezvousResult.load(Path(config.getoption("--gdrcheck-out")) / "rendezvous.json")


def _spec(config: pytest.Config) -> RunSpec:
    if SPEC not in config.stash:
        config.stash[SPEC] = spec_of(config)
    return config.stash[SPEC]


def _owned(config: pytest.Config) -> tuple[OwnedPair, ...]:
    if OWNED not in config.stash:
        node = config.getoption("--gdrcheck-node")
        config.stash[OWNED] = owned_pairs(_spec(config), node, _rendezvous(config))
    return config.stash[OWNED]


def _collected(config: pytest.Config) -> tuple[OwnedPair, ...]:
    """The pairs to collect cases of: in a wide run the one that is open."""
    journal = config.stash.get(PAIR_JOURNAL, None)
    owned = _owned(config)
    return (
        owned
        if journal is None
        else tuple(pair for pair in owned if pair.peer == journal.responder)
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """The cases of one check, of every pair that this node initiates and that is due."""
    if "pair_case" not in metafunc.fixturenames:
        return
    config = metafunc.config
    check = metafunc.function.__name__.removeprefix(CHECK_PREFIX)
    node = config.getoption("--gdrcheck-node")
    cases = pair_cases(_spec(config), node, _collected(config))
    mine = [pytest.param(case, id=case.id) for case in cases if case.item.check == check]
    metafunc.parametrize("pair_case", mine, indirect=True)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Remember its module: in a wide run it is collected again for each pair."""
    if (module := item.getparent(pytest.Module)) is not None:
        item.config.stash.setdefault(MODULES, {})[module] = None


def _is_node_case(item: pytest.Item) -> bool:
    return item.get_closest_marker(NODE_CASE) is not None


def _order(item: pytest.Item) -> tuple[bool, tuple[int, ...]]:
    """The walk goes through the rounds in one way only; the node looks back at all of them."""
    call = getattr(item, "callspec", None)
    case = call.params.get("pair_case") if call is not None else None
    return _is_node_case(item), case.order if isinstance(case, PairCase) else ()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All of a pair before the next one, and in it what others stand on first."""
    items.sort(key=_order)


@pytest.hookimpl(wrapper=True)
def pytest_runtestloop(session: pytest.Session) -> Generator[None, object, object]:
    """Walks all rounds, also those in which this node only responds, and owns no case."""
    config = session.config
    spec, node = _spec(config), config.getoption("--gdrcheck-node")
    if config.option.collectonly or node not in nodes_with_pairs(spec):
        return (yield)
    if planned := plan_text(spec, node, _owned(config)):
        with steps.step(f"planned time of this node's pairs, where nothing is wrong: {planned}"):
            pass
    with _walk(config, spec, node) as walk:
        config.stash[WALK] = walk
        measuring = config.stash[MEASURING] = Measuring(walk, spec)
        if PAIR_JOURNAL in config.stash:
            modules = config.stash.setdefault(MODULES, {})
            run_each(session, modules, config.stash[PAIR_JOURNAL], measuring, spec, _owned(config))
        result = yield
        walk.finish()
    return result


def _walk(config: pytest.Config, spec: RunSpec, node: str) -> PairWalk:
    secret = bytes.fromhex(Path(config.getoption("--gdrcheck-secret")).read_text().strip())
    out, listed = Path(config.getoption("--gdrcheck-out")), _rendezvous(config)
    own = listed.nodes[node].rails
    # Without facts no rail is ready, and there is no GPU to open.
    has_facts = (out / FACTS_FILE).exists()
    profile = spec.profile_of(node)
    gpus = local_gpus(profile, facts_of(config), own) if has_facts else {}
    return PairWalk(spec, node, secret, listed, out, plan=partial(_plan, spec, node), gpus=gpus)


def _plan(spec: RunSpec, node: str, pair: OwnedPair) -> ProgramPlan:
    return program_plan(spec.profile_of(node), spec.profile_of(pair.peer))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Serves the rounds that are left before the first case of the node begins.

    Outside of any case: a hang there must not be charged to the port that comes next.
    """
    if _is_node_case(item) and WALK in item.config.stash:
        item.config.stash[WALK].finish()
    return (yield)


@pytest.fixture
def pair_case(request: pytest.FixtureRequest) -> PairCase:
    """What a rail owes in one direction; blocked by what keeps its port or its GPUs from it."""
    case: PairCase = request.param
    if case.rail.blocked_by is not None:
        raise Blocked(case.rail.blocked_by)
    if case.item.uses_gpus and case.rail.gpu_blocked_by is not None:
        raise Blocked(case.rail.gpu_blocked_by)
    return case


@pytest.fixture
def measuring(pytestconfig: pytest.Config) -> Measuring:
    """Measures on the walk through the rounds."""
    return pytestconfig.stash[MEASURING]


@pytest.fixture(scope="session")
def counters_after(pytestconfig: pytest.Config) -> CountersAfter:
    """The counters of all ports, now that this node has done its part; kept as a file."""
    found = read_counters_after(pytestconfig.getoption("--gdrcheck-node"), LIVE_ROOT)
    path = Path(pytestconfig.getoption("--gdrcheck-out")) / COUNTERS_FILE
    write_atomic(path, found.model_dump_json(indent=1).encode())
    return found


@pytest.fixture
def state_after(active_rail: Rail) -> str:
    """The state, now, of a port that was active when the facts were read; else blocked."""
    state = read_state(LIVE_ROOT, active_rail.nic, active_rail.port)
    return gates.readable(state, active_rail.where, "port state after the transfers")


@pytest.fixture(scope="session")
def nvml_after(pytestconfig: pytest.Config) -> Nvml | Unreadable | None:
    """What NVML says of all GPUs, now that this node has done its part; kept as a file."""
    found = read_nvml(LIVE_ROOT)
    if found is not None:
        path = Path(pytestconfig.getoption("--gdrcheck-out")) / GPUS_FILE
        write_atomic(path, ANSWER.dump_json(found, indent=1))
    return found


@pytest.fixture(scope="session")
def xid_watch(pytestconfig: pytest.Config) -> XidWatch:
    """The XIDs of the run until now, as the node's watcher tells."""
    return read_watch(Path(pytestconfig.getoption("--gdrcheck-out")) / XIDS_FILE)
