"""What became of the cases of OLD in NEW. Pure.

A case is worse when NEW knows less good of it: it fails and did not, could not be measured and
was, is not judged and was, or is not there although its node, or its pair of nodes, is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from gdrcheck.findings.model import Finding, Severity
from gdrcheck.outcome import Outcome
from gdrcheck.results.cases import FLEET, PAIRS
from gdrcheck.results.compare_model import ABSENT, Change
from gdrcheck.results.compare_names import Renames
from gdrcheck.results.compare_rows import Row, pair_groups, planned_pairs
from gdrcheck.results.compare_side import Baseline
from gdrcheck.results.data import Data
from gdrcheck.results.summary import WAIVED, WARNED, Summary
from gdrcheck.results.verdict import EXTRA_PREFIX

FAILED = str(Outcome.FAILED)
PASSED = str(Outcome.PASSED)
UNMEASURED = frozenset({str(Outcome.ERROR), str(Outcome.BLOCKED)})
UNJUDGED = frozenset({str(Outcome.SKIPPED), str(Outcome.NOT_JUDGED)})
EXCUSED = frozenset({WAIVED, WARNED})
# Of these something was known that is lost when the case is not there.
GOOD = frozenset({PASSED}) | EXCUSED

Place = tuple[str, str]


@dataclass(slots=True)
class CaseChanges:
    """The changes by what they are; the fields are those of ``Comparison``.

    ``common``: cases of both runs that each of them measured, at its nodes.
    """

    newly_failing: list[Change] = field(default_factory=list)
    no_longer_measured: list[Change] = field(default_factory=list)
    no_longer_judged: list[Change] = field(default_factory=list)
    vanished: list[Change] = field(default_factory=list)
    fails_differently: list[Change] = field(default_factory=list)
    now_excused: list[Change] = field(default_factory=list)
    fixed: list[Change] = field(default_factory=list)
    same_kind: int = 0
    still_failing: int = 0
    still_unmeasured: int = 0
    newly_judged: int = 0
    appeared: int = 0
    common: int = 0
    unscheduled_pairs: set[frozenset[str]] = field(default_factory=set)


class CaseComparison:
    """Compares the cases of two runs; ``found`` holds what came of it."""

    def __init__(self, old: Baseline, new: Baseline, names: Renames) -> None:
        self.found = CaseChanges()
        self._names = names
        self._nodes = frozenset(new.summary.nodes)
        self._gone = old.summary.nodes.keys() - self._nodes
        self._told = _by_case(new.summary)
        self._reasons = {one.case: one.blocked_by or one.reason for one in new.summary.unmeasured}
        self._old_findings, self._findings = old.data.findings, new.data.findings
        self._compare_suites(old.data, new.data)
        self._compare_pairs(old.data, new.data)

    def _compare_suites(self, old: Data, new: Data) -> None:
        before = _suite_cases(old)
        after = _suite_cases(new)
        left = dict(after)
        for (suite, id_), was in before.items():
            foreign = suite.startswith(EXTRA_PREFIX)
            now_called = id_ if foreign else self._names.case(id_)
            now = left.pop((suite, now_called), None) if now_called is not None else None
            if now is not None and now_called is not None:
                self._both(suite, now_called, id_, was, now)
            else:
                self._vanished(suite, id_, was, counts=suite in self._nodes)
        for (suite, id_), now in left.items():
            self._appeared(suite, id_, now)

    def _compare_pairs(self, old: Data, new: Data) -> None:
        planned = planned_pairs(new)
        for _, before, after in pair_groups(old, new, self._names):
            for ends, row in before.items():
                if ends in after:
                    later = after[ends]
                    self._both(PAIRS, later.id, row.id, row.kind, later.kind)
                    continue
                nodes = _nodes(row)
                if nodes <= self._nodes and nodes not in planned:
                    self.found.unscheduled_pairs.add(nodes)
                else:
                    self._vanished(PAIRS, row.id, row.kind, counts=nodes <= self._nodes)
            for ends, row in after.items():
                if ends not in before:
                    self._appeared(PAIRS, row.id, row.kind)

    def _both(self, suite: str, id_: str, old_id: str, was: str, now: str) -> None:
        found = self.found
        if suite != FLEET and not suite.startswith(EXTRA_PREFIX):
            found.common += _is_measured(was) and _is_measured(now)
        if was == now == FAILED:
            found.still_failing += 1
            found.same_kind += 1
            self._fails_still(suite, id_, old_id)
            return
        if was == now or {was, now} <= UNMEASURED or {was, now} <= UNJUDGED:
            found.same_kind += 1
            found.still_unmeasured += now in UNMEASURED
            return
        change = self._change(suite, id_, was, now, old_id)
        if now == FAILED:
            found.newly_failing.append(_worse(change))
        elif now in UNMEASURED:
            found.no_longer_measured.append(_worse(change) if was != FAILED else change)
        elif now in UNJUDGED:
            found.no_longer_judged.append(_worse(change) if was in GOOD else change)
        elif now in EXCUSED:
            found.now_excused.append(change)
        elif was in UNJUDGED:
            found.newly_judged += 1
        else:
            found.fixed.append(change)

    def _fails_still(self, suite: str, id_: str, old_id: str) -> None:
        """A case of the fleet fails anew when it is about other places; another fails otherwise."""
        change = self._change(suite, id_, FAILED, FAILED, old_id)
        now = self._findings.get(suite, {}).get(id_, ())
        before = {
            self._names.finding(text) for text in self._old_findings.get(suite, {}).get(old_id, ())
        }
        if suite == FLEET:
            new = [text for text in now if text not in before]
            if new:
                told = change.model_copy(update={"observed": "; ".join(new)})
                self.found.newly_failing.append(_worse(told))
        elif _codes(before) != _codes(now):
            self.found.fails_differently.append(change)

    def _vanished(self, suite: str, id_: str, was: str, *, counts: bool) -> None:
        """``counts``: the node or pair that it belongs to is a part of NEW. Of the fleet and of
        other tools it tells, but no more: what they compare depends on which nodes there are. What
        the fleet says of a node that is gone is no news beside that.
        """
        about = id_.partition("[")[2].removesuffix("]").partition("/")[0]
        if suite == FLEET and about in self._gone:
            return
        if not counts and suite != FLEET and not suite.startswith(EXTRA_PREFIX):
            return
        change = self._change(suite, id_, was, ABSENT, id_)
        self.found.vanished.append(_worse(change) if counts and was in GOOD else change)

    def _appeared(self, suite: str, id_: str, now: str) -> None:
        self.found.appeared += 1
        change = self._change(suite, id_, ABSENT, now, id_)
        if now == FAILED:
            self.found.newly_failing.append(_worse(change))
        elif now in UNMEASURED:
            self.found.no_longer_measured.append(_worse(change))
        elif now in EXCUSED:
            self.found.now_excused.append(change)

    def _change(self, suite: str, id_: str, was: str, now: str, old_id: str) -> Change:
        found = self._findings.get(suite, {}).get(id_, ()) if now != ABSENT else ()
        observed = ""
        if now == FAILED and id_ in self._told:
            observed = _observed(self._told[id_])
        elif now in UNMEASURED:
            observed = self._reasons.get(id_, "")
        return Change(
            suite=suite,
            case=id_,
            was=was,
            now=now,
            worse=False,
            old_case=old_id if old_id != id_ else None,
            codes=tuple(sorted(_codes(found))),
            observed=observed,
        )


def _suite_cases(data: Data) -> dict[Place, str]:
    return {
        (suite, id_): kind
        for suite, by_kind in data.suites.items()
        for kind, ids in by_kind.items()
        for id_ in ids
    }


def _by_case(summary: Summary) -> Mapping[str, Finding]:
    """The first finding that fails the run, by the case that holds it."""
    found: dict[str, Finding] = {}
    for entry in summary.findings:
        if entry.outcome is Outcome.FAILED and entry.finding.severity is Severity.FAIL:
            found.setdefault(entry.case, entry.finding)
    return found


def _observed(finding: Finding) -> str:
    unit = f" {finding.unit}" if finding.unit else ""
    return f"observed {finding.observed}{unit}, expected {finding.expected}{unit}"


def _codes(findings: Iterable[str]) -> set[str]:
    """The codes of ``CODE at PLACE``."""
    return {text.partition(" at ")[0] for text in findings}


def _nodes(row: Row) -> frozenset[str]:
    return frozenset(end.partition("/")[0] for end in row.ends)


def _is_measured(kind: str) -> bool:
    return kind not in UNMEASURED and kind != Outcome.SKIPPED


def _worse(change: Change) -> Change:
    return change.model_copy(update={"worse": True})
