"""One case for each exchange that this node initiates, and the walk through the rounds.

The node's own cases come last: each node has them, also one that owns no exchange.
"""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from gdrcheck import gates, run
from gdrcheck.facts import CountersAfter
from gdrcheck.pairing.cases import Measurement, exchange_cases
from gdrcheck.pairing.pairs import owned_pairs
from gdrcheck.pairing.rendezvous import RendezvousResult
from gdrcheck.pairing.walk import PairWalk
from gdrcheck.probes import LIVE_ROOT
from gdrcheck.probes.counters import read_counters_after
from gdrcheck.probes.ports import read_state
from gdrcheck.rails import Rail
from gdrcheck.results.files import write_atomic
from gdrcheck.results.incoming import COUNTERS_FILE
from gdrcheck.results.plugin import NODE_CASE

MEASUREMENT = pytest.StashKey[Measurement]()
WALK = pytest.StashKey[PairWalk]()


def _rendezvous(config: pytest.Config) -> RendezvousResult:
    return RendezvousResult.load(Path(config.getoption("--gdrcheck-out")) / "rendezvous.json")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """The cases in the order of the rounds, since the walk goes that way only."""
    if "exchange_case" not in metafunc.fixturenames:
        return
    config = metafunc.config
    spec = run.load(Path(config.getoption("--gdrcheck-run")))
    pairs = owned_pairs(spec, config.getoption("--gdrcheck-node"), _rendezvous(config))
    cases = exchange_cases(pairs)
    metafunc.parametrize("exchange_case", [pytest.param(case, id=case.id) for case in cases])


def _is_node_case(item: pytest.Item) -> bool:
    return item.get_closest_marker(NODE_CASE) is not None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What judges the node looks back at all of its exchanges."""
    items.sort(key=_is_node_case)


@pytest.hookimpl(wrapper=True)
def pytest_runtestloop(session: pytest.Session) -> Generator[None, object, object]:
    """Walks all rounds, also those in which this node only responds, and owns no case."""
    config = session.config
    spec = run.load(Path(config.getoption("--gdrcheck-run")))
    secret = bytes.fromhex(Path(config.getoption("--gdrcheck-secret")).read_text().strip())
    node, out = config.getoption("--gdrcheck-node"), Path(config.getoption("--gdrcheck-out"))
    with PairWalk(spec, node, secret, _rendezvous(config), out) as walk:
        config.stash[WALK] = walk
        config.stash[MEASUREMENT] = Measurement(walk)
        result = yield
        walk.finish()
    return result


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Serves the rounds that are left before the first case of the node begins.

    Outside of any case: a hang there must not be charged to the port that comes next.
    """
    if _is_node_case(item):
        item.config.stash[WALK].finish()
    return (yield)


@pytest.fixture
def measurement(pytestconfig: pytest.Config) -> Measurement:
    """Measures exchanges on the walk through the rounds."""
    return pytestconfig.stash[MEASUREMENT]


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
