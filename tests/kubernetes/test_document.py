"""The run document of a Job: the same nodes in the same order, whichever index has which."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdrcheck.kubernetes.document import absent_names, make_document, parts_of, states_of
from gdrcheck.kubernetes.judging import leaders_code, with_damage
from gdrcheck.kubernetes.waits import job_deadline_s, measuring_s
from gdrcheck.node.clock import overall_s
from gdrcheck.outcome import Verdict
from gdrcheck.pairing.frames import MAX_TEXT_BYTES, pack
from gdrcheck.pairing.job_messages import (
    DOCUMENT_CHARS,
    RESULT_BYTES,
    Arrived,
    DocumentPart,
    ResultPart,
)
from gdrcheck.results.states import SeenState, SeenStates
from gdrcheck.run import Deadlines
from tests.kubernetes.support import settings_of

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
CODES = st.sampled_from([0, 1, 2])


def came(index: int, node: str) -> Arrived:
    return Arrived(index=index, token=f"{index:032x}", node=node, address=f"10.0.0.{index}")


@given(st.permutations(["n1", "n2", "n10", "n20"]))
def test_the_order_is_that_of_the_names(names: list[str]) -> None:
    settings = settings_of(0, 4, 18600)
    pods = [came(index, name) for index, name in enumerate(names)]
    document = make_document(settings, pods, NOW)
    assert [node.name for node in document.run.nodes] == ["n1", "n2", "n10", "n20"]
    assert document.present == ("n1", "n2", "n10", "n20")
    assert document.run.node("n2").address == f"10.0.0.{names.index('n2')}"


def test_pods_that_are_not_there_stand_last_under_the_names_of_the_job() -> None:
    settings = settings_of(0, 4, 18600, leader_host="gdrcheck-0.gdrcheck")
    pods = [came(0, "node9"), came(2, "gdrcheck-1")]
    document = make_document(settings, pods, NOW)
    assert document.present == ("gdrcheck-1", "node9")
    assert [node.name for node in document.run.nodes][2:] == ["gdrcheck-1-pod", "gdrcheck-3"]
    assert document.run.node("gdrcheck-3").address == "gdrcheck-3.gdrcheck"
    assert absent_names(settings, pods) == {
        "gdrcheck-1": "gdrcheck-1-pod",
        "gdrcheck-3": "gdrcheck-3",
    }


def test_the_states_say_who_never_came_who_was_lost_and_who_knocked() -> None:
    settings = settings_of(0, 3, 18600)
    pods = [came(0, "n1"), came(1, "n2")]
    states = states_of(settings, pods, {"n2": "pod was lost"}, "2 connections proved nothing")
    assert states.nodes["n1"].state == "ok"
    assert (states.nodes["n2"].state, states.nodes["n2"].reason) == ("no result", "pod was lost")
    absent = states.nodes["gdrcheck-2"]
    assert absent.state == "never arrived"
    (finding,) = absent.findings
    assert finding.code == "RUN-PEER-NEVER-ARRIVED"
    assert "proved nothing" in finding.observed


def test_damage_counts_where_nothing_worse_is_known() -> None:
    seen = SeenStates(nodes={"a": SeenState(state="ok"), "b": SeenState(state="no result")})
    found = with_damage(seen, {"a": "damaged", "b": "damaged", "c": "damaged"}).nodes
    assert [found[name].reason for name in "abc"] == ["damaged", "", "damaged"]


@given(st.sampled_from(Verdict), CODES, st.lists(CODES))
def test_a_run_that_is_not_pass_never_ends_with_0_everywhere(
    verdict: Verdict, own: int, others: list[int]
) -> None:
    codes = [leaders_code(verdict, own, others), *others]
    assert any(codes) or verdict is Verdict.PASS
    if any(others) or own:
        assert codes[0] == own


@given(st.text(max_size=4000))
def test_whatever_is_in_a_document_its_parts_fit_a_frame(text: str) -> None:
    worst = "\0" * DOCUMENT_CHARS
    for part in (text, worst, '"\\' * (DOCUMENT_CHARS // 2)):
        assert len(pack(b"k" * 32, 1, DocumentPart(text=part, last=True))) <= MAX_TEXT_BYTES + 36


def test_results_fit_a_frame() -> None:
    pack(b"k" * 32, 1, ResultPart(data="A" * (RESULT_BYTES * 4 // 3), last=True))


def test_the_parts_are_the_document() -> None:
    settings = settings_of(0, 500, 18600)
    document = make_document(settings, [came(n, f"n{n}") for n in range(500)], NOW)
    parts = parts_of(document)
    assert len(parts) > 1
    assert [part.last for part in parts] == [False] * (len(parts) - 1) + [True]
    assert document == type(document).model_validate_json("".join(part.text for part in parts))


@pytest.mark.parametrize("scale", [0.5, 1, 3])
def test_the_deadlines_nest(scale: float) -> None:
    waits = Deadlines()
    assert overall_s(waits.scaled(scale)) < measuring_s(waits.scaled(scale))
    assert measuring_s(waits.scaled(scale)) + 600 < job_deadline_s(waits, scale, 600)
