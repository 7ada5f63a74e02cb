"""Which finding a refused registration becomes."""

from __future__ import annotations

import errno

import pytest

from gdrcheck.facts import Limits, Unreadable
from gdrcheck.findings.model import Where
from gdrcheck.memory_rules import (
    has_ipc_lock,
    limited_by_memlock,
    memlock_refused,
    registration_refused,
    wrong_range,
)
from tests import facts as builders

NIC = Where(node="a", nic="mlx5_0")
MIB = 1 << 20


def limits(memlock_bytes: int | None, capabilities: int = 0, uid: int = 0) -> Limits:
    return builders.limits(
        memlock_soft_bytes=memlock_bytes,
        memlock_hard_bytes=memlock_bytes,
        effective_capabilities=capabilities,
        uid=uid,
    )


@pytest.mark.parametrize(
    ("case", "limited"),
    [
        (limits(8 * MIB), True),
        (limits(8 * MIB, capabilities=1 << 14), False),
        (limits(None), False),
        (limits(128 * MIB), False),
    ],
)
def test_the_limit_counts_only_without_the_capability(case: Limits, limited: bool) -> None:
    assert limited_by_memlock(64 * MIB, case) is limited


@pytest.mark.parametrize(
    ("number", "case", "code"),
    [
        (errno.ENOMEM, limits(8 * MIB), "HOST-CAP-IPCLOCK"),
        (errno.ENOMEM, limits(8 * MIB, uid=1000), "HOST-MEMLOCK-LIMIT"),
        (errno.ENOMEM, limits(None), "MR-HOST-FAILED"),
        (errno.EINVAL, limits(8 * MIB), "MR-HOST-FAILED"),
    ],
)
def test_beyond_the_default_limit(number: int, case: Limits, code: str) -> None:
    assert memlock_refused(NIC, 64 * MIB, number, "refused", case).code == code


def test_a_refused_size_names_limit_and_capability() -> None:
    finding = registration_refused(NIC, 256 * MIB, errno.ENOMEM, "ENOMEM", limits(8 * MIB))
    assert finding.code == "MR-ENOMEM-MEMLOCK"
    assert finding.evidence["memlock soft limit"] == f"{8 * MIB} bytes"
    assert finding.evidence["IPC_LOCK effective"] == "no"
    assert registration_refused(NIC, MIB, errno.ENOMEM, "", limits(None)).code == "MR-HOST-FAILED"


def test_unreadable_capabilities_are_not_taken_for_absent_ones() -> None:
    blind = limits(None).model_copy(
        update={"effective_capabilities": Unreadable(unreadable="status: denied")}
    )
    assert has_ipc_lock(blind) is None
    finding = registration_refused(NIC, MIB, errno.ENOMEM, "", blind)
    assert finding.evidence["IPC_LOCK effective"] == "unreadable"


def test_an_unreadable_user_is_not_taken_for_root() -> None:
    blind = limits(8 * MIB).model_copy(update={"uid": Unreadable(unreadable="status: denied")})
    finding = memlock_refused(NIC, 64 * MIB, errno.ENOMEM, "refused", blind)
    assert finding.code == "HOST-MEMLOCK-LIMIT"
    assert finding.evidence["user id"] == "unreadable"


def test_an_unreadable_limit_explains_nothing() -> None:
    blind = limits(None).model_copy(
        update={"memlock_soft_bytes": Unreadable(unreadable="limits: denied")}
    )
    finding = registration_refused(NIC, 64 * MIB, errno.ENOMEM, "", blind)
    assert finding.code == "MR-HOST-FAILED"
    assert finding.evidence["memlock soft limit"] == "unreadable"


def test_a_region_must_be_where_and_as_long_as_asked() -> None:
    assert wrong_range(NIC, (4096, MIB), (4096, MIB)) is None
    for returned in ((0, MIB), (4096, MIB - 1)):
        finding = wrong_range(NIC, (4096, MIB), returned)
        assert finding is not None
        assert finding.code == "MR-WRONG-RANGE"
