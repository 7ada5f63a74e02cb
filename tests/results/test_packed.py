"""What a reader process sends is what it read."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

from hypothesis import given
from hypothesis import strategies as st

from gdrcheck.findings.model import Finding, Where
from gdrcheck.outcome import Outcome
from gdrcheck.results.cases import PAIRS, CaseResult
from gdrcheck.results.events import RunEvent
from gdrcheck.results.packed import pack, unpack
from gdrcheck.results.told import Told

NODE = "node1"
WORDS = st.text(max_size=8)
PLACES = st.builds(Where, node=WORDS, gpu=st.none() | WORDS, nic=WORDS, peer=st.none() | WORDS)
FINDINGS = st.builds(
    Finding, code=st.just("PORT-NOT-ACTIVE"), where=PLACES, observed=WORDS, expected=WORDS
)
CASES = st.builds(
    CaseResult,
    suite=st.sampled_from([NODE, PAIRS]),
    id=WORDS | st.just("latency[a/gpu0/m -> b/gpu0/m, gpu-gpu, SEND]"),
    classname=WORDS,
    where=PLACES,
    outcome=st.sampled_from(Outcome),
    duration_s=st.floats(min_value=0, allow_infinity=False),
    message=WORDS,
    findings=st.lists(FINDINGS, max_size=2).map(tuple),
    blocked_by=st.none() | WORDS,
    properties=st.dictionaries(WORDS, WORDS, max_size=3),
)
ZONES = st.sampled_from([UTC, timezone(timedelta(hours=-5, minutes=-30))])
TIMES = st.none() | st.datetimes(timezones=ZONES)


def run_event(time: datetime) -> RunEvent:
    return RunEvent(
        time=time,
        phase="run",
        run_id="r",
        node=NODE,
        gdrcheck_version="0",
        image_id="",
        emulated=True,
    )


@given(
    st.builds(
        Told,
        cases=st.lists(CASES, max_size=5).map(tuple),
        run=st.none() | st.datetimes(timezones=ZONES).map(run_event),
        first=TIMES,
        last=TIMES,
        problems=st.lists(WORDS, max_size=2).map(tuple),
        cut_bytes=st.integers(min_value=0, max_value=2**40),
        broken=WORDS,
    )
)
def test_what_is_packed_is_unpacked(told: Told) -> None:
    found = unpack(pack(told), NODE)
    assert found == told
    assert [case.ends for case in found.cases] == [case.ends for case in told.cases]


def test_what_cases_have_alike_is_sent_once() -> None:
    where, properties = Where(node=NODE), {"size": "8 bytes"}
    one = CaseResult(
        suite=NODE,
        id="a",
        classname="c",
        where=where,
        outcome=Outcome.PASSED,
        properties=properties,
    )
    first, second = unpack(pack(Told(cases=(one, one))), NODE).cases
    assert first.where is second.where
    assert first.properties is second.properties
