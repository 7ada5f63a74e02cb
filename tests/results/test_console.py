"""One screen for any run: never longer than it may be, and nothing is left out in silence."""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path

import pytest

from gdrcheck.findings.catalogue import ENTRIES_BY_CODE
from gdrcheck.findings.model import Finding, Severity, Where
from gdrcheck.outcome import Outcome, Verdict
from gdrcheck.profile import Waiver
from gdrcheck.results.blame import Suspect
from gdrcheck.results.console import (
    EMULATED,
    MAX_LINES,
    MAX_NAME,
    MAX_WIDTH,
    REPORT_FILE,
    SOFT_ROCE,
    text,
)
from gdrcheck.results.merge import merge
from gdrcheck.results.reproduce import MAX_REPRODUCTIONS, Reproduction
from gdrcheck.results.states import SeenStates
from gdrcheck.results.summary import Summary, SummaryCase, SummaryFailure, SummaryFinding
from tests.node.support import run_spec
from tests.results.trees import NodeTree, fill, two_nodes, write_run

CODES = (
    *("PORT-NOT-ACTIVE", "HOST-MEMLOCK-LIMIT", "HOST-CAP-IPCLOCK", "GPU-MISSING"),
    *("PORT-GID-NONE", "PORT-OPEN-FAILED", "RUN-LOCKED"),
)


def finding(node: str, code: str = "PORT-NOT-ACTIVE", observed: str = "DOWN") -> Finding:
    """A finding of a node."""
    return Finding(code=code, where=Where(node=node), observed=observed, expected="ACTIVE")


def screen(root: Path) -> list[str]:
    """The lines of the merged run."""
    return text(merge(root, SeenStates()), root).splitlines()


def codes_of(lines: list[str]) -> list[str]:
    """The codes of the findings on the screen, in their order."""
    return [line.split()[0].rstrip(":") for line in lines if re.match("  [A-Z-]+[: ]", line)]


def everything_wrong(root: Path, count: int) -> None:
    """A run with many kinds of everything."""
    names = [f"node{number}" for number in range(1, count + 1)]
    write_run(root, run_spec(*names))
    (root / "extra_junit").mkdir()
    bad = "".join(f'<testcase name="t{number}"><failure/></testcase>' for number in range(9))
    (root / "extra_junit" / "a.xml").write_text(f"<testsuite>{bad}</testsuite>")
    for at, name in enumerate(names):
        tree = NodeTree(root, name)
        for kind, code in enumerate(CODES):
            tree.case(f"odd{kind}[{name}]", Outcome.ERROR, message=f"reason {kind} on {name}")
            tree.case(f"bad{kind}[{name}]", Outcome.FAILED, findings=[finding(name, code)])
        for other in names[at + 1 :]:
            tree.pair(f"{name}/rxe0", f"{other}/rxe0", Outcome.FAILED)


def test_when_everything_is_wrong_there_is_some_of_everything(tmp_path: Path) -> None:
    everything_wrong(tmp_path, 8)
    lines = screen(tmp_path)
    assert len(lines) <= MAX_LINES
    for start in (
        *("gdrcheck ", "verdict: FAIL", "cases: ", "findings:", "failed: extra:a.xml: t0"),
        *("not measured:", "look first at:", "the failing pairs by hand", "results: "),
    ):
        assert any(line.startswith(start) for line in lines), start
    for command in ("$ gdrcheck pingpong --listen ", "$ GDRCHECK_TOKEN=TOKEN gdrcheck pingpong "):
        assert any(command in line for line in lines), command
    left = [line for line in lines if line.startswith("  and ")]
    assert len(left) == 6
    assert all("see summary.json" in line for line in left)
    assert left[0] == "  and 3 more, see summary.json: node[5-7]"
    hidden = left[1].partition("see summary.json: ")[2].split(", ")
    assert {*hidden, *codes_of(lines)} >= set(CODES)


def test_room_that_is_there_is_used(tmp_path: Path) -> None:
    write_run(tmp_path, run_spec("node1"))
    tree = NodeTree(tmp_path, "node1")
    for code in CODES[:5]:
        tree.case(f"{code}[node1]", Outcome.FAILED, findings=[finding("node1", code)])
    lines = screen(tmp_path)
    assert codes_of(lines) == list(CODES[:5])


def test_places_that_do_not_fit_are_counted(tmp_path: Path) -> None:
    names = [f"{chr(ord('a') + at % 26) * (at // 26 + 4)}-host" for at in range(60)]
    write_run(tmp_path, run_spec(*names))
    for name in names:
        NodeTree(tmp_path, name).case(f"p[{name}]", Outcome.FAILED, findings=[finding(name)])
    (line,) = [one for one in screen(tmp_path) if one.startswith("  PORT-NOT-ACTIVE")]
    assert len(line) <= MAX_WIDTH
    assert line.endswith(" more places")


def test_partners_of_one_rail_are_folded(tmp_path: Path) -> None:
    names = [f"node{number}" for number in range(1, 5)]
    write_run(tmp_path, run_spec(*names, rounds="all"))
    tree = NodeTree(tmp_path, "node1")
    for other in names[1:]:
        NodeTree(tmp_path, other)
        tree.pair("node1/rxe0", f"{other}/rxe0", Outcome.FAILED)
    lines = screen(tmp_path)
    start = lines.index("look first at:") + 1
    assert lines[start].startswith("  node1/rxe0 <-> node[2-4]/rxe0: fails; ")


def test_what_differs_between_places_is_an_example_of_one(tmp_path: Path) -> None:
    write_run(tmp_path, run_spec("node1", "node2"))
    for name, state in (("node1", "DOWN"), ("node2", "INIT")):
        NodeTree(tmp_path, name).case(
            f"p[{name}]", Outcome.FAILED, findings=[finding(name, observed=state)]
        )
    assert "    node1: observed DOWN, expected ACTIVE" in screen(tmp_path)


@pytest.mark.parametrize("there", [True, False])
def test_the_page_is_named_when_there_is_one(tmp_path: Path, there: bool) -> None:
    root = tmp_path / ("long" * 50)
    write_run(root, run_spec("node1"))
    result = merge(root, SeenStates())
    (root / REPORT_FILE).unlink(missing_ok=True)
    if there:
        (root / REPORT_FILE).write_text("")
    assert (f"page: {root}/report.html" in text(result, root).splitlines()) is there


def test_commands_are_whole_however_long(tmp_path: Path) -> None:
    first, second = f"a{'x' * 120}", f"b{'y' * 120}"
    write_run(tmp_path, run_spec(first, second))
    tree = NodeTree(tmp_path, first)
    NodeTree(tmp_path, second)
    tree.pair(f"{first}/rxe0", f"{second}/rxe0", Outcome.FAILED)
    (line,) = [one for one in screen(tmp_path) if "GDRCHECK_TOKEN=" in one]
    assert line.endswith("-d rxe0 --modes host-host --operations SEND")


# --- any summary ----------------------------------------------------------------------------------

HOSTILE = "n\x1b[2J\n\u202e\U0001f4a5]]>" + 300 * "x"
MANY_CODES = list(ENTRIES_BY_CODE)[:60]


@pytest.fixture
def passed(tmp_path: Path) -> Summary:
    """What a run says in which nothing is wrong."""
    two_nodes(tmp_path)
    fill(tmp_path)
    found = merge(tmp_path, SeenStates())
    assert found.verdict is Verdict.PASS
    return found


def entry(
    code: str,
    node: str = "node1",
    outcome: Outcome = Outcome.FAILED,
    severity: Severity = Severity.FAIL,
    waived_until: str | None = None,
) -> SummaryFinding:
    """A finding, as the summary has it."""
    found = finding(node, code).model_copy(update={"severity": severity})
    return SummaryFinding(
        case=f"c[{node}]", outcome=outcome, finding=found, waived_until=waived_until
    )


def test_a_pass_is_short(passed: Summary, tmp_path: Path) -> None:
    title, verdict, cases, results = text(passed, tmp_path).splitlines()
    assert title.startswith("gdrcheck ")
    assert verdict == "verdict: PASS"
    assert cases.startswith("cases: ")
    assert results.startswith("results: ")


def test_what_lessens_the_result_is_said_first(passed: Summary, tmp_path: Path) -> None:
    waiver = Waiver(code="PORT-GID-NONE", where="node1/*", reason="known", until=date(2027, 1, 1))
    lessened = passed.model_copy(
        update={
            "check_mode": True,
            "emulated": True,
            "software_rdma": True,
            "limited_to": "node1,node2",
            "waivers": (waiver,),
        }
    )
    title, *lines = text(lessened, tmp_path).splitlines()
    assert "limited to node1,node2" in title
    assert lines[:3] == ["check mode: nothing measured", EMULATED, SOFT_ROCE]
    assert "waivers used: 1 (PORT-GID-NONE at node1/* until 2027-01-01: known)" in lines


def test_what_fails_the_run_comes_first_and_of_that_what_has_most_places(
    passed: Summary, tmp_path: Path
) -> None:
    mixed = passed.model_copy(
        update={
            "findings": (
                entry("PORT-GID-NONE", waived_until="2027-01-01"),
                entry("GPU-MISSING", severity=Severity.WARN),
                entry("RUN-LOCKED", outcome=Outcome.ERROR),
                entry("HOST-MEMLOCK-LIMIT"),
                *(entry("PORT-NOT-ACTIVE", f"node{number}") for number in (1, 2)),
            )
        }
    )
    lines = text(mixed, tmp_path).splitlines()
    assert codes_of(lines) == [
        *("PORT-NOT-ACTIVE", "HOST-MEMLOCK-LIMIT", "RUN-LOCKED", "GPU-MISSING", "PORT-GID-NONE"),
    ]
    assert any(line.startswith("  GPU-MISSING (warning): ") for line in lines)
    assert any(line.startswith("  PORT-GID-NONE (waived): ") for line in lines)


@pytest.mark.parametrize("page", [True, False])
def test_a_thousand_bad_nodes_fit_on_one_screen(
    passed: Summary, tmp_path: Path, page: bool
) -> None:
    if page:
        (tmp_path / REPORT_FILE).write_text("")
    names = [
        f"{HOSTILE}{number}" if number % 10 == 0 else f"gpu{number:04d}" for number in range(1000)
    ]
    nodes = dict.fromkeys(names, passed.nodes["node1"])
    awful = passed.model_copy(
        update={
            "check_mode": True,
            "emulated": True,
            "software_rdma": True,
            "limited_to": HOSTILE,
            "verdict": Verdict.FAIL,
            "reasons": (HOSTILE, HOSTILE),
            "nodes": nodes,
            "findings": tuple(
                entry(MANY_CODES[at % len(MANY_CODES)], name) for at, name in enumerate(names)
            ),
            "failed_without_finding": tuple(
                SummaryFailure(suite="extra:a.xml", case=name * 9, message=HOSTILE)
                for name in names
            ),
            "unmeasured": tuple(
                SummaryCase(
                    case=f"c{at % 60}[{name}]", outcome=Outcome.ERROR, reason=f"reason {at % 60}"
                )
                for at, name in enumerate(names)
            ),
            "suspects": tuple(
                Suspect(place=(f"{name}/r0", "b/r0"), reason=f"fails {at}", cases=())
                for at, name in enumerate(names)
            ),
            "reproduce": (
                Reproduction(
                    places=("a/r0", "b/r0"), cases=1, listener="l", caller="c", differs=(HOSTILE,)
                ),
            )
            * MAX_REPRODUCTIONS,
        }
    )
    lines = text(awful, tmp_path).splitlines()
    assert len(lines) <= MAX_LINES
    assert all(line.isprintable() for line in lines)
    assert all(len(line) <= MAX_NAME for line in lines)
    last = str(tmp_path / REPORT_FILE if page else tmp_path / "junit.xml")
    assert any(last in line for line in lines[-2:])
    left = [line for line in lines if line.startswith("  and ")]
    assert len(left) == 5
    file = REPORT_FILE if page else "summary.json"
    shown = len(codes_of(lines))
    assert left[0].startswith(f"  and {len(MANY_CODES) - shown} more kinds, see {file}: ")
    assert any("or more pairs" in line for line in left)


def test_nodes_without_results_come_first_and_are_never_left_out(
    passed: Summary, tmp_path: Path
) -> None:
    def lost(node: str, reason: str, waived_until: str | None = None) -> SummaryFinding:
        one = entry("RUN-NO-RESULT", node, Outcome.ERROR, waived_until=waived_until)
        told = one.finding.model_copy(update={"observed": reason})
        return one.model_copy(update={"finding": told})

    away = "unreachable: ssh: connect: no route to host"
    many = [entry(code) for code in MANY_CODES if code != "RUN-NO-RESULT"]
    awful = passed.model_copy(
        update={
            "findings": (
                *many,
                lost("node23", "timed out: no result after 1800 s"),
                lost("node28", f"no result: {away}"),
                lost("node29", f"no result: {away}"),
                lost("node30", "known", "2027-01-01"),
            )
        }
    )
    lines = text(awful, tmp_path).splitlines()
    assert len(lines) <= MAX_LINES
    start = lines.index("no result, or not all of it (gdrcheck explain RUN-NO-RESULT):")
    assert lines[start + 1 : start + 4] == [
        "  node23: timed out: no result after 1800 s",
        f"  node[28-29]: {away}",
        "findings:",
    ]
    assert not any("node30" in line for line in lines[: start + 4])


def test_what_is_blocked_comes_after_what_could_not_be_measured(
    passed: Summary, tmp_path: Path
) -> None:
    half = passed.model_copy(
        update={
            "unmeasured": (
                SummaryCase(case="a[node1]", outcome=Outcome.BLOCKED, reason="", blocked_by="X"),
                SummaryCase(case="b[node1]", outcome=Outcome.ERROR, reason="it hung"),
            )
        }
    )
    lines = text(half, tmp_path).splitlines()
    start = lines.index("not measured:") + 1
    assert lines[start : start + 2] == ["  error b[node1]: it hung", "  blocked a[node1]: by X"]


def test_a_reason_is_worth_more_than_the_names_of_nodes(passed: Summary, tmp_path: Path) -> None:
    names = [f"node{number}" for number in range(1, 100, 3)]
    reason = "PORT-NOT-ACTIVE at node0038/mlx5_5"
    blocked = passed.model_copy(
        update={
            "nodes": dict.fromkeys(names, passed.nodes["node1"]),
            "unmeasured": tuple(
                SummaryCase(
                    case=f"pingpong[{name}/gpu5/mlx5_5 -> node38/gpu5/mlx5_5, host-host, SEND]",
                    outcome=Outcome.BLOCKED,
                    reason="",
                    blocked_by=reason,
                )
                for name in names
            ),
        }
    )
    (line,) = [one for one in text(blocked, tmp_path).splitlines() if "pingpong" in one]
    assert line.endswith(f" and {len(names) - 1} like it: by {reason}")
