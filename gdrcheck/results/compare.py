"""``gdrcheck compare``: what is worse, better or other in one run than in an earlier one. Pure."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

from gdrcheck.outcome import InputError
from gdrcheck.results.compare_cases import CaseChanges, CaseComparison
from gdrcheck.results.compare_lines import counted
from gdrcheck.results.compare_model import ABSENT, Comparison, Side, Version
from gdrcheck.results.compare_names import Renames, renames
from gdrcheck.results.compare_side import Baseline
from gdrcheck.results.compare_speeds import Speeds, compare_speeds
from gdrcheck.results.data import NodeData
from gdrcheck.results.data_expand import expanded
from gdrcheck.results.folding import fold
from gdrcheck.results.summary import Summary

# A word of a version, which may be the name of a device: ``28.39.1002 (28.38.1900 at mlx5_3)``.
_WORD = re.compile(r"[\w.-]+")


def compare(old: Baseline, new: Baseline, old_source: str, new_source: str) -> Comparison:
    """NEW against OLD. InputError, one line a reason, when they cannot be compared: nothing that
    both measured, or results of emulated hardware with those of real.
    """
    problems = list(_unlike(old.summary, new.summary))
    if problems:
        raise InputError(*(f"cannot compare {old_source} with {new_source}: {p}" for p in problems))
    old, new = _in_series(old, old_source), _in_series(new, new_source)
    names = renames(old.data, new.data)
    cases = CaseComparison(old, new, names).found
    if not cases.common:
        raise InputError(
            f"cannot compare {old_source} with {new_source}: there is no case that both measured"
        )
    software = old.summary.software_rdma or new.summary.software_rdma
    speeds = Speeds() if software else compare_speeds(old.data, new.data, names)
    reasons = tuple(_reasons(cases, speeds, old.summary, new.summary))
    return Comparison(
        old=_side(old.summary, old_source),
        new=_side(new.summary, new_source),
        worse=bool(reasons),
        reasons=reasons,
        notes=tuple(_notes(old.summary, new.summary, same=old == new)),
        same_kind=cases.same_kind,
        still_failing=cases.still_failing,
        still_unmeasured=cases.still_unmeasured,
        newly_judged=cases.newly_judged,
        newly_failing=tuple(cases.newly_failing),
        no_longer_measured=tuple(cases.no_longer_measured),
        no_longer_judged=tuple(cases.no_longer_judged),
        vanished=tuple(cases.vanished),
        fails_differently=tuple(cases.fails_differently),
        now_excused=tuple(cases.now_excused),
        fixed=tuple(cases.fixed),
        appeared=cases.appeared,
        numbers=speeds.numbers,
        numbers_gone=speeds.numbers_gone,
        slower=tuple(sorted(speeds.slower, key=lambda one: -one.slower_share)),
        slower_ends=tuple(sorted(speeds.ends, key=lambda one: -one.slower_share)),
        slower_kinds=tuple(speeds.kinds),
        versions=tuple(_versions(old, new, names)),
        devices=names.devices,
        nodes_only_old=tuple(name for name in old.summary.nodes if name not in new.summary.nodes),
        nodes_only_new=tuple(name for name in new.summary.nodes if name not in old.summary.nodes),
        unscheduled_pairs=len(cases.unscheduled_pairs),
    )


def _in_series(side: Baseline, source: str) -> Baseline:
    try:
        return side.model_copy(update={"data": expanded(side.data)})
    except InputError as error:
        raise InputError(f"cannot compare {source}: {error}") from error


def _unlike(old: Summary, new: Summary) -> Iterator[str]:
    for word, was, now in (
        ("EMULATED", old.emulated, new.emulated),
        ("SOFT-ROCE", old.software_rdma, new.software_rdma),
        ("check mode, nothing measured", old.check_mode, new.check_mode),
    ):
        if was != now:
            yield f"{'OLD' if was else 'NEW'} is {word}, {'NEW' if was else 'OLD'} is not"
    if old.check_mode and new.check_mode:
        yield "both are of check mode: nothing was measured"
    if not old.nodes.keys() & new.nodes.keys():
        yield "they have no node in common"


def _reasons(cases: CaseChanges, speeds: Speeds, old: Summary, new: Summary) -> Iterator[str]:
    """Why NEW is worse, one line each."""
    for changes, what in (
        (cases.newly_failing, "newly failing"),
        (cases.no_longer_measured, "not measured that should be"),
        (cases.no_longer_judged, "no longer judged"),
        (cases.vanished, "vanished"),
    ):
        if count := sum(change.worse for change in changes):
            yield f"{counted(count, 'case')} {what}"
    if speeds.slower:
        yield f"{counted(len(speeds.slower), 'number')} slower beyond the noise"
    if speeds.ends:
        count = len({one.place for one in speeds.ends})
        yield f"{counted(count, 'end')} slower with most partners"
    if speeds.kinds:
        yield f"{counted(len(speeds.kinds), 'kind')} of measurement slower as a whole"
    if new.verdict.rank > old.verdict.rank:
        yield f"the verdict is {new.verdict}, it was {old.verdict}"


def _notes(old: Summary, new: Summary, *, same: bool) -> Iterator[str]:
    if new.emulated:
        yield "EMULATED: parts of the hardware are emulated; this proves nothing about it"
    if new.software_rdma:
        yield "SOFT-ROCE: RDMA in software; speeds are not compared"
    if same:
        yield f"both are run {old.run_id}: compared with itself"
    elif new.run_id == old.run_id:
        yield (
            f"both are called run {old.run_id}, but they differ: one was merged anew, or copied in "
            "part"
        )
    gone = [name for name in old.nodes if name not in new.nodes]
    if gone:
        yield f"NEW has no {', '.join(fold(gone))}: nothing of what OLD says there was compared"
    if new.created < old.created:
        yield "OLD is the later of the two"
    for name, side in (("OLD", old), ("NEW", new)):
        if side.limited_to:
            yield f"{name} is limited to {side.limited_to}"
        if side.verdict == "INCOMPLETE":
            yield f"{name} is INCOMPLETE: {'; '.join(side.reasons)}"


def _versions(old: Baseline, new: Baseline, names: Renames) -> Iterator[Version]:
    """The versions that differ: of the run, then of its nodes, alike changes together."""
    for name, was, now in (
        ("gdrcheck", old.summary.gdrcheck_version, new.summary.gdrcheck_version),
        ("image", old.summary.image_id, new.summary.image_id),
    ):
        if was != now:
            yield Version(name=name, old=was or ABSENT, new=now or ABSENT, nodes=())
    found: defaultdict[tuple[str, str, str], list[str]] = defaultdict(list)
    before = {node.name: node for node in old.data.nodes}
    for node in new.data.nodes:
        if node.name in before:
            for difference in _of_node(before[node.name], node, names):
                found[difference].append(node.name)
    for (name, was, now), nodes in found.items():
        yield Version(name=name, old=was, new=now, nodes=tuple(nodes))


def _of_node(old: NodeData, new: NodeData, names: Renames) -> Iterator[tuple[str, str, str]]:
    if old.profile != new.profile:
        yield "profile", old.profile, new.profile
    # A node that sent no facts has no versions: its cases tell that.
    if old.versions and new.versions:
        devices = names.nodes.get(old.name, {})
        for name in dict.fromkeys((*old.versions, *new.versions)):
            was = old.versions.get(name, ABSENT)
            was = _WORD.sub(lambda match: devices.get(match[0]) or match[0], was)
            now = new.versions.get(name, ABSENT)
            if was != now:
                yield name, was, now


def _side(summary: Summary, source: str) -> Side:
    return Side(
        source=source,
        run_id=summary.run_id,
        created=summary.created,
        verdict=summary.verdict,
        gdrcheck_version=summary.gdrcheck_version,
        nodes=len(summary.nodes),
        limited_to=summary.limited_to,
        emulated=summary.emulated,
        software_rdma=summary.software_rdma,
    )
