"""What libibverbs makes of the RDMA devices: which open, and the MTUs of their ports."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from gdrcheck.facts import Unreadable, VerbsDevice
from gdrcheck.probes import live
from gdrcheck.probes.names import device_names

CHILD = "gdrcheck.verbs.survey"
RECORD = "verbs.json"
DEADLINE_S = 50.0
# The share of all devices in one process, since an interpreter takes seconds to start on a slow
# machine. The rest is for each device alone.
TOGETHER = 0.6

Survey = tuple[VerbsDevice, ...] | Unreadable
ANSWER: TypeAdapter[Survey] = TypeAdapter(Survey)


def read_survey(root: Path, deadline_s: float = DEADLINE_S) -> Survey:
    """What libibverbs answers for each device of this machine, or what was recorded below ``root``.

    Nothing is asked when there is no device. A device that hangs or crashes the process is a
    ``VerbsDevice`` with that as its error; Unreadable when libibverbs cannot be asked at all. All
    of it takes no longer than ``deadline_s``, but for the end of what had to be killed.
    """
    names = device_names(root)
    if isinstance(names, Unreadable):
        return names
    if not names:
        return ()
    answer = live.answer(root, CHILD, RECORD, deadline_s * TOGETHER)
    if isinstance(answer, Unreadable) and root == live.LIVE_ROOT and len(names) > 1:
        alone_s = deadline_s * (1 - TOGETHER)
        return one_by_one(names, (sys.executable, "-m", CHILD), answer, alone_s)
    return parsed(answer)


def one_by_one(
    names: Sequence[str], command: tuple[str, ...], together: Unreadable, deadline_s: float
) -> Survey:
    """The answers of ``command`` with each device alone, when it failed for all ``together``.

    All are asked at once. ``together`` when no device alone answers either.
    """

    def ask(name: str) -> Survey:
        return parsed(live.ask((*command, name), deadline_s))

    with ThreadPoolExecutor(max_workers=len(names)) as pool:
        answers = dict(zip(names, pool.map(ask, names), strict=True))
    if not any(isinstance(answer, tuple) for answer in answers.values()):
        return together
    found: list[VerbsDevice] = []
    for name, answer in answers.items():
        if isinstance(answer, Unreadable):
            why = answer.unreadable
            found.append(VerbsDevice(name=name, error=why, error_number=None, ports=()))
        else:
            found += answer
    return tuple(found)


def parsed(answer: bytes | Unreadable) -> Survey:
    """The answer of the child, or of a record, checked."""
    if isinstance(answer, Unreadable):
        return answer
    try:
        return ANSWER.validate_json(answer)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        return Unreadable(unreadable=f"answer of libibverbs: {place}: {first['msg'][:200]}")
