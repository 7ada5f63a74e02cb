"""Index 0's last work: from the results of all pods to a verdict, and to an exit code for each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from gdrcheck.kubernetes.document import JobDocument
from gdrcheck.outcome import InputError, Verdict
from gdrcheck.pairing.job_messages import MAX_WHY, JobVerdict
from gdrcheck.pairing.messages import clipped
from gdrcheck.results import data, folder
from gdrcheck.results.merge import merge
from gdrcheck.results.own_blame import own_blame
from gdrcheck.results.states import SeenState, SeenStates
from gdrcheck.results.summary import Summary
from gdrcheck.results.unpack import unpack_all

WHY_CHARS = 500


def judge_run(
    place: Path, seen: SeenStates, write_page: Callable[[Path], object]
) -> tuple[Summary, dict[str, JobVerdict]]:
    """Unpack and merge what is in ``place``; the summary, and for each node what it is told.

    InputError or OSError when the results cannot be merged or written.
    """
    damaged = unpack_all(place)
    summary = merge(place, with_damage(seen, damaged))
    write_page(place)
    # Some volumes that many nodes can write have no symbolic links; nobody there needs this one.
    with suppress(InputError, OSError):
        folder.point_latest_at(place)
    blamed = own_blame(summary, data.read(place / data.DATA_FILE))
    return summary, {
        node: JobVerdict(
            verdict=summary.verdict.value,
            exit_code=blame.exit_code,
            why=tuple(clipped(line, WHY_CHARS) for line in blame.why[:MAX_WHY]),
        )
        for node, blame in blamed.items()
    }


def with_damage(seen: SeenStates, damaged: Mapping[str, str]) -> SeenStates:
    """``seen``, where a node whose archive is no good sent no result."""
    nodes = dict(seen.nodes)
    for node, reason in damaged.items():
        if nodes.get(node, SeenState(state="ok")).state == "ok":
            nodes[node] = SeenState(state="no result", reason=reason)
    return seen.model_copy(update={"nodes": nodes})


def leaders_code(verdict: Verdict, own: int, others: Iterable[int]) -> int:
    """The exit code of index 0, from those of its own node and of the ``others`` that arrived.

    A Job succeeds when every pod exits with 0, and a pod does so only if index 0 told it. So when
    something is held against any node whose pod arrived, the Job fails, whether that pod hears of
    it or is gone. Else index 0 speaks for a run that is not PASS: of a pod that never arrived
    nobody knows whether there is one.
    """
    return own if own or any(others) else verdict.exit_code


def absent_text(document: JobDocument) -> str:
    """Who is not there, in words; empty when all are."""
    absent = [one.name for one in document.run.nodes if one.name not in document.present]
    return f"never arrived: {', '.join(absent)}" if absent else ""
