"""What the pair records of a node tell, as columns."""

from __future__ import annotations

from array import array
from collections.abc import Set
from dataclasses import dataclass, field

from gdrcheck.outcome import Outcome
from gdrcheck.results.pair_records import DIGITS, TemplateCase

# What became of a case, as a column has it: the digits of ``data.KINDS``, and of a case that is
# told of by itself, whether that says what became of the measurement, passes it over, or does not
# judge it.
APART_TELLS, APART_SKIPS, APART_JUDGES_NOT = "-", "s", "n"
OUTCOME_DIGITS = {**DIGITS, Outcome.FAILED: "1", Outcome.ERROR: "2", Outcome.BLOCKED: "3"}
DIGIT_OUTCOMES = {digit: outcome for outcome, digit in OUTCOME_DIGITS.items()}
GOOD_DIGITS = "".join(DIGITS.values())
Template = tuple[TemplateCase, ...]
Expectation = tuple[float, str]


@dataclass(slots=True)
class Rows:
    """Pairs of one initiator and one template: a row each.

    ``kinds`` and ``wanted`` are indices into the tables of who holds the rows; ``codes`` are the
    numbers, ``width`` of them a row: 0 for none, else an index into the values plus 1.
    """

    responders: list[str] = field(default_factory=list)
    kinds: array[int] = field(default_factory=lambda: array("I"))
    wanted: array[int] = field(default_factory=lambda: array("I"))
    codes: array[int] = field(default_factory=lambda: array("I"))

    @property
    def columns(self) -> tuple[array[int], array[int], array[int]]:
        """All but the responders."""
        return self.kinds, self.wanted, self.codes

    def without(self, refused: Set[int], width: int) -> Rows:
        """These rows but those of these numbers."""
        if not refused:
            return self
        found = Rows()
        for at, responder in enumerate(self.responders):
            if at not in refused:
                found.responders.append(responder)
                found.kinds.append(self.kinds[at])
                found.wanted.append(self.wanted[at])
                found.codes.extend(self.codes[at * width : (at + 1) * width])
        return found


@dataclass(slots=True)
class ToldPairs:
    """What the pair records of a node tell. ``rows``: by index into ``templates``.

    ``wanted``: for each case of a template the index of its expectation, -1 for none.
    """

    templates: list[Template] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)
    wanted: list[tuple[int, ...]] = field(default_factory=list)
    expectations: list[Expectation] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    rows: dict[int, Rows] = field(default_factory=dict)
