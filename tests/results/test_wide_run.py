"""A wide run says the same as one in ordinary records; and nothing in its records is trusted."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from junitparser import JUnitXml

from benchmarks import made_up
from gdrcheck.outcome import InputError, Outcome, Verdict
from gdrcheck.report import page
from gdrcheck.results import data as data_file
from gdrcheck.results import data_expand, readers
from gdrcheck.results.compare import compare
from gdrcheck.results.compare_side import Baseline, read, save
from gdrcheck.results.data_expand import expanded
from gdrcheck.results.events import Case, EndEvent, Event, PlanEvent, StartEvent, StepEvent
from gdrcheck.results.merge import merge
from gdrcheck.results.own_blame import own_blame
from gdrcheck.results.pair_records import APART, JOURNAL_FILE, PairEvent
from gdrcheck.results.scheduler_lists import sort_nodes
from gdrcheck.results.summary import Summary
from tests.results.trees import append

Change = Callable[[dict[str, Any]], object]
NODES = 20


@pytest.fixture
def many_bad(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of four nodes one is bad, in every way but to have died, which leaves half a file."""
    monkeypatch.setattr(made_up, "ONE_BAD_OF", 4)
    ways = tuple(way for way in made_up.SICKNESSES if way != "died")
    monkeypatch.setattr(made_up, "SICKNESSES", ways)


def merged(folder: Path, *, wide: bool, nodes: int = NODES) -> Summary:
    made_up.write(folder, nodes, 3, wide=wide)
    return merge(folder, None)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A healthy wide run of four nodes."""
    folder = tmp_path_factory.mktemp("made") / "run"
    made_up.write(folder, 4, "all", wide=True)
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    """The same for one test alone."""
    return Path(shutil.copytree(made, tmp_path / "run"))


def events_of(folder: Path, node: str) -> Path:
    return folder / "nodes" / node / "events.jsonl"


def changed(path: Path, change: Change, *, event: str = "pair") -> None:
    """Change the first record of this type in a file of events."""
    lines = path.read_text().splitlines()
    for at, line in enumerate(lines):
        record = json.loads(line)
        if record["event"] == event:
            change(record)
            lines[at] = json.dumps(record)
            break
    path.write_text("".join(f"{line}\n" for line in lines))


def first_pair(folder: Path, node: str) -> PairEvent:
    lines = events_of(folder, node).read_text().splitlines()
    return next(PairEvent.model_validate_json(line) for line in lines if '"event":"pair"' in line)


def is_distrusted(summary: Summary, node: str) -> str:
    """What is wrong with the results of ``node``; the run has not passed then."""
    assert summary.verdict is not Verdict.PASS
    assert not summary.nodes[node].complete
    return " ".join(one.reason for one in summary.unmeasured if one.case.endswith(f"[{node}]"))


# --- the same as in ordinary records -----------------------------------------------------------


@pytest.mark.usefixtures("many_bad")
def test_verdict_counts_findings_and_suspects_are_those_of_ordinary_records(
    tmp_path: Path,
) -> None:
    ordinary, wide = merged(tmp_path / "a", wide=False), merged(tmp_path / "b", wide=True)
    assert (wide.verdict, wide.reasons) == (ordinary.verdict, ordinary.reasons)
    assert wide.counts == ordinary.counts
    assert wide.findings == ordinary.findings
    assert places(wide) == places(ordinary)
    assert {one.reason for one in wide.unmeasured} == {one.reason for one in ordinary.unmeasured}
    assert wide.nodes.keys() == ordinary.nodes.keys()
    assert [one.complete for one in wide.nodes.values()] == [
        one.complete for one in ordinary.nodes.values()
    ]


def places(summary: Summary) -> set[tuple[tuple[str, ...], str]]:
    return {(one.place, one.reason) for one in summary.suspects}


@pytest.mark.usefixtures("many_bad")
def test_the_data_tells_every_case_that_ordinary_records_tell(tmp_path: Path) -> None:
    merged(tmp_path / "a", wide=False)
    merged(tmp_path / "b", wide=True)
    ordinary = data_file.read(tmp_path / "a" / "data.json.gz")
    wide = data_file.read(tmp_path / "b" / "data.json.gz")
    assert wide.blocks
    assert not ordinary.blocks
    assert sorted(expanded(wide).kinds_by_case()) == sorted(ordinary.kinds_by_case())
    assert wide.findings == ordinary.findings


@pytest.mark.usefixtures("many_bad")
def test_verdicts_of_nodes_and_rails_are_the_same_in_junit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gdrcheck.results.junit_limits.MAX_CASES", 0)
    merged(tmp_path / "a", wide=False)
    merged(tmp_path / "b", wide=True)
    assert results(tmp_path / "a") == results(tmp_path / "b")


def results(folder: Path) -> set[tuple[str, str, tuple[tuple[type, str], ...]]]:
    """Every case of the JUnit file with what became of it."""
    return {
        (case.classname, case.name, tuple((type(one), one.message) for one in case.result))
        for suite in JUnitXml.fromfile(str(folder / "junit.xml"))
        for case in suite
    }


def test_a_healthy_wide_run_passes(tmp_path: Path) -> None:
    summary = merged(tmp_path / "run", wide=True, nodes=4)
    assert (summary.verdict, summary.reasons) == (Verdict.PASS, ())
    page.write(tmp_path / "run")


@pytest.mark.usefixtures("many_bad")
def test_readers_in_processes_of_their_own_tell_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = merged(tmp_path / "run", wide=True)
    data = (tmp_path / "run" / "data.json.gz").read_bytes()
    monkeypatch.setattr(readers, "MAX_ALONE", 0)
    monkeypatch.setattr("os.sched_getaffinity", lambda _pid: {0, 1})
    assert merge(tmp_path / "run", None) == alone
    assert (tmp_path / "run" / "data.json.gz").read_bytes() == data


# --- what is missing or not to be believed ------------------------------------------------------


def test_a_pair_without_a_record_is_missed(folder: Path) -> None:
    path = events_of(folder, "node0001")
    pair = first_pair(folder, "node0001")
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(one for one in lines if f'"responder":"{pair.responder}"' not in one))
    summary = merge(folder, None)
    assert summary.verdict is Verdict.INCOMPLETE
    assert {one.case for one in summary.unmeasured} == {
        f"pair_measured[node0001 -> {pair.responder}]",
        f"pair_measured[{pair.responder} -> node0001]",
    }


def test_a_template_that_lacks_a_case_is_missed_for_each_of_its_pairs(folder: Path) -> None:
    path = events_of(folder, "node0001")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for one in lines:
        if one["event"] == "template":
            left_out = one["cases"].pop(0)
        if one["event"] == "pair":
            one["kinds"], one["wanted"] = one["kinds"][1:], one["wanted"][1:]
    path.write_text("".join(f"{json.dumps(one)}\n" for one in lines))
    summary = merge(folder, None)
    assert summary.verdict is Verdict.INCOMPLETE
    (told,) = summary.unmeasured
    words = f"{left_out['check']} {left_out['mode']} {left_out['operation']}"
    assert (told.reason, told.stands_for) == (f"no result of {words}", 3)


@pytest.mark.parametrize("digit", ["4", "5"])
def test_a_proof_that_was_passed_over_is_missed(folder: Path, digit: str) -> None:
    path = events_of(folder, "node0001")
    changed(path, lambda one: one.update(kinds=digit + one["kinds"][1:]))
    summary = merge(folder, None)
    assert summary.verdict is Verdict.INCOMPLETE
    assert [one.reason for one in summary.unmeasured] == ["no result of pingpong host-host SEND"]


def test_a_pair_of_which_nothing_passed_is_missed(folder: Path) -> None:
    changed(events_of(folder, "node0001"), lambda one: one.update(kinds="5" * len(one["kinds"])))
    summary = merge(folder, None)
    assert summary.verdict is Verdict.INCOMPLETE
    assert len(summary.unmeasured) == 2


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda one: one.update(initiator="node0002"), "is of node0002"),
        (lambda one: one.update(responder="node0001"), "is of node0001"),
        (lambda one: one.update(responder="nobody"), "does not initiate"),
        (lambda one: one.update(template=7), "template 7, which was not told"),
        (lambda one: one.update(kinds=one["kinds"] + "0"), "its template has 512 cases"),
        (lambda one: one.update(wanted=one["wanted"][1:]), "its template has 512 cases"),
        (lambda one: one.update(kinds="1" + one["kinds"][1:]), "is not an event"),
        (lambda one: one.update(kinds="2" + one["kinds"][1:]), "is not an event"),
        (lambda one: one.update(kinds="a" + one["kinds"][1:]), "the trouble a"),
        (lambda one: one.update(kinds=APART + one["kinds"][1:]), "and there are none"),
        (lambda one: one.update(wanted="z" + one["wanted"][1:]), "expectation"),
        (lambda one: one["numbers"].pop(), "95 numbers, and its template 96"),
        (lambda one: one["numbers"].__setitem__(0, float("nan")), "is not an event"),
        (lambda one: one["numbers"].__setitem__(0, float("inf")), "is not an event"),
        (lambda one: one["numbers"].__setitem__(0, -1.0), "is not an event"),
        (lambda one: one["numbers"].__setitem__(0, "1.0"), "is not an event"),
    ],
)
def test_a_record_that_cannot_be_right_is_its_nodes_error(
    folder: Path, change: Change, words: str
) -> None:
    changed(events_of(folder, "node0001"), change)
    summary = merge(folder, None)
    assert words in is_distrusted(summary, "node0001")
    # The record is not believed in part: its pair, or the one that it should be of, is missed.
    assert any(one.case.startswith("pair_measured[") for one in summary.unmeasured)
    assert all(summary.nodes[name].complete for name in ("node0002", "node0003", "node0004"))


def test_a_pair_that_is_told_twice(folder: Path) -> None:
    append(folder / "nodes" / "node0001", first_pair(folder, "node0001"))
    assert "is there twice" in is_distrusted(merge(folder, None), "node0001")


def test_a_template_that_is_told_again_must_be_the_same(folder: Path) -> None:
    path = events_of(folder, "node0001")
    template = next(line for line in path.read_text().splitlines() if '"event":"template"' in line)
    with path.open("a") as file:
        file.write(f"{template}\n")
    assert merge(folder, None).verdict is Verdict.PASS
    other = json.loads(template)
    other["cases"].pop()
    with path.open("a") as file:
        file.write(f"{json.dumps(other)}\n")
    assert "two different templates" in is_distrusted(merge(folder, None), "node0001")


def test_rails_that_not_both_nodes_said_they_have(folder: Path) -> None:

    def other_nic(one: dict[str, Any]) -> None:
        for case in one["cases"]:
            if case["source"]["nic"] == "mlx5_3":
                case["source"]["nic"] = "mlx5_9"

    changed(events_of(folder, "node0001"), other_nic, event="template")
    assert "rails that not both" in is_distrusted(merge(folder, None), "node0001")


def test_a_case_that_is_told_by_the_record_and_by_itself(folder: Path) -> None:
    append(folder / "nodes" / "node0001", *a_failure(folder, "node0001"))
    assert "has records of its own" in is_distrusted(merge(folder, None), "node0001")


def a_case(folder: Path, node: str, *, partner: str | None = None) -> Case:
    """The first case of a pair of ``node``."""
    pair = first_pair(folder, node)
    data = json.loads(
        next(
            line
            for line in events_of(folder, node).read_text().splitlines()
            if '"event":"template"' in line
        )
    )["cases"][0]
    other = partner or pair.responder
    source, sink = data["source"], data["sink"]
    where = {"node": node, "gpu": source["gpu"], "nic": source["nic"], "peer": other}
    return Case.model_validate(
        {
            "id": f"{data['check']}[{node}/{source['gpu']}/{source['nic']} -> "
            f"{other}/{sink['gpu']}/{sink['nic']}, {data['mode']}, {data['operation']}]",
            "classname": data["classname"],
            "where": where,
        }
    )


def a_failure(folder: Path, node: str) -> tuple[Event, Event]:
    case = a_case(folder, node)
    plan = PlanEvent(phase="pair", cases=(case,))
    return plan, EndEvent(phase="pair", id=case.id, outcome=Outcome.FAILED, message="wrong")


# --- the journal --------------------------------------------------------------------------------


def journal(folder: Path, node: str, *events: Event) -> None:
    path = folder / "nodes" / node / JOURNAL_FILE
    path.write_text("".join(f"{event.model_dump_json()}\n" for event in events))


def without_pair(folder: Path, node: str) -> str:
    """Take the first pair out of the node's file; which one it was."""
    path = events_of(folder, node)
    pair = first_pair(folder, node)
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(one for one in lines if f'"responder":"{pair.responder}"' not in one))
    return pair.responder


def test_the_journal_of_a_node_that_died_names_the_case_and_its_step(folder: Path) -> None:
    partner = without_pair(folder, "node0001")
    (folder / "nodes" / "node0001" / "done.json").unlink()
    case = a_case(folder, "node0001", partner=partner)
    journal(
        folder,
        "node0001",
        PlanEvent(phase="pair", cases=(case,)),
        StartEvent(phase="pair", id=case.id),
        StepEvent(phase="pair", id=case.id, text="waiting for a completion"),
    )
    summary = merge(folder, None)
    assert summary.verdict is Verdict.INCOMPLETE
    reasons = {one.case: one.reason for one in summary.unmeasured}
    assert reasons[case.id] == "container died, while: waiting for a completion"
    assert f"pair_measured[{partner} -> node0001]" in reasons


def test_what_a_journal_fails_fails_the_run(folder: Path) -> None:
    partner = without_pair(folder, "node0001")
    case = a_case(folder, "node0001", partner=partner)
    end = EndEvent(phase="pair", id=case.id, outcome=Outcome.FAILED, message="wrong")
    journal(folder, "node0001", PlanEvent(phase="pair", cases=(case,)), end)
    summary = merge(folder, None)
    assert summary.verdict is Verdict.FAIL
    assert [one.case for one in summary.failed_without_finding] == [case.id]


def test_a_journal_that_repeats_what_stands_in_the_events_changes_nothing(folder: Path) -> None:
    before = merge(folder, None)
    case = a_case(folder, "node0001")
    journal(
        folder,
        "node0001",
        PlanEvent(phase="pair", cases=(case,)),
        StartEvent(phase="pair", id=case.id),
        EndEvent(phase="pair", id=case.id, outcome=Outcome.PASSED),
    )
    after = merge(folder, None)
    assert (after.verdict, after.counts) == (Verdict.PASS, before.counts)


def test_a_journal_that_contradicts_the_record_of_its_pair(folder: Path) -> None:
    journal(folder, "node0001", *a_failure(folder, "node0001"))
    assert "in the journal" in is_distrusted(merge(folder, None), "node0001")


def test_a_journal_holds_no_records_of_pairs(folder: Path) -> None:
    pair = first_pair(folder, "node0001")
    without_pair(folder, "node0001")
    journal(folder, "node0001", pair)
    assert "record of type pair" in is_distrusted(merge(folder, None), "node0001")


# --- what stands on the data --------------------------------------------------------------------


def both_sides(folder: Path) -> tuple[Baseline, Baseline]:
    merged(folder / "a", wide=False)
    merged(folder / "b", wide=True)
    return read(folder / "a"), read(folder / "b")


@pytest.mark.usefixtures("many_bad")
def test_a_wide_run_is_compared_with_the_same_in_ordinary_records(tmp_path: Path) -> None:
    ordinary, wide = both_sides(tmp_path)
    found = compare(ordinary, wide, "a", "b")
    changes = (found.newly_failing, found.no_longer_measured, found.vanished, found.fixed)
    assert not any(changes)
    assert found.numbers > 0


@pytest.mark.usefixtures("many_bad")
def test_the_same_nodes_are_listed_as_good_and_bad(tmp_path: Path) -> None:
    ordinary, wide = (sort_nodes(side.summary, side.data) for side in both_sides(tmp_path))
    assert wide.good == ordinary.good
    assert wide.bad.keys() == ordinary.bad.keys()
    assert wide.unknown.keys() == ordinary.unknown.keys()


@pytest.mark.usefixtures("many_bad")
def test_each_node_answers_for_the_same(tmp_path: Path) -> None:
    ordinary, wide = (own_blame(side.summary, side.data) for side in both_sides(tmp_path))
    codes = {name: blame.exit_code for name, blame in ordinary.items()}
    assert {name: blame.exit_code for name, blame in wide.items()} == codes
    assert set(codes.values()) >= {0, 1}


@pytest.mark.usefixtures("many_bad")
def test_a_baseline_of_a_wide_run_is_read_again(tmp_path: Path) -> None:
    _, wide = both_sides(tmp_path)
    save(wide, tmp_path / "baseline.json.gz")
    assert read(tmp_path / "baseline.json.gz") == wide


def test_a_wide_run_that_is_too_large_to_compare_is_told_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    merged(tmp_path / "run", wide=True, nodes=4)
    monkeypatch.setattr(data_expand, "MAX_EXPANDED", 100)
    side = read(tmp_path / "run")
    with pytest.raises(InputError, match=r"cannot compare OLD: run .* has 3072 cases") as caught:
        compare(side, side, "OLD", "NEW")
    assert len(caught.value.problems) == 1


def test_data_whose_columns_are_damaged_is_told_in_one_line(tmp_path: Path) -> None:
    merged(tmp_path / "run", wide=True, nodes=4)
    path = tmp_path / "run" / "data.json.gz"
    data = data_file.read(path)
    (block,) = data.blocks
    broken = block.model_copy(
        update={"outcome": block.outcome.model_copy(update={"packed": "eJw="})}
    )
    data_file.write(path, data.model_copy(update={"blocks": (broken,)}))
    with pytest.raises(InputError, match="a column of pairs"):
        read(tmp_path / "run")
