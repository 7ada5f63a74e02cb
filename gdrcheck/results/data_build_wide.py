"""Makes the blocks of ``data.json.gz`` of the pairs that records of whole pairs tell of. Pure."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import compress

from gdrcheck.results.cases import CaseResult
from gdrcheck.results.data import DIGITS
from gdrcheck.results.data_blocks import Block, BlockCase, BlockNumbers, Column, Expectation
from gdrcheck.results.pair_records import RailPlace, TemplateCase
from gdrcheck.results.pair_told import Template
from gdrcheck.results.summary import kind_of
from gdrcheck.results.wide import Block as Pairs
from gdrcheck.results.wide import WidePairs

# Which rail of a node has this NIC, if anybody said.
RailOf = Callable[[str, str], int | None]


def expectations(wide: WidePairs) -> tuple[Expectation, ...]:
    """The expected rates."""
    return tuple(Expectation(gbps=gbps, limited_by=text) for gbps, text in wide.expectations.values)


def places_of(wide: WidePairs) -> Iterator[str]:
    """Every end of a rail that a pair of ``wide`` has, once."""
    told: dict[str, None] = {}
    for pairs in wide.blocks:
        ours = dict.fromkeys(_ours(case) for case in pairs.template)
        theirs = dict.fromkeys(_theirs(case) for case in pairs.template)
        for nodes, ends in ((pairs.initiators, ours), (pairs.responders, theirs)):
            for node in dict.fromkeys(nodes):
                told.update(dict.fromkeys(end.of(wide.names[node]) for end in ends))
    yield from told


def blocks(wide: WidePairs, cases: Sequence[CaseResult], rail_of: RailOf) -> tuple[Block, ...]:
    """The pairs of ``wide``. ``cases``: those that stand for others may be excused."""
    excused = _excused(wide, cases)
    return tuple(
        _block(wide, pairs, rails, rows, excused)
        for pairs in wide.blocks
        for rails, rows in _by_rails(wide, pairs, rail_of)
    )


def _excused(
    wide: WidePairs, cases: Sequence[CaseResult]
) -> Mapping[tuple[str, str], Sequence[CaseResult]]:
    """The cases that stand for others and whose kind is not their outcome, by pair."""
    found: dict[tuple[str, str], list[CaseResult]] = {}
    for case in cases:
        if case.stands_for > 1 and case.ends is not None and kind_of(case) != case.outcome:
            nodes = case.ends.nodes
            pair = nodes if wide.row(*nodes) is not None else nodes[::-1]
            found.setdefault(pair, []).append(case)
    return found


def _by_rails(
    wide: WidePairs, pairs: Pairs, rail_of: RailOf
) -> Iterator[tuple[tuple[int | None, ...], bytes | None]]:
    """The rails of the template's cases, and which rows have them: None for all."""
    nics = [_ours(case).nic for case in pairs.template]
    of_node = {
        node: tuple(rail_of(wide.names[node], nic) for nic in nics)
        for node in dict.fromkeys(pairs.initiators)
    }
    different = dict.fromkeys(of_node.values())
    for rails in different:
        if len(different) == 1:
            yield rails, None
        else:
            yield rails, bytes(of_node[node] == rails for node in pairs.initiators)


def _ours(case: TemplateCase) -> RailPlace:
    return case.source if case.direction == "out" else case.sink


def _theirs(case: TemplateCase) -> RailPlace:
    return case.sink if case.direction == "out" else case.source


def _block(
    wide: WidePairs,
    pairs: Pairs,
    rails: Sequence[int | None],
    rows: bytes | None,
    excused: Mapping[tuple[str, str], Sequence[CaseResult]],
) -> Block:
    def column(numbers: Sequence[int]) -> list[int] | Sequence[int]:
        return numbers if rows is None else list(compress(numbers, rows))

    initiators, responders = column(pairs.initiators), column(pairs.responders)
    texts = _Texts(wide, pairs.template)
    outcome = list(map(texts.of, column(pairs.kinds)))
    for at in range(len(initiators)) if excused else ():
        pair = wide.names[initiators[at]], wide.names[responders[at]]
        for case in excused.get(pair, ()):
            outcome[at] = texts.excused(outcome[at], case, pair[0])
    wanted = {number: at for at, number in enumerate(sorted(set(pairs.wanted)))}
    return Block(
        cases=tuple(
            BlockCase(
                check=case.check,
                mode=case.mode,
                operation=case.operation,
                rail=rail,
                direction=case.direction,
                source=case.source.of("")[1:],
                sink=case.sink.of("")[1:],
            )
            for case, rail in zip(pairs.template, rails, strict=True)
        ),
        initiators=Column.of(initiators),
        responders=Column.of(responders),
        outcomes=tuple(texts.all),
        outcome=Column.of(outcome),
        wanted=tuple(wide.wanted.values[number] for number in wanted),
        expectation=Column.of([wanted[number] for number in column(pairs.wanted)]),
        numbers=tuple(_numbers(wide, pairs, column)),
    )


class _Texts:
    """The texts of outcomes of a block."""

    def __init__(self, wide: WidePairs, template: Template) -> None:
        self.all: list[str] = []
        self._wide = wide
        self._template = template
        self._known: dict[int, int] = {}
        self._numbers: dict[str, int] = {}

    def of(self, kinds: int) -> int:
        """The number of the text that ``wide`` has as ``kinds``."""
        if kinds not in self._known:
            self._known[kinds] = self._number(self._wide.kinds.values[kinds])
        return self._known[kinds]

    def excused(self, number: int, case: CaseResult, initiator: str) -> int:
        """The number of the text where the cases that ``case`` stands for are of its kind."""
        ends = case.ends
        assert ends is not None
        direction = "out" if ends.nodes[0] == initiator else "in"
        was, now = DIGITS[case.outcome], DIGITS[kind_of(case)]
        nic = ends.source.rpartition("/")[2]
        return self._number(
            "".join(
                now if (kind, one.direction, one.source.nic) == (was, direction, nic) else kind
                for kind, one in zip(self.all[number], self._template, strict=True)
            )
        )

    def _number(self, text: str) -> int:
        number = self._numbers.setdefault(text, len(self.all))
        if number == len(self.all):
            self.all.append(text)
        return number


def _numbers(
    wide: WidePairs, pairs: Pairs, column: Callable[[Sequence[int]], Sequence[int]]
) -> Iterator[BlockNumbers]:
    at = 0
    for number, case in enumerate(pairs.template):
        for name in case.columns:
            codes = column(pairs.codes[at :: pairs.width])
            at += 1
            told = sorted((wide.values.values[code - 1], code) for code in set(codes) if code)
            if not told:
                continue
            own = {code: place for place, (_, code) in enumerate(told, start=1)} | {0: 0}
            yield BlockNumbers(
                case=number,
                name=name,
                values=tuple(value for value, _ in told),
                codes=Column.of(array("I", map(own.__getitem__, codes))),
            )
