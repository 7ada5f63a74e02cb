"""What a node says of its pairs comes back from its records of whole pairs as it was said."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from gdrcheck.findings.model import Finding, Where
from gdrcheck.outcome import Outcome
from gdrcheck.pairing.items import Item, items
from gdrcheck.results import data, pair_builder
from gdrcheck.results.cases import CaseResult, Ledger
from gdrcheck.results.events import (
    MAX_LINE_BYTES,
    Case,
    EndEvent,
    Event,
    PlanEvent,
    parse,
    parse_line,
)
from gdrcheck.results.packed import pack, unpack
from gdrcheck.results.pair_builder import PairRecords
from gdrcheck.results.pair_ledger import PairLedger
from gdrcheck.results.pair_records import (
    DIGITS,
    EXPECTATIONS,
    MAX_TROUBLE_CHARS,
    TROUBLES,
    ExpectationEvent,
    PairEvent,
    TemplateEvent,
)
from gdrcheck.results.pair_told import DIGIT_OUTCOMES, OUTCOME_DIGITS, ToldPairs
from gdrcheck.results.told import Told
from tests.results import many

ONE, OTHER = "node1", "node2"
ITEMS = items(many.PROFILE, many.PROFILE, gpus=True)
Ended = tuple[Case, EndEvent]
WORDS = st.sampled_from(["", "no answer for 3 s", "\U0001f600 \x1b[2J ]]>", "x" * 5000])
RATES = st.floats(min_value=0.001, max_value=1e6).map(lambda value: f"{value:.3g} Gb/s")
SOME_ITEMS = st.lists(st.sampled_from(ITEMS), min_size=1, max_size=12, unique=True)


def finding(where: Where) -> Finding:
    return Finding(code="PAIR-GPU-WRITE", where=where, observed="0f", expected="5a")


@st.composite
def ends(draw: st.DrawFn, case: Case) -> EndEvent:
    outcome = draw(st.sampled_from(Outcome))
    bad = outcome in (Outcome.FAILED, Outcome.ERROR, Outcome.BLOCKED)
    told = {
        "p50": f"{draw(st.floats(min_value=0.01, max_value=900)):.2f} us",
        "4 MiB": draw(RATES),
        f"out, from {case.where.node}": draw(RATES),
        "expected": f"{draw(RATES)}, {draw(st.sampled_from(['NIC rate', 'PCIe']))}",
    }
    kept = draw(st.sets(st.sampled_from(sorted(told))))
    return EndEvent(
        phase="pair",
        id=case.id,
        outcome=outcome,
        message=draw(WORDS) if bad else "",
        findings=(finding(case.where),) if draw(st.booleans()) and draw(st.booleans()) else (),
        blocked_by=draw(st.sampled_from(["PORT-NOT-ACTIVE at node2/mlx5_1", None]))
        if outcome is Outcome.BLOCKED
        else None,
        properties={name: text for name, text in told.items() if name in kept},
    )


def cases_of(owed: Iterable[Item], initiator: str, responder: str, rails: int = 2) -> list[Case]:
    found = []
    for rail in range(rails):
        for item in owed:
            for direction in item.directions:
                nodes = (initiator, responder) if direction == "out" else (responder, initiator)
                place = f"gpu{rail}/mlx5_{rail}"
                where = Where(node=nodes[0], gpu=f"gpu{rail}", nic=f"mlx5_{rail}", peer=nodes[1])
                id_ = item.id(*(f"{node}/{place}" for node in nodes))
                found.append(Case(id=id_, classname="pairs.speed", where=where))
    return found


@st.composite
def pairs(draw: st.DrawFn) -> list[Ended]:
    return [(case, draw(ends(case))) for case in cases_of(draw(SOME_ITEMS), ONE, OTHER)]


def told_by(events: Sequence[Event]) -> tuple[list[CaseResult], PairLedger]:
    """What a reader makes of the events, which were lines of a file."""
    text = "".join(f"{event.model_dump_json()}\n" for event in events).encode()
    log = parse(text)
    assert log.problems == ()
    ledger, found = Ledger(), PairLedger(ONE)
    ledger.feed(log.events)
    found.feed(log.events, {id_: end.outcome for id_, end in ledger.ended.items()})
    assert (ledger.problems, found.problems) == ([], [])
    return ledger.results(ONE, "died"), found


def row(told: ToldPairs) -> tuple[str, list[float | None], list[tuple[float, str] | None]]:
    """Outcomes, numbers and expectations of the one pair."""
    (rows,) = told.rows.values()
    values = (None, *told.values)
    expectations = (*told.expectations, None)
    return (
        told.kinds[rows.kinds[0]],
        [values[code] for code in rows.codes],
        [expectations[number] for number in told.wanted[rows.wanted[0]]],
    )


@settings(max_examples=60, deadline=None)
@given(pairs())
def test_every_case_comes_back_as_it_ended(cases: list[Ended]) -> None:
    own, ledger = told_by(PairRecords().of(ONE, OTHER, cases))
    apart = {case.id: case for case in own}
    assert ledger.apart == set(apart)
    outcomes = ledger.outcomes(OTHER)
    assert outcomes == {case.id: end.outcome for case, end in cases}
    # What is bad is told once at least, with its reason, and counted once.
    bad = [end for _, end in cases if end.findings or end.outcome not in GOOD]
    told = [*own, *ledger.cases]
    assert sum(case.stands_for for case in told) == len(bad)
    assert {(case.outcome, case.message, case.blocked_by) for case in told} == {
        (end.outcome, end.message, end.blocked_by) for end in bad
    }
    assert [one for case in told for one in case.findings] == [
        one for end in bad for one in end.findings
    ]


GOOD = (Outcome.PASSED, Outcome.SKIPPED, Outcome.NOT_JUDGED)


@settings(max_examples=60, deadline=None)
@given(pairs())
def test_numbers_and_expectations_come_back(cases: list[Ended]) -> None:
    _, ledger = told_by(PairRecords().of(ONE, OTHER, cases))
    assert ledger.told is not None
    kinds, numbers, wanted = row(ledger.told)
    left = list(numbers)
    for (case, end), kind, expected in zip(cases, kinds, wanted, strict=True):
        assert DIGIT_OUTCOMES.get(kind, end.outcome) is end.outcome
        texts = end.properties if case.id not in ledger.apart else {}
        check = case.id.partition("[")[0]
        name = {"latency": "p50", "bandwidth": "4 MiB"}.get(check, f"out, from {case.where.node}")
        if check in pair_builder.KEPT:
            assert left.pop(0) == (float(texts[name].split()[0]) if name in texts else None)
        rate, _, limit = texts.get("expected", "").partition(" Gb/s, ")
        assert expected == ((float(rate), limit) if rate else None)
    assert not left


@settings(max_examples=30, deadline=None)
@given(pairs())
def test_columns_are_sent_as_they_were_read(cases: list[Ended]) -> None:
    _, ledger = told_by(PairRecords().of(ONE, OTHER, cases))
    told = Told(cases=tuple(ledger.cases), pairs=ledger.told)
    assert unpack(pack(told), ONE) == told


@settings(max_examples=30, deadline=None)
@given(pairs())
def test_every_record_fits_a_line(cases: list[Ended]) -> None:
    for event in PairRecords().of(ONE, OTHER, cases):
        assert len(event.model_dump_json()) < MAX_LINE_BYTES


def passed(initiator: str = ONE, responder: str = OTHER) -> list[Ended]:
    return [
        (case, EndEvent(phase="pair", id=case.id, outcome=Outcome.PASSED))
        for case in cases_of(ITEMS, initiator, responder, rails=8)
    ]


def test_pairs_that_are_alike_share_a_template() -> None:
    records = PairRecords()
    first = records.of(ONE, OTHER, passed())
    second = records.of(ONE, "node3", passed(responder="node3"))
    assert [type(event) for event in first] == [TemplateEvent, PairEvent]
    assert [type(event) for event in second] == [PairEvent]
    assert len(second[0].model_dump_json()) < 2000


def test_a_process_that_is_started_again_goes_on_with_what_the_file_has() -> None:
    first = PairRecords().of(ONE, OTHER, passed())
    again = PairRecords(first).of(ONE, "node3", passed(responder="node3"))
    assert [type(event) for event in again] == [PairEvent]
    _, ledger = told_by([*first, *again])
    assert ledger.responders == {OTHER, "node3"}


def test_a_case_that_is_of_no_rail_keeps_the_pair_in_ordinary_records() -> None:
    cases = passed()
    odd = cases[0][0].model_copy(update={"id": f"odd[{ONE} -> {OTHER}]"})
    cases[0] = (odd, cases[0][1].model_copy(update={"id": odd.id}))
    events = PairRecords().of(ONE, OTHER, cases)
    assert {type(event) for event in events} == {PlanEvent, EndEvent}
    own, ledger = told_by(events)
    assert len(own) == len(cases)
    assert ledger.told is None


def test_more_templates_than_a_file_may_have_are_ordinary_records(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pair_builder, "MAX_TEMPLATES", 1)
    records = PairRecords()
    assert isinstance(records.of(ONE, OTHER, passed())[0], TemplateEvent)
    assert isinstance(records.of(ONE, "node3", passed(responder="node3")[:-1])[0], PlanEvent)


def test_more_troubles_than_letters_have_records_of_their_own() -> None:
    cases = [
        (case, end.model_copy(update={"outcome": Outcome.ERROR, "message": f"reason {number}"}))
        for number, (case, end) in enumerate(passed()[: len(TROUBLES) + 3])
    ]
    own, ledger = told_by(PairRecords().of(ONE, OTHER, cases))
    assert len(own) == 3
    assert len(ledger.cases) == len(TROUBLES)


def test_a_trouble_with_much_to_say_has_records_of_its_own() -> None:
    (case, end), *others = passed()
    message = "x" * (MAX_TROUBLE_CHARS + 1)
    long = end.model_copy(update={"outcome": Outcome.ERROR, "message": message})
    own, ledger = told_by(PairRecords().of(ONE, OTHER, [(case, long), *others]))
    assert [len(one.message) for one in own] == [MAX_TROUBLE_CHARS + 1]
    assert ledger.cases == []


def test_expectations_beyond_the_last_character_are_left_out() -> None:
    cases = [
        (case, end.model_copy(update={"properties": {"expected": f"{number}.5 Gb/s, NIC rate"}}))
        for number, (case, end) in enumerate(passed()[: len(EXPECTATIONS) + 5])
    ]
    events = PairRecords().of(ONE, OTHER, cases)
    assert sum(isinstance(event, ExpectationEvent) for event in events) == len(EXPECTATIONS)
    _, ledger = told_by(events)
    assert ledger.told is not None
    assert row(ledger.told)[2].count(None) == 5


@pytest.mark.parametrize(
    "text",
    [
        '{"kinds": "1"}',
        '{"kinds": "6"}',
        '{"kinds": "A"}',
        '{"kinds": ""}',
        '{"numbers": [NaN]}',
        '{"numbers": [Infinity]}',
        '{"numbers": [-1]}',
        '{"numbers": ["1"]}',
        '{"numbers": [true]}',
        '{"template": -1}',
        '{"template": 64}',
        '{"more": 1}',
    ],
)
def test_a_record_of_another_form_is_no_event(text: str) -> None:
    (event,) = [one for one in PairRecords().of(ONE, OTHER, passed()) if isinstance(one, PairEvent)]
    line = event.model_dump_json()
    name, _, value = text[1:-1].partition(": ")
    before, found, after = line.partition(f"{name}:")
    if found:
        old = after[: after.index("]") + 1] if after[0] == "[" else after.partition(",")[0]
        line = f"{before}{name}:{value}{after.removeprefix(old)}"
    else:
        line = f"{line[:-1]}, {text[1:-1]}}}"
    with pytest.raises(ValueError, match="pair"):
        parse_line(line.encode())


def test_a_template_with_a_case_twice_is_no_event() -> None:
    (template,) = [
        one for one in PairRecords().of(ONE, OTHER, passed()) if isinstance(one, TemplateEvent)
    ]
    with pytest.raises(ValidationError, match="twice"):
        TemplateEvent(phase="pair", number=0, cases=(*template.cases, template.cases[0]))


def test_digits_mean_in_records_what_they_mean_in_the_data() -> None:
    assert {outcome: data.DIGITS[str(outcome)] for outcome in Outcome} == OUTCOME_DIGITS
    assert {**OUTCOME_DIGITS, **DIGITS} == OUTCOME_DIGITS
