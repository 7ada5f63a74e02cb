"""One case for each exchange that this node initiates, and the walk through the rounds."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from gdrcheck import run
from gdrcheck.pairing.cases import Measurement, exchange_cases
from gdrcheck.pairing.pairs import owned_pairs
from gdrcheck.pairing.rendezvous import RendezvousResult
from gdrcheck.pairing.walk import PairWalk

MEASUREMENT = pytest.StashKey[Measurement]()


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


@pytest.hookimpl(wrapper=True)
def pytest_runtestloop(session: pytest.Session) -> Generator[None, object, object]:
    """Walks all rounds, also those in which this node only responds, and owns no case."""
    config = session.config
    spec = run.load(Path(config.getoption("--gdrcheck-run")))
    secret = bytes.fromhex(Path(config.getoption("--gdrcheck-secret")).read_text().strip())
    node, out = config.getoption("--gdrcheck-node"), Path(config.getoption("--gdrcheck-out"))
    with PairWalk(spec, node, secret, _rendezvous(config), out) as walk:
        config.stash[MEASUREMENT] = Measurement(walk)
        result = yield
        walk.finish()
    return result


@pytest.fixture
def measurement(pytestconfig: pytest.Config) -> Measurement:
    """Measures exchanges on the walk through the rounds."""
    return pytestconfig.stash[MEASUREMENT]
