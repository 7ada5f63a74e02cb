"""Made-up runs, on which benchmarks rely: whole when nobody is bad, and bad nodes are found."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from benchmarks import made_up, scale
from gdrcheck.outcome import Verdict
from gdrcheck.results.merge import merge
from gdrcheck.results.summary import Summary

RAIL = f"gpu{made_up.SICK_RAIL}/mlx5_{made_up.SICK_RAIL}"


def places(summary: Summary, code: str) -> set[str]:
    return {one.finding.where.alone for one in summary.findings if one.finding.code == code}


def test_a_run_of_healthy_nodes_lacks_nothing(tmp_path: Path) -> None:
    made_up.write(tmp_path / "run", 3, "all")
    summary = merge(tmp_path / "run", None)
    assert summary.verdict is Verdict.PASS
    assert summary.reasons == ()


@pytest.mark.parametrize("wide", [False, True])
def test_each_way_to_be_bad_is_found_where_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wide: bool
) -> None:
    monkeypatch.setattr(made_up, "ONE_BAD_OF", 2)
    spec = made_up.write(tmp_path / "run", 12, wide=wide)
    sick = made_up.sick_nodes([node.name for node in spec.nodes])
    assert list(sick.values()) == list(made_up.SICKNESSES)
    node = {sickness: name for name, sickness in sick.items()}
    summary = merge(tmp_path / "run", None)
    assert summary.verdict is Verdict.FAIL
    found = {
        "GPU-ECC-UNCORRECTABLE": {f"{node['ecc']}/gpu{made_up.SICK_RAIL}"},
        "PORT-NOT-ACTIVE": {f"{node['port down']}/mlx5_{made_up.SICK_RAIL}"},
        "PAIR-BANDWIDTH-LOW": {f"{node['slow NIC']}/{RAIL}"},
        "PAIR-GPU-WRITE": {f"{node['wrong data']}/{RAIL}"},
        "RUN-NO-RESULT": {node["died"], node["unreachable"]},
    }
    assert {code: places(summary, code) for code in found} == found
    incomplete = {name for name, one in summary.nodes.items() if not one.complete}
    assert incomplete == {node["died"], node["unreachable"]}


def run(nodes: int, **changes: object) -> scale.Merged:
    values = {
        "nodes": nodes,
        "cases": nodes * 1000,
        "verdict": "PASS",
        "wall_s": 1.0,
        "cpu_s": nodes * 0.1,
        "most_bytes": 1 << 20,
        "sizes_bytes": {},
    }
    return scale.Merged(**(values | changes))  # type: ignore[arg-type]


def test_bars_that_are_held() -> None:
    assert scale.missed([run(10), run(100), run(1000)]) == []


@pytest.mark.parametrize(
    "change", [{"wall_s": 61.0}, {"most_bytes": 2 << 30}, {"cpu_s": 1000 * 0.21}]
)
def test_a_bar_that_is_missed_is_told(change: dict[str, object]) -> None:
    (problem,) = scale.missed([run(10), run(1000, **change)])
    assert "1000" in problem


def test_a_case_of_a_large_wide_run_costs_no_more_than_one_of_a_small_one() -> None:
    few, many = run(10, cases=100_000), run(1000, cases=100_000_000)
    assert scale.missed([few, many], wide=True) == []
    (problem,) = scale.missed([few, run(1000, cases=1_000_000)], wide=True)
    assert "case of 1000" in problem


def test_times_are_medians_and_memory_is_the_most_of_several_merges() -> None:
    runs = [run(10, wall_s=wall_s, most_bytes=int(wall_s)) for wall_s in (3.0, 9.0, 2.0)]
    found = scale.middle(runs)
    assert (found.wall_s, found.most_bytes) == (3.0, 9)


def test_the_memory_of_a_process_holds_that_of_its_children() -> None:
    idle = "import sys; sys.stdin.read()"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {idle!r}])"
    with subprocess.Popen([sys.executable, "-c", parent], stdin=subprocess.PIPE) as process:
        deadline_s = time.monotonic() + 30
        children: list[str] = []
        while not children and time.monotonic() < deadline_s:
            children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        child_bytes = scale.resident_bytes(int(children[0]))
        alone = int(Path(f"/proc/{process.pid}/statm").read_text().split()[1]) * scale.PAGE_BYTES
        both = scale.resident_bytes(process.pid)
        process.communicate()
    assert child_bytes > 0
    assert both > alone
    assert scale.resident_bytes(process.pid) == 0
