"""What of a large run stands in its JUnit file: readers of such files have limits. Pure.

GitLab takes 30 MB a file and 500,000 cases, and one version of its parser gave up at 250,000 XML
elements. A run over 1,000 nodes has more than a million cases: all of them are in the data file.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

from gdrcheck.findings.model import Where
from gdrcheck.outcome import Outcome
from gdrcheck.results import junit
from gdrcheck.results.cases import FLEET, PAIRS, CaseResult, class_name
from gdrcheck.results.data import DATA_FILE
from gdrcheck.results.ends import Ends
from gdrcheck.results.plain import first_line
from gdrcheck.results.verdict import EXTRA_PREFIX
from gdrcheck.results.wide_rails import WideRails

# Up to here a file is written whole. The rest up to GitLab's limits is for what is not weighed:
# tags of suites, their own properties, characters of several bytes.
MAX_CASES = 30_000
MAX_ELEMENTS = 200_000
MAX_CHARS = 20_000_000
# Of what is bad in a large file, by itself: nodes, pairs, and the fleet with other tools.
MAX_BAD = 3_000
MAX_BAD_ELEMENTS = 25_000
MAX_BAD_CHARS = 4_000_000
# No node has so many of either: one that tells of more is not to push the others out.
MAX_BAD_OF_SUITE = 500
MAX_AREAS = 50
# More good cases of the fleet or of another tool are counted in one.
MAX_GOOD_OF_SUITE = 10_000
OTHER_AREAS = "other"
# Of a verdict: there are tens of thousands of them.
MAX_VERDICT_CHARS = 150
# After so many cases of a suite that did not fit, the rest is counted and not weighed.
MAX_MISSES = 5

Suites = Mapping[str, Sequence[CaseResult]]


def fit(suites: Suites, wide: WideRails | None = None) -> Suites:
    """``suites`` as they are where they fit; else what is bad, and verdicts for the rest.

    Then a node has one case for each area of its checks, and each of its rails one for all of its
    pairs. A bad pair has one case for each kind of trouble. Cases of the fleet and of other tools
    stay. What is bad beyond the limits is counted in a case that is an error. ``wide``: of the
    pair cases that are in no suite, which never fit.
    """
    if wide is None and _fits(suites):
        return suites
    nodes, pairs, others = _Room(), _Room(), _Room()
    fitted: dict[str, Sequence[CaseResult]] = {}
    for name, cases in suites.items():
        bad: Iterable[CaseResult] = filter(_is_bad, cases)
        if name == PAIRS:
            fitted[name] = [*pairs.take(name, _bad_pairs(cases)), *_rails(cases, wide)]
        elif name == FLEET or name.startswith(EXTRA_PREFIX):
            fitted[name] = [*others.take(name, bad), *_good(name, cases)]
        else:
            few = nodes.take(name, bad, most=MAX_BAD_OF_SUITE)
            fitted[name] = [*few, *_areas(name, cases)]
    return fitted


def _fits(suites: Suites) -> bool:
    if sum(map(len, suites.values())) > MAX_CASES:
        return False
    elements = chars = 0
    for case in chain.from_iterable(suites.values()):
        more_elements, more_chars = junit.size(case)
        elements += more_elements
        chars += more_chars
    return elements <= MAX_ELEMENTS and chars <= MAX_CHARS


def _is_bad(case: CaseResult) -> bool:
    """Whether a reader must see the case itself: it is neither passed nor passed over."""
    return case.outcome in (Outcome.FAILED, Outcome.ERROR, Outcome.BLOCKED)


@dataclass(slots=True)
class _Room:
    """How much of what is bad still fits."""

    cases: int = field(default_factory=lambda: MAX_BAD)
    elements: int = field(default_factory=lambda: MAX_BAD_ELEMENTS)
    chars: int = field(default_factory=lambda: MAX_BAD_CHARS)

    def take(
        self, suite: str, cases: Iterable[CaseResult], most: int = MAX_BAD
    ) -> Iterator[CaseResult]:
        """As many of ``cases`` as fit; then one that says how many more there are."""
        more = misses = 0
        first: CaseResult | None = None
        for case in cases:
            if most > 0 and misses < MAX_MISSES and self._has_room_for(case):
                most -= 1
                misses = 0
                yield case
            else:
                first = first or case
                more += 1
                misses += 1
        if first is not None:
            yield CaseResult(
                suite=suite,
                id=f"and_more[{suite}]",
                classname=first.classname,
                where=Where(node=first.where.node),
                outcome=Outcome.ERROR,
                message=f"{more} more cases that are failed, error or blocked do not fit into this "
                f"file, from {first.id} on: see {DATA_FILE}",
            )

    def _has_room_for(self, case: CaseResult) -> bool:
        if self.cases <= 0:
            return False
        elements, chars = junit.size(case)
        if elements > self.elements or chars > self.chars:
            return False
        self.cases -= 1
        self.elements -= elements
        self.chars -= chars
        return True


def _good(suite: str, cases: Sequence[CaseResult]) -> Sequence[CaseResult]:
    """What is not bad of the fleet or of another tool's file; one case for all if it is much."""
    good = [case for case in cases if not _is_bad(case)]
    if len(good) <= MAX_GOOD_OF_SUITE:
        return good
    tally = _Tally()
    for case in cases:
        tally.add(case, own=True)
    classname = cases[0].classname
    return [tally.verdict(suite, f"cases_of[{suite}]", classname, Where(node=suite))]


def _bad_pairs(cases: Iterable[CaseResult]) -> Iterator[CaseResult]:
    """The first bad case of each kind between two rails, which says how many are like it."""
    found: dict[tuple[object, ...], list[CaseResult]] = {}
    for case in filter(_is_bad, cases):
        ends = case.ends
        places = (ends.source, ends.sink) if ends else (case.id,)
        why = case.findings[0].code if case.findings else case.blocked_by
        key = (*places, case.outcome, why, case.waived, case.only_warns)
        found.setdefault(key, []).append(case)
    for alike in found.values():
        first, more = alike[0], sum(case.stands_for for case in alike) - 1
        yield replace(first, properties=first.properties | {"cases like it": str(more)})


@dataclass(slots=True)
class _Tally:
    """The cases of a rail or an area. ``own`` are the bad ones that are not of somebody else, which
    stand for ``bad`` cases."""

    counts: Counter[str] = field(default_factory=Counter)
    own: list[CaseResult] = field(default_factory=list)
    bad: int = 0

    def add(self, case: CaseResult, own: bool) -> None:
        self.counts[str(case.outcome)] += case.stands_for
        if own and (case.fails or case.unmeasured):
            self.own.append(case)
            self.bad += case.stands_for

    def verdict(self, suite: str, id_: str, classname: str, where: Where) -> CaseResult:
        """One case for all. Passed only if one of them is, and nothing speaks against it."""
        outcomes = ", ".join(f"{count} {one}" for one, count in self.counts.items())
        told = {"cases": outcomes}
        worst = next((case for case in self.own if case.fails), next(iter(self.own), None))
        outcome, message, code = Outcome.PASSED, "", None
        if worst is not None:
            outcome = Outcome.FAILED if worst.fails else Outcome.ERROR
            bad = f"{self.bad} of {self.counts.total()} cases are bad"
            message = f"{bad}, such as {worst.id}: {first_line(worst.message)}"
            if worst.fails and worst.findings:
                # The code alone: its causes and repairs stand with the bad case itself.
                code = worst.findings[0].code
                told["code"] = code
        elif not self.counts[Outcome.PASSED]:
            # Bad cases that are all waived, warnings or of another rail are no measurement.
            outcome, message = Outcome.NOT_JUDGED, "none of the cases passed or failed by itself"
        return CaseResult(
            suite=suite,
            id=id_,
            classname=classname,
            where=where,
            outcome=outcome,
            message=_shortened(message),
            foreign_type=code,
            properties=told,
        )


def _shortened(text: str) -> str:
    return text if len(text) <= MAX_VERDICT_CHARS else f"{text[: MAX_VERDICT_CHARS - 1]}…"


def _areas(node: str, cases: Iterable[CaseResult]) -> Iterator[CaseResult]:
    areas: defaultdict[str, _Tally] = defaultdict(_Tally)
    for case in cases:
        classname = case.classname
        if classname not in areas and len(areas) >= MAX_AREAS:
            classname = class_name(node, OTHER_AREAS)
        areas[classname].add(case, own=True)
    for classname, tally in areas.items():
        id_ = f"checks_of[{node}, {classname.rpartition('.')[2]}]"
        yield tally.verdict(node, id_, classname, Where(node=node))


def _rails(cases: Iterable[CaseResult], wide: WideRails | None) -> Iterator[CaseResult]:
    rails: defaultdict[str, _Tally] = defaultdict(_Tally)
    for place, counts in wide.counts().items() if wide else ():
        for outcome, count in counts.items():
            rails[place].counts[str(outcome)] += count
    for case in cases:
        ends = case.ends
        if ends is not None:
            blamed = _blamed(case, ends) if _is_bad(case) else ()
            for place in (ends.source, ends.sink):
                rails[place].add(case, own=place in blamed)
    for place, tally in sorted(rails.items()):
        node = place.partition("/")[0]
        yield tally.verdict(PAIRS, f"pairs_of[{place}]", f"{PAIRS}.rails", Where(node=node))


def _blamed(case: CaseResult, ends: Ends) -> Sequence[str]:
    """The ends that the case's findings, or what blocks it, are of; both when they do not say."""
    nodes = {finding.where.node for finding in case.findings}
    if not nodes and case.blocked_by:
        words = case.blocked_by.replace("[", " ").replace("]", " ").replace("/", " ").split()
        nodes = set(words)
    both = (ends.source, ends.sink)
    return [place for place in both if place.partition("/")[0] in nodes] or both
