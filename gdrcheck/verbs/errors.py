"""Errors of verbs calls, with the step, the errno and the completion status kept.

Importable without pyverbs; ``compat.verbs_step`` makes these errors out of pyverbs' own.
"""

from __future__ import annotations

import errno
import os

from gdrcheck.outcome import ProbeError

# enum ibv_wc_status of libibverbs/verbs.h; the numbers are part of its ABI.
_WC_STATUS = (
    "SUCCESS",
    "LOC_LEN_ERR",
    "LOC_QP_OP_ERR",
    "LOC_EEC_OP_ERR",
    "LOC_PROT_ERR",
    "WR_FLUSH_ERR",
    "MW_BIND_ERR",
    "BAD_RESP_ERR",
    "LOC_ACCESS_ERR",
    "REM_INV_REQ_ERR",
    "REM_ACCESS_ERR",
    "REM_OP_ERR",
    "RETRY_EXC_ERR",
    "RNR_RETRY_EXC_ERR",
    "LOC_RDD_VIOL_ERR",
    "REM_INV_RD_REQ_ERR",
    "REM_ABORT_ERR",
    "INV_EECN_ERR",
    "INV_EEC_STATE_ERR",
    "FATAL_ERR",
    "RESP_TIMEOUT_ERR",
    "GENERAL_ERR",
    "TM_ERR",
    "TM_RNDV_INCOMPLETE",
)


def status_name(status: int) -> str:
    """``RETRY_EXC_ERR`` for 12: the completion status without ``IBV_WC_``."""
    return _WC_STATUS[status] if 0 <= status < len(_WC_STATUS) else f"status {status}"


class VerbsError(ProbeError):
    """A verbs call failed. ``step`` is what was being done.

    ``error_number`` is the errno of the call, ``status`` the name of a completion status and
    ``vendor_error`` the device's own code beside it; each None when there is none.
    """

    def __init__(
        self,
        message: str,
        *,
        step: str,
        error_number: int | None = None,
        status: str | None = None,
        vendor_error: int | None = None,
    ) -> None:
        self.status = status
        self.vendor_error = vendor_error
        super().__init__(message, step=step, error_number=error_number)


def error_text(number: int) -> str:
    """``ENOMEM (Cannot allocate memory)`` for 12."""
    name = errno.errorcode.get(number, f"errno {number}")
    # Two names of one number; this is the one that manual pages and other people's reports use.
    name = "EOPNOTSUPP" if number == errno.EOPNOTSUPP else name
    return f"{name} ({os.strerror(number)})"
