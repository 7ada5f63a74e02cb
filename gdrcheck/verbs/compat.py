"""pyverbs, the same for all of its versions from 44 to 65. Nothing else imports it.

Its enums moved twice (``pyverbs.enums`` up to 58, ``pyverbs.libibverbs_enums`` from 50), and its
import sets up the root logger, which is the caller's. The long form ``enums.ibv_qp_state.NAME``
works everywhere; the short form does not with Cython 3.1.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from gdrcheck import steps
from gdrcheck.verbs.errors import VerbsError, error_text


@contextmanager
def root_logger_kept() -> Iterator[None]:
    """Undo what an import inside the block does to the root logger."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    try:
        yield
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)


with root_logger_kept():
    try:
        from pyverbs.addr import GID, AHAttr, GlobalRoute
        from pyverbs.cq import CQ, CompChannel
        from pyverbs.device import Context, get_device_list
        from pyverbs.mr import MR, DmaBufMR
        from pyverbs.pd import PD
        from pyverbs.pyverbs_error import PyverbsError
        from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
        from pyverbs.wr import SGE, RecvWR, SendWR
    except ImportError as problem:
        raise ImportError(
            f"pyverbs cannot be imported ({problem}): install the distribution's python3-pyverbs, "
            "44 or newer, for this Python"
        ) from problem
    try:
        from pyverbs import libibverbs_enums as _enums
    except ImportError:
        from pyverbs import enums as _enums

enums: Any = _enums

__all__ = [
    "CQ",
    "GID",
    "MR",
    "PD",
    "QP",
    "SGE",
    "AHAttr",
    "CompChannel",
    "Context",
    "DmaBufMR",
    "GlobalRoute",
    "PyverbsError",
    "QPAttr",
    "QPCap",
    "QPInitAttr",
    "RecvWR",
    "SendWR",
    "enums",
    "get_device_list",
    "owned",
    "verbs_step",
]


@contextmanager
def verbs_step(text: str) -> Iterator[None]:
    """Announce the step, and turn what pyverbs raises inside into a VerbsError that names it."""
    with steps.step(text):
        try:
            yield
        except PyverbsError as problem:
            raise _converted(text, problem) from problem


@contextmanager
def owned(resource: Any, step: str) -> Iterator[Any]:
    """The pyverbs object, closed at the end of the block; ``step`` names the closing."""
    try:
        yield resource
    finally:
        with verbs_step(step):
            resource.close()


def _converted(step: str, problem: Any) -> VerbsError:
    # pyverbs uses -1 for "no errno", and hands some errnos on as negative numbers.
    code = int(getattr(problem, "error_code", -1))
    if code in (-1, 0):
        return VerbsError(f"{step}: {problem}", step=step)
    return VerbsError(f"{step}: {error_text(abs(code))}", step=step, error_number=abs(code))
