"""The blocks of a wide run as series, for who goes through single cases. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import compress

from gdrcheck.outcome import InputError
from gdrcheck.results.data import EXPECTED_GBPS, Data, Place, Series
from gdrcheck.results.data_blocks import Block, BlockNumbers

# Some gigabytes of memory, and a minute.
MAX_EXPANDED = 4_000_000


def case_count(data: Data) -> int:
    """How many cases the blocks hold, those included that are rows of series."""
    return sum(len(block.cases) * len(block.initiators.numbers()) for block in data.blocks)


def expanded(data: Data) -> Data:
    """``data`` with series instead of blocks; itself when it has no blocks.

    InputError when the blocks hold too many cases for that, or are damaged.
    """
    if not data.blocks:
        return data
    if (count := case_count(data)) > MAX_EXPANDED:
        raise InputError(
            f"run {data.run_id} has {count} cases of pairs told in blocks; to go through single "
            f"cases at most {MAX_EXPANDED} can be: compare runs of fewer rounds"
        )
    maker = _Maker(data)
    series = [one for block in data.blocks for one in maker.series(block)]
    return data.model_copy(
        update={
            "blocks": (),
            "expectations": (),
            "places": tuple(maker.places),
            "words": tuple(maker.words),
            "series": (*data.series, *series),
        }
    )


class _Maker:
    """Makes series of blocks. ``places`` and ``words``: those of the data, and further ones."""

    def __init__(self, data: Data) -> None:
        self.places = list(data.places)
        self.words = list(data.words)
        self._data = data
        self._places = {place.text: number for number, place in enumerate(self.places)}
        self._words = {word: number for number, word in enumerate(self.words)}

    def series(self, block: Block) -> Iterator[Series]:
        """The cases of the block, of which no row of a series tells."""
        initiators, responders, outcome, wanted = block.columns(len(self._data.nodes))
        for at, case in enumerate(block.cases):
            digits = [text[at] for text in block.outcomes]
            kinds = [digits[number] for number in outcome]
            kept = [kind.isdigit() for kind in kinds]
            if not any(kept):
                continue
            nodes = (initiators, responders)
            source, sink = nodes if case.direction == "out" else nodes[::-1]
            numbers = {
                one.name: tuple(compress(self._column(block, one, len(kinds)), kept))
                for one in block.numbers
                if one.case == at
            }
            expected = list(compress((block.wanted[number][at] for number in wanted), kept))
            if any(number >= 0 for number in expected):
                numbers[EXPECTED_GBPS] = tuple(map(self._gbps, expected))
            yield Series(
                check=case.check,
                mode=case.mode,
                operation=case.operation,
                rail=case.rail,
                source=tuple(self._of(source, kept, case.source, case.rail)),
                sink=tuple(self._of(sink, kept, case.sink, case.rail)),
                kinds="".join(compress(kinds, kept)),
                numbers=numbers,
                limited_by=tuple(map(self._limit, expected)) if EXPECTED_GBPS in numbers else (),
            )

    def _of(
        self, nodes: Sequence[int], kept: Sequence[bool], device: str, rail: int | None
    ) -> Iterator[int]:
        for node in compress(nodes, kept):
            text = f"{self._data.nodes[node].name}/{device}"
            number = self._places.setdefault(text, len(self.places))
            if number == len(self.places):
                self.places.append(Place(text=text, node=node, rail=rail))
            yield number

    def _column(self, block: Block, numbers: BlockNumbers, rows: int) -> Iterator[float | None]:
        values = (None, *numbers.values)
        return map(values.__getitem__, block.codes(numbers, rows))

    def _gbps(self, number: int) -> float | None:
        return self._data.expectations[number].gbps if number >= 0 else None

    def _limit(self, number: int) -> int:
        text = self._data.expectations[number].limited_by if number >= 0 else ""
        if not text:
            return -1
        found = self._words.setdefault(text, len(self.words))
        if found == len(self.words):
            self.words.append(text)
        return found
