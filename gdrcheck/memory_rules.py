"""What a refused or a wrong registration of memory means, and the limits around it. Pure."""

from __future__ import annotations

import errno

from gdrcheck.facts import Limits
from gdrcheck.findings.model import Finding, Where

CAP_IPC_LOCK = 14  # capabilities(7); bit of CapEff


def has_ipc_lock(limits: Limits) -> bool | None:
    """Whether IPC_LOCK is effective; None when the capabilities could not be read."""
    capabilities = limits.effective_capabilities
    return bool(capabilities >> CAP_IPC_LOCK & 1) if isinstance(capabilities, int) else None


def limited_by_memlock(length_bytes: int, limits: Limits) -> bool:
    """Whether the memlock limit alone explains that ``length_bytes`` cannot be pinned."""
    soft_bytes = limits.memlock_soft_bytes
    return isinstance(soft_bytes, int) and length_bytes > soft_bytes and not has_ipc_lock(limits)


def memlock_code(limits: Limits) -> str:
    """The code for a too small limit: root was meant to have the capability, others the limit.

    The limit also when the user id is unreadable: that it is too small is certain.
    """
    return "HOST-CAP-IPCLOCK" if limits.uid == 0 else "HOST-MEMLOCK-LIMIT"


def memlock_refused(
    where: Where, length_bytes: int, error_number: int | None, text: str, limits: Limits
) -> Finding:
    """The finding when memory above the default limit does not register.

    ``memlock_code`` when the limit explains it, MR-HOST-FAILED when it does not.
    """
    code = "MR-HOST-FAILED"
    if error_number == errno.ENOMEM and limited_by_memlock(length_bytes, limits):
        code = memlock_code(limits)
    return _finding(code, where, length_bytes, text, limits)


def registration_refused(
    where: Where, length_bytes: int, error_number: int | None, text: str, limits: Limits
) -> Finding:
    """MR-ENOMEM-MEMLOCK when the limit explains the refusal, else MR-HOST-FAILED."""
    explained = error_number == errno.ENOMEM and limited_by_memlock(length_bytes, limits)
    code = "MR-ENOMEM-MEMLOCK" if explained else "MR-HOST-FAILED"
    return _finding(code, where, length_bytes, text, limits)


def wrong_range(where: Where, asked: tuple[int, int], returned: tuple[int, int]) -> Finding | None:
    """MR-WRONG-RANGE unless the (address, length) that was returned is what was asked for."""
    if asked == returned:
        return None
    return Finding(
        code="MR-WRONG-RANGE",
        where=where,
        observed=f"address {returned[0]:#x}, {returned[1]} bytes",
        expected=f"address {asked[0]:#x}, {asked[1]} bytes",
    )


def _finding(code: str, where: Where, length_bytes: int, text: str, limits: Limits) -> Finding:
    return Finding(
        code=code,
        where=where,
        observed=text,
        expected=f"{length_bytes} bytes of host memory register",
        evidence=limits_evidence(limits),
    )


def limits_evidence(limits: Limits) -> dict[str, str]:
    """The limit on locked memory, and what lifts it, for the evidence of findings."""
    return {
        "memlock soft limit": _limit(limits.memlock_soft_bytes),
        "memlock hard limit": _limit(limits.memlock_hard_bytes),
        "IPC_LOCK effective": {True: "yes", False: "no", None: "unreadable"}[has_ipc_lock(limits)],
        "user id": str(limits.uid) if isinstance(limits.uid, int) else "unreadable",
    }


def _limit(value: object) -> str:
    if value is None:
        return "unlimited"
    return f"{value} bytes" if isinstance(value, int) else "unreadable"
