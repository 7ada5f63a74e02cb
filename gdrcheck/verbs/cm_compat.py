"""pyverbs' part for rdma_cm, apart from ``compat``: it needs librdmacm, which little else does."""

from __future__ import annotations

from gdrcheck.verbs.compat import root_logger_kept

with root_logger_kept():
    try:
        from pyverbs.cmid import CMID, AddrInfo, CMEvent, CMEventChannel, ConnParam
    except ImportError as problem:
        raise ImportError(
            f"pyverbs.cmid cannot be imported ({problem}): install the distribution's "
            "python3-pyverbs and librdmacm1, 44 or newer, for this Python"
        ) from problem

__all__ = ["CMID", "AddrInfo", "CMEvent", "CMEventChannel", "ConnParam"]
