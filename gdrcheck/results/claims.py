"""Pair cases that a node reports and may not: claims about pairs that are not for it to tell of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from gdrcheck.findings.model import Where
from gdrcheck.pairing.schedule import Pair
from gdrcheck.results.cases import PAIRS
from gdrcheck.results.ends import Ends
from gdrcheck.results.incoming import NodeReport
from gdrcheck.results.owed_pairs import listed_rails, place_of
from gdrcheck.results.pair_told import Template
from gdrcheck.results.rail_keys import RailKeys


def refused_claims(pairs: Sequence[Pair], report: NodeReport) -> dict[str, str]:
    """The pair cases that this node may not report, with the reason: only the initiator of a
    pair of the schedule tells of it, under a name that fits its place and the agreed rails.

    ``pairs``: those of the schedule that the node initiates, others do no harm.
    """
    own = {pair.responder: pair for pair in pairs if pair.initiator == report.node}
    rails: dict[str, frozenset[tuple[str, str]] | None] = {}
    refused = {}
    # All cases between two rails have one answer: what each is about is one object for many.
    answers: dict[tuple[str, str, int], str] = {}
    for case in report.cases:
        if case.suite != PAIRS:
            continue
        ends = case.ends
        if ends is None:
            refused[case.id] = "is not named after a pair"
            continue
        key = (ends.source, ends.sink, id(case.where))
        if key not in answers:
            for node in ends.nodes:
                # A node has many pairs, and in a wide run hardly any case of its own of them.
                if node in own and node not in rails:
                    rails[node] = _places_of_rails(report, own[node])
            answers[key] = _refusal(case.where, ends, report, rails)
        if why := answers[key]:
            refused[case.id] = why
    return refused


class RecordClaims:
    """Whether a node may tell of the pairs that its records of whole pairs are of."""

    def __init__(self, keys: RailKeys) -> None:
        self._keys = keys
        # By the template's identity, which is of a run's few, and what rails both nodes have.
        self._known: dict[tuple[int, int, int], bool] = {}

    def of(self, pairs: Sequence[Pair], report: NodeReport) -> Callable[[str, Template], str]:
        """For a responder and a template why ``report``'s node may not tell of that pair; empty
        when it may. ``pairs``: as for ``refused_claims``.
        """
        own = {pair.responder: pair for pair in pairs if pair.initiator == report.node}
        ours = self._keys.of(report.rendezvous, report.node)

        def refusal(responder: str, template: Template) -> str:
            pair = own.get(responder)
            if pair is None:
                return f"is of a pair that {report.node} does not initiate"
            key = id(template), ours, self._keys.of(report.rendezvous, responder)
            if key not in self._known:
                self._known[key] = _fits(template, report, pair)
            return "" if self._known[key] else "is of rails that not both nodes said they have"

        return refusal


def _fits(template: Template, report: NodeReport, pair: Pair) -> bool:
    known = _places_of_rails(report, pair)
    return known is None or all(
        (case.source.of(source), case.sink.of(sink)) in known
        for case in template
        for source, sink in (pair if case.direction == "out" else pair[::-1],)
    )


def _places_of_rails(report: NodeReport, pair: Pair) -> frozenset[tuple[str, str]] | None:
    """Both ends, in both orders, of each rail that both nodes said they have; None when nobody
    said."""
    listed = listed_rails(report, pair)
    if not listed:
        return None
    first, other = (listed[node] for node in pair)
    ends = [
        (place_of(pair.initiator, rail), place_of(pair.responder, other[id_]))
        for id_, rail in first.items()
        if id_ in other
    ]
    return frozenset((*ends, *((other, one) for one, other in ends)))


def _refusal(
    where: Where,
    ends: Ends,
    report: NodeReport,
    rails: Mapping[str, frozenset[tuple[str, str]] | None],
) -> str:
    """Why a case between ``ends`` at ``where`` may not be told; empty when it may.

    ``rails``: the ends that may be told of, by the node at the other end.
    """
    source, sink = ends.nodes
    if (where.node, where.peer, where.alone) != (source, sink, ends.source):
        return f"is about {where.text()}, not about what its name says"
    other = sink if source == report.node else source
    if report.node not in (source, sink) or other not in rails:
        return f"is of a pair that {report.node} does not initiate"
    known = rails[other]
    if known is not None and (ends.source, ends.sink) not in known:
        return "is of no rail that both nodes said they have"
    return ""
