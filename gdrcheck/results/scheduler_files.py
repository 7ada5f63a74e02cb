"""The files of ``gdrcheck lists``: names of nodes, and scripts that nobody runs but the reader."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from gdrcheck.outcome import InputError
from gdrcheck.results.files import read_start, write_atomic
from gdrcheck.results.plain import one_line
from gdrcheck.results.scheduler_lists import Sorted
from gdrcheck.results.summary import Summary
from gdrcheck.run import NODE_NAME_PATTERN

GOOD, BAD, UNKNOWN = "good.txt", "bad.txt", "unknown.txt"
DRAIN, CORDON = "drain.sh", "cordon.sh"
# Slurm shows the beginning only, and a script is to be read before it is run.
MAX_REASON_CHARS = 200
# Of a node without results each case would be one.
MAX_REASONS = 3
# What Slurm takes for every node that it has.
ALL_NODES = "ALL"
PODS_STAY = (
    "Running pods stay; kubectl drain NAME evicts them. The cluster does not keep the reasons."
)
BEGINNING = "#!/bin/sh\n# Written by gdrcheck"
EMULATED = "EMULATED: parts of the hardware are emulated; this proves nothing about it"


def contents(summary: Summary, found: Sorted) -> dict[str, str]:
    """What each file holds, by its name. All of them, so that none is left over from before.

    InputError for a name that would be more than one line or one node to a scheduler.
    """
    for name in summary.nodes:
        if not re.fullmatch(NODE_NAME_PATTERN, name) or name.upper() == ALL_NODES:
            raise InputError(f"{one_line(name)}: no scheduler takes this for one node; rename it")
    undecided = (undecided_line(found),) if found.unknown else ()
    return {
        # First the files that tell whose they are: see write.
        DRAIN: _script(
            summary,
            [_drain(summary, name, why) for name, why in found.bad.items()],
            "drain",
            undecided,
        ),
        CORDON: _script(
            summary,
            [_cordon(name, why) for name, why in found.bad.items()],
            "cordon",
            (PODS_STAY, *undecided),
        ),
        BAD: _reasons(found.bad),
        UNKNOWN: _reasons(found.unknown),
        GOOD: "".join(f"{name}\n" for name in found.good),
    }


def undecided_line(found: Sorted) -> str:
    """What the scripts leave to the reader; for a run with nodes that are neither good nor bad."""
    count = len(found.unknown)
    nodes = "1 node of unknown.txt is" if count == 1 else f"{count} nodes of unknown.txt are"
    return f"{nodes} in neither script: decide yourself"


def write(folder: Path, files: Mapping[str, str]) -> tuple[Path, ...]:
    """Write ``files`` into ``folder``, none of them executable; returns their paths. InputError if
    one cannot be written, or is there already and not from here, which ``drain.sh`` tells.
    """
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder}: is a file; --out takes a folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        there = [name for name in files if os.path.lexists(folder / name)]
        if there and not _is_ours(folder / DRAIN):
            raise InputError(
                f"{folder / there[0]}: is there already, and no {DRAIN} of gdrcheck beside it; "
                "remove it, or choose another folder with --out"
            )
        for name, text in files.items():
            write_atomic(folder / name, text.encode())
    except OSError as error:
        place = error.filename or folder
        raise InputError(f"{place}: cannot be written: {error.strerror}") from error
    return tuple(folder / name for name in (GOOD, BAD, UNKNOWN, DRAIN, CORDON))


def _is_ours(script: Path) -> bool:
    try:
        return read_start(script, len(BEGINNING)) == BEGINNING.encode()
    except (OSError, ValueError):
        return False


def _reasons(nodes: Mapping[str, Sequence[str]]) -> str:
    """``node1<tab>why; why``, a line for each node: the first reasons, the others counted."""
    return "".join(f"{name}\t{one_line(_first(why))}\n" for name, why in nodes.items())


def _first(why: Sequence[str]) -> str:
    left = len(why) - MAX_REASONS
    more = (f"and {left} more, see junit.xml",) if left > 0 else ()
    return "; ".join((*why[:MAX_REASONS], *more))


def _script(
    summary: Summary, commands: Sequence[str], what: str, remarks: Sequence[str] = ()
) -> str:
    """One command after another, also after one that failed; 1 at the end if any did."""
    head = [
        f"{BEGINNING} {one_line(summary.gdrcheck_version)}, which never runs it.",
        f"# Run {one_line(summary.run_id)}, verdict {summary.verdict}. Read it before you run it.",
        *(f"# {remark}" for remark in remarks),
    ]
    if summary.emulated or summary.software_rdma:
        # Whoever runs it all the same does no harm to a cluster.
        head += [f"# {EMULATED}", f"echo {shlex.quote(EMULATED)} >&2", "exit 1"]
    body = [f"# no node to {what}"]
    if commands:
        body = [
            *("set -u", "failed=0"),
            *(f"{command} || failed=$((failed + 1))" for command in commands),
            'test "$failed" -eq 0 && exit 0',
            f'echo "$failed of {len(commands)} commands failed, see above" >&2',
            "exit 1",
        ]
    return "\n".join([*head, *body]) + "\n"


def _drain(summary: Summary, name: str, why: Sequence[str]) -> str:
    reason = _short(f"gdrcheck {summary.run_id}: {'; '.join(why)}")
    words = (f"NodeName={name}", "State=DRAIN", f"Reason={reason}")
    return f"scontrol update {shlex.join(words)}"


def _cordon(name: str, why: Sequence[str]) -> str:
    return f"# {_short('; '.join(why))}\nkubectl cordon {shlex.quote(name)}"


def _short(text: str) -> str:
    """``text`` in one line of ASCII."""
    plain = one_line(text).encode("ascii", "backslashreplace").decode()
    return plain if len(plain) <= MAX_REASON_CHARS else f"{plain[: MAX_REASON_CHARS - 3]}..."
