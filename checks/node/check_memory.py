"""Host memory registers, at the size and the place that was asked for, beyond default limits."""

from __future__ import annotations

import pytest

from gdrcheck import gates
from gdrcheck.facts import Facts
from gdrcheck.memory_rules import (
    limited_by_memlock,
    memlock_code,
    memlock_refused,
    registration_refused,
    wrong_range,
)
from gdrcheck.outcome import Blocked
from gdrcheck.rails import Rail
from gdrcheck.verbs.device import Device
from gdrcheck.verbs.errors import VerbsError
from gdrcheck.verbs.memory import register_host

# Eight times the limit that systemd gives to services (8 MiB): only a lifted limit lets it pass.
BEYOND_DEFAULT_BYTES = 64 << 20
SIZES_BYTES = (4 << 10, 1 << 20, 256 << 20)


def check_memlock_effective(present_rail: Rail, device: Device, facts: Facts) -> None:
    """More memory than the default limit allows can really be pinned."""
    try:
        with register_host(device, BEYOND_DEFAULT_BYTES):
            pass
    except VerbsError as error:
        number, text = error.error_number, str(error)
        where = present_rail.where
        gates.fail(memlock_refused(where, BEYOND_DEFAULT_BYTES, number, text, facts.limits))


@pytest.mark.method("host")
def check_host_memory_registers(rail: Rail, device: Device, facts: Facts) -> None:
    """Each size registers, and the region has the address and the length that were asked for."""
    if limited_by_memlock(BEYOND_DEFAULT_BYTES, facts.limits):
        raise Blocked(f"{memlock_code(facts.limits)} at {rail.where.text()}")
    for length_bytes in SIZES_BYTES:
        try:
            with register_host(device, length_bytes) as region:
                asked = (region.requested_address, length_bytes)
                returned = (region.address, region.length_bytes)
                gates.fail(wrong_range(rail.where, asked, returned))
        except VerbsError as error:
            number, text = error.error_number, str(error)
            gates.fail(registration_refused(rail.where, length_bytes, number, text, facts.limits))
