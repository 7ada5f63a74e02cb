"""What the error counters of this node's ports say of the time between the facts and now."""

from __future__ import annotations

import pytest

from gdrcheck import gates
from gdrcheck.facts import CountersAfter
from gdrcheck.rails import Rail
from gdrcheck.rules import counters


@pytest.mark.node_case("ports")
def check_port_counters(
    still_active_rail: Rail, counters_after: CountersAfter, request: pytest.FixtureRequest
) -> None:
    """The link never went down, and errors stayed within what so many bytes allow."""
    counted = counters.counted(still_active_rail, counters_after)
    request.node.user_properties += [(name, f"+{value}") for name, value in counted.grown.items()]
    gates.fail(counters.port_errors(counted))
