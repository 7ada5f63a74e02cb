"""The path MTU: what is promised is used or refused, and never less in silence."""

from __future__ import annotations

import pytest

from gdrcheck.verbs.errors import VerbsError
from gdrcheck.verbs.mtu import Mtu, agreed_mtu, own_mtu
from gdrcheck.verbs.protocol import MTU_HERE, MTU_THERE


@pytest.mark.parametrize(
    ("active", "promised", "offered"),
    [(1024, None, 1024), (4096, None, 4096), (1500, None, 1024), (4096, 1024, 1024),
     (4096, 4096, 4096)],
)  # fmt: skip
def test_a_port_offers_what_is_promised_or_all_that_it_can(
    active: int, promised: Mtu | None, offered: int
) -> None:
    assert own_mtu(active, promised) == offered


def test_a_port_that_cannot_do_what_is_promised_is_refused() -> None:
    with pytest.raises(VerbsError, match=r"promises path_mtu 4096, .* active MTU is 1024") as error:
        own_mtu(1024, 4096)
    assert (error.value.step, error.value.error_number) == (MTU_HERE, None)


def test_without_a_promise_the_smaller_end_decides() -> None:
    assert agreed_mtu(4096, 1024, None) == agreed_mtu(1024, 4096, None) == 1024


def test_another_end_that_offers_less_than_promised_is_refused() -> None:
    assert agreed_mtu(4096, 4096, 4096) == 4096
    assert agreed_mtu(1024, 4096, 1024) == 1024
    with pytest.raises(VerbsError, match="other end offers 1024") as error:
        agreed_mtu(4096, 1024, 4096)
    assert error.value.step == MTU_THERE
