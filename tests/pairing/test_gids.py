"""Which GIDs cannot reach each other, and which of two is the odd one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdrcheck.pairing.gids import gid_text, unreachable
from tests.pairing.tables import info

V1 = {"gid_type": "IB/RoCE v1"}
IB: dict[str, Any] = {"link_layer": "infiniband", "gid_type": "IB/RoCE v1"}


@pytest.mark.parametrize(
    ("one", "other", "reason", "odd"),
    [
        (info("::ffff:10.0.0.1"), info("fe80::1"), "link-local", "other"),
        (info("::ffff:169.254.0.1"), info("::ffff:10.0.0.1"), "link-local", "one"),
        (info("2001:db8::1"), info("::ffff:10.0.0.1"), "IPv6 against IPv4", None),
        (info("::ffff:10.0.0.1", **V1), info("::ffff:10.0.0.2"), "RoCE v1 against RoCE v2", "one"),
        (info("::"), info("::ffff:10.0.0.2"), "zero", "one"),
        (info("fe80::1", **IB), info("fe80::2"), "infiniband against ethernet", None),
        (info("fe80::1", **IB), info("fec0::1", **IB), "subnet prefixes", None),
    ],
)
def test_gids_that_cannot_reach_each_other(one: Any, other: Any, reason: str, odd: Any) -> None:
    found = unreachable(one, other)
    assert found is not None
    assert reason in found.reason
    assert found.odd == odd


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (info("::ffff:10.0.0.1"), info("::ffff:10.0.0.2")),
        (info("fe80::1"), info("fe80::2")),
        (info("2001:db8::1"), info("2001:db8::2")),
        # Each rail of a routed fabric may have a subnet of its own.
        (info("::ffff:10.0.0.1"), info("::ffff:10.9.0.2")),
        (info("::ffff:10.0.0.1", gid_type=""), info("::ffff:10.0.0.2", **V1)),
        (info("fe80::1", **IB), info("fe80::2", **IB)),
    ],
)
def test_gids_of_which_nothing_says_that_they_cannot(one: Any, other: Any) -> None:
    assert unreachable(one, other) is None


GIDS = st.builds(
    info,
    st.ip_addresses(v=6).map(str),
    gid_type=st.sampled_from(["RoCE v2", "IB/RoCE v1", ""]),
    link_layer=st.sampled_from(["ethernet", "infiniband"]),
)


@given(GIDS, GIDS)
def test_it_is_the_same_from_both_ends(one: Any, other: Any) -> None:
    found, back = unreachable(one, other), unreachable(other, one)
    assert (found is None) == (back is None)
    if found is not None and back is not None:
        swapped = {"one": "other", "other": "one", None: None}
        assert back.odd == swapped[found.odd]


def test_the_text_of_a_gid_tells_what_to_compare() -> None:
    assert gid_text(info("::ffff:10.0.0.1")) == (
        "index 3, ::ffff:10.0.0.1, RoCE v2, active MTU 1024"
    )
