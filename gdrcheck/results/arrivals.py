"""What every node of a run sent, as far as it is for that node to tell. Nothing is trusted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from gdrcheck.outcome import Verdict
from gdrcheck.pairing.schedule import Pair
from gdrcheck.results import readers, waivers
from gdrcheck.results.alike import Alike
from gdrcheck.results.claims import RecordClaims, refused_claims
from gdrcheck.results.incoming import DONE_FILE, NodeReport, report_of
from gdrcheck.results.lists import Lists
from gdrcheck.results.owed import left_out
from gdrcheck.results.pairs import scheduled
from gdrcheck.results.rail_keys import RailKeys
from gdrcheck.results.readers import Task
from gdrcheck.results.states import SeenStates
from gdrcheck.results.steps import Steps
from gdrcheck.results.verdict import judge
from gdrcheck.results.wide import WidePairs
from gdrcheck.run import RunSpec


def all_reports(
    results_dir: Path, spec: RunSpec, seen: SeenStates, steps: Steps, wide: WidePairs
) -> dict[str, NodeReport]:
    """What each node sent, in the run's order, without the pairs that are not for it to tell of.

    ``wide`` takes in the pairs that records of whole pairs tell of. InputError when a process that
    reads dies or takes too long. ``steps`` is told of each node.
    """
    lists, alike, claims = Lists(spec), Alike(), RecordClaims(RailKeys())
    pairs: dict[str, list[Pair]] = defaultdict(list)
    for pair in scheduled(spec):
        pairs[pair.initiator].append(pair)
    nodes = results_dir / "nodes"
    tasks = [Task(node.name, _death(node.name, seen)) for node in spec.nodes]
    reports = {}
    with readers.reading(nodes, spec.run_id, tasks) as every_told:
        for (name, _), told in zip(tasks, every_told, strict=True):
            report = report_of(nodes / name, name, told, lists)
            if report.facts is not None:
                report = replace(report, facts=alike.of(report.facts))
            refused = refused_claims(pairs[name], report)
            problems = [
                *(wide.add(name, told.pairs, claims.of(pairs[name], report)) if told.pairs else ()),
                *_worse_word(spec, report),
                *left_out(report),
                *(f"case {id_} {why}" for id_, why in refused.items()),
            ]
            reports[name] = report.distrusted(problems, refused)
            steps.done(len(reports))
    return reports


def _worse_word(spec: RunSpec, report: NodeReport) -> Iterator[str]:
    """A node's word may be better than its cases: those count. Worse: then cases are missing."""
    if report.done is None or report.done.reason or not report.cases:
        return
    said = Verdict.of_exit_code(report.done.exit_code)
    if said is Verdict.PASS:
        return
    verdict = judge(waivers.apply(spec, report.cases)).verdict
    if said.rank > verdict.rank:
        yield f"{DONE_FILE} says {said}, but the cases that arrived say {verdict}"


def _death(name: str, seen: SeenStates) -> str:
    """Why a case of this node may have no result."""
    state = seen.nodes.get(name)
    if state is None or state.state == "ok":
        return "container died"
    if state.state == "unreachable":
        return f"node lost: {state.text()}"
    return f"container died: {state.text()}"
