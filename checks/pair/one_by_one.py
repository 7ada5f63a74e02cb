"""The pairs of a wide run one after the other: their cases are too many to collect at once."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pytest

from checks.pair.measuring import Measuring
from gdrcheck.pairing.cases import count_cases
from gdrcheck.pairing.pairs import OwnedPair
from gdrcheck.results.pair_journal import PairJournal
from gdrcheck.run import RunSpec


def run_each(
    session: pytest.Session,
    modules: Collection[pytest.Module],
    journal: PairJournal,
    measuring: Measuring,
    run: RunSpec,
    pairs: Sequence[OwnedPair],
) -> None:
    """Collect and run the cases of each pair that is not done; the node's own are left to pytest.

    Raises what pytest's own loop raises when somebody asks it to stop.
    """
    own = session.items
    owing = [pair for pair in pairs if pair.rails]
    cases = sum(count_cases(run, journal.node, pair) for pair in owing)
    journal.plan([pair.peer for pair in owing], cases)
    for pair in owing:
        if pair.peer not in journal.done:
            measuring.forget()
            journal.open(pair.peer)
            session.items = _collect(session, modules)
            _run(session)
    journal.close()
    session.items = own


def _collect(session: pytest.Session, modules: Collection[pytest.Module]) -> list[pytest.Item]:
    """The items of the open pair.

    The modules are those that pytest collected: fixtures of others like them would not be found.
    """
    items: list[pytest.Item] = []
    for module in modules:
        report = module.ihook.pytest_make_collect_report(collector=module)
        if not report.passed:
            raise session.Failed(f"{module.nodeid} cannot be collected again: {report.longrepr}")
        items += report.result
    for item in items:
        item.ihook.pytest_itemcollected(item=item)
    config = session.config
    config.hook.pytest_collection_modifyitems(session=session, config=config, items=items)
    return items


def _run(session: pytest.Session) -> None:
    for item, following in zip(session.items, [*session.items[1:], None], strict=True):
        session.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if session.shouldfail:
            raise session.Failed(session.shouldfail)
        if session.shouldstop:
            raise session.Interrupted(session.shouldstop)
