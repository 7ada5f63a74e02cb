"""What the error counters of this node's ports say of the time between the facts and now."""

from __future__ import annotations

import pytest

from gdrcheck import gates
from gdrcheck.facts import CountersAfter
from gdrcheck.rails import Rail
from gdrcheck.rules import counters


@pytest.mark.node_case("ports")
def check_port_counters(
    active_rail: Rail,
    state_after: str,
    counters_after: CountersAfter,
    request: pytest.FixtureRequest,
) -> None:
    """The port is still active, and its counters tell of no lost link and of few errors."""
    gates.fail(gates.port_went_down(active_rail.where, state_after))
    counted = counters.counted(active_rail, counters_after)
    request.node.user_properties += [(name, f"+{value}") for name, value in counted.grown.items()]
    if not counted.counts_link_downed:
        lacking = ("link_downed", "not judged: the device has no such counter")
        request.node.user_properties.append(lacking)
    gates.fail(counters.port_errors(counted))
