"""A run against an earlier one: what is worse, and what is not, by cases and devices."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdrcheck.outcome import InputError, Outcome, Verdict
from gdrcheck.results.compare import compare
from gdrcheck.results.compare_model import Comparison
from gdrcheck.results.compare_text import lines
from gdrcheck.results.data import KINDS
from gdrcheck.results.summary import SummaryCase
from tests.results.compared import OLD_ID, Made, Pair, finding

SLOT_A, SLOT_B, SLOT_C = "0000:1a:00.0", "0000:2a:00.0", "0000:3a:00.0"
PORT = "port_active[node1/mlx5_0]"


def compared(old: Made, new: Made) -> Comparison:
    return compare(old.but(run_id=OLD_ID).build(), new.build(), "old", "new")


def node1(**kinds: str) -> dict[str, dict[str, str]]:
    """Cases of node1 by check."""
    return {"node1": {f"{check}[node1]": kind for check, kind in kinds.items()}}


def text(comparison: Comparison) -> str:
    return "\n".join(lines(comparison))


# --- cases --------------------------------------------------------------------------------------


def test_a_run_like_the_old_one_is_no_worse() -> None:
    found = compared(Made(), Made())
    assert (found.exit_code, found.reasons, found.same_kind) == (0, (), 4)
    assert "NEW is no worse than OLD" in text(found)


def test_a_case_that_fails_now_is_worse_and_says_what_was_seen() -> None:
    bad = Made(cases={"node1": {PORT: "failed"}}, findings={PORT: finding("node1", nic="mlx5_0")})
    found = compared(Made(), bad)
    (change,) = found.newly_failing
    assert (change.case, change.was, change.now, change.codes) == (
        PORT,
        "passed",
        "failed",
        ("PORT-NOT-ACTIVE",),
    )
    assert found.exit_code == 1
    assert "1 case newly failing" in found.reasons
    assert "PORT-NOT-ACTIVE" in text(found)
    assert "observed DOWN, expected ACTIVE" in text(found)


@pytest.mark.parametrize("was", [kind for kind in KINDS if kind != "failed"])
def test_whatever_it_was_before_failing_is_worse(was: str) -> None:
    assert compared(Made(cases=node1(x=was)), Made(cases=node1(x="failed"))).newly_failing


@pytest.mark.parametrize("now", ["error", "blocked"])
@pytest.mark.parametrize("was", ["passed", "skipped", "not judged", "waived", "warned"])
def test_what_is_no_longer_measured_is_worse(was: str, now: str) -> None:
    found = compared(Made(cases=node1(x=was)), Made(cases=node1(x=now)))
    assert [change.worse for change in found.no_longer_measured] == [True]
    assert found.exit_code == 1


@pytest.mark.parametrize("now", ["skipped", "not judged"])
@pytest.mark.parametrize("was", ["passed", "waived", "warned"])
def test_what_is_no_longer_judged_is_worse(was: str, now: str) -> None:
    found = compared(Made(cases=node1(x=was)), Made(cases=node1(x=now)))
    assert [change.worse for change in found.no_longer_judged] == [True]
    assert found.exit_code == 1


@pytest.mark.parametrize("now", ["error", "blocked", "skipped", "not judged"])
def test_a_failure_that_is_not_measured_now_is_told_but_neither_worse_nor_fixed(now: str) -> None:
    found = compared(Made(cases=node1(x="failed")), Made(cases=node1(x=now)))
    assert len(found.no_longer_measured + found.no_longer_judged) == 1
    assert found.fixed == ()
    assert found.exit_code == 0


@pytest.mark.parametrize("was", ["failed", "error", "blocked"])
def test_what_passes_now_is_fixed(was: str) -> None:
    found = compared(Made(cases=node1(x=was)), Made(cases=node1(x="passed")))
    assert [change.case for change in found.fixed] == ["x[node1]"]
    assert found.exit_code == 0


@pytest.mark.parametrize("now", ["waived", "warned"])
def test_an_excuse_is_told(now: str) -> None:
    found = compared(Made(cases=node1(x="failed")), Made(cases=node1(x=now)))
    assert [change.now for change in found.now_excused] == [now]
    assert found.fixed == ()


@pytest.mark.parametrize(("was", "now"), [("skipped", "not judged"), ("error", "blocked")])
def test_two_ways_to_say_that_nothing_is_known_are_the_same(was: str, now: str) -> None:
    found = compared(Made(cases=node1(x=was)), Made(cases=node1(x=now)))
    assert found.exit_code == 0
    assert not found.no_longer_measured + found.no_longer_judged


def test_a_case_that_vanished_from_a_node_of_both_runs_is_worse() -> None:
    found = compared(Made(), Made(cases={"node1": {PORT: ""}}))
    assert [(change.case, change.now) for change in found.vanished] == [(PORT, "absent")]
    assert found.exit_code == 1


def test_cases_of_a_node_that_is_not_in_the_new_run_are_no_loss() -> None:
    found = compared(Made(), Made(nodes=["node1"]))
    assert (found.exit_code, found.vanished, found.nodes_only_old) == (0, (), ("node2",))
    assert "only in OLD: node2" in text(found)
    assert "NEW has no node2: nothing of what OLD says there was compared" in found.notes


def test_a_node_that_is_new_and_fails_is_worse() -> None:
    new = Made(nodes=["node1", "node2", "node3"], cases={"node3": {"os[node3]": "failed"}})
    assert [change.was for change in compared(Made(), new).newly_failing] == ["absent"]


def test_a_case_that_is_new_and_was_not_measured_is_worse() -> None:
    assert compared(Made(), Made(cases=node1(results_readable="error"))).exit_code == 1


def test_results_of_other_tools_may_come_and_go_but_not_fail() -> None:
    tool = Made(cases={"extra:nccl.xml": {"all_reduce[node1/mlx5_0]": "passed"}})
    broken = Made(cases={"extra:nccl.xml": {"all_reduce[node1/mlx5_0]": "failed"}})
    gone = compared(tool, Made())
    assert (gone.exit_code, len(gone.vanished)) == (0, 1)
    assert compared(tool, broken).exit_code == 1


def test_a_comparison_that_fails_at_another_place_fails_anew() -> None:
    case = "mtu_agrees[rail0]"

    def at(node: str) -> Made:
        return Made(
            cases={"fleet": {case: "failed"}}, findings={case: finding(node, "PORT-MTU-DIFFERS")}
        )

    assert compared(at("node1"), at("node1")).exit_code == 0
    moved = compared(at("node1"), at("node2"))
    assert moved.exit_code == 1
    assert "PORT-MTU-DIFFERS at node2" in moved.newly_failing[0].observed


def test_a_case_that_fails_for_another_reason_is_told() -> None:
    def of(code: str) -> Made:
        return Made(
            cases={"node1": {PORT: "failed"}}, findings={PORT: finding("node1", code, nic="mlx5_0")}
        )

    found = compared(of("PORT-NOT-ACTIVE"), of("PORT-RATE"))
    assert [change.codes for change in found.fails_differently] == [("PORT-RATE",)]
    assert (found.exit_code, found.still_failing) == (0, 1)


def test_a_verdict_that_is_worse_is_worse_whatever_the_cases_say() -> None:
    found = compared(Made(), Made(verdict=Verdict.INCOMPLETE))
    assert found.reasons == ("the verdict is INCOMPLETE, it was PASS",)


def test_a_run_compared_with_itself_is_no_worse_and_that_is_said() -> None:
    found = compared(Made(), Made(run_id=OLD_ID))
    assert (found.exit_code, found.same_kind) == (0, 4)
    assert f"both are run {OLD_ID}: compared with itself" in found.notes


def test_a_run_that_was_merged_anew_is_not_compared_with_itself() -> None:
    found = compared(Made(), Made(run_id=OLD_ID, cases=node1(x="passed")))
    (note,) = found.notes
    assert note.startswith(f"both are called run {OLD_ID}, but they differ")


def test_no_worse_says_what_is_wrong_all_the_same() -> None:
    bad = Made(cases={"node1": {PORT: "failed", "x[node1]": "error"}})
    assert (
        "result: NEW is no worse than OLD "
        "(NEW is FAIL: 1 case failing in both, 1 case measured in neither)"
    ) in lines(compared(bad, bad))
    assert "result: NEW is no worse than OLD" in lines(compared(Made(), Made()))


def test_what_the_fleet_says_of_a_node_that_is_gone_has_not_vanished() -> None:
    old = Made(cases={"fleet": {"every_node_reported[node2]": "passed", "fleet_x[a]": "passed"}})
    found = compared(old, Made(nodes=["node1"]))
    assert [change.case for change in found.vanished] == ["fleet_x[a]"]


@pytest.mark.parametrize("kind", ["error", "blocked"])
def test_what_was_not_measured_in_either_run_is_told(kind: str) -> None:
    found = compared(Made(cases=node1(x="error")), Made(cases=node1(x=kind)))
    assert (found.exit_code, found.still_unmeasured) == (0, 1)
    assert "1 of them not measured" in text(found)


@pytest.mark.parametrize("was", ["waived", "warned"])
def test_what_needs_no_excuse_any_more_is_fixed(was: str) -> None:
    found = compared(Made(cases=node1(x=was)), Made(cases=node1(x="passed")))
    assert [change.was for change in found.fixed] == [was]


@pytest.mark.parametrize("was", ["skipped", "not judged"])
def test_what_is_judged_for_the_first_time_is_told(was: str) -> None:
    found = compared(Made(cases=node1(x=was)), Made(cases=node1(x="passed")))
    assert (found.newly_judged, found.same_kind, found.fixed) == (1, 4, ())
    assert "1 judged for the first time" in text(found)


@given(st.sampled_from(KINDS), st.sampled_from([*KINDS, ""]))
def test_each_case_is_counted_in_one_place(was: str, now: str) -> None:
    found = compared(Made(cases=node1(x=was)), Made(cases=node1(x=now)))
    told = (
        *found.newly_failing,
        *found.no_longer_measured,
        *found.no_longer_judged,
        *found.vanished,
        *found.now_excused,
        *found.fixed,
    )
    assert len(told) + found.same_kind + found.newly_judged == 5


@given(st.dictionaries(st.sampled_from("abcdefgh"), st.sampled_from(KINDS), min_size=1))
def test_nothing_is_worse_than_itself(kinds: dict[str, str]) -> None:
    made = Made(cases=node1(**kinds))
    assert compared(made, made).exit_code == 0


@given(
    st.sampled_from(["passed", "waived", "warned"]),
    st.sampled_from(["failed", "error", "blocked", "skipped", "not judged", ""]),
)
def test_what_was_good_and_is_not_is_worse(was: str, now: str) -> None:
    assert compared(Made(cases=node1(x=was)), Made(cases=node1(x=now))).exit_code == 1


def test_a_pass_that_is_incomplete_now_is_worse_and_says_of_what() -> None:
    found = compared(Made(), Made(cases={"node2": {"os[node2]": "blocked"}}))
    assert (found.old.verdict, found.new.verdict) == (Verdict.PASS, Verdict.INCOMPLETE)
    assert found.exit_code == 1
    assert "the verdict is INCOMPLETE, it was PASS" in found.reasons
    assert "os at node2: passed -> blocked" in text(found)


def test_what_blocks_a_case_is_told() -> None:
    new = Made(cases={"node2": {"os[node2]": "blocked"}}).build()
    why = SummaryCase(
        case="os[node2]", outcome=Outcome.BLOCKED, reason="", blocked_by="PORT-NOT-ACTIVE at node2"
    )
    summary = new.summary.model_copy(update={"unmeasured": (why,)})
    new = new.model_copy(update={"summary": summary})
    found = compare(Made(run_id=OLD_ID).build(), new, "old", "new")
    assert "os at node2: passed -> blocked by PORT-NOT-ACTIVE at node2" in text(found)


def test_another_version_of_gdrcheck_is_told() -> None:
    old, new = Made(run_id=OLD_ID).build(), Made().build()
    summary = new.summary.model_copy(update={"gdrcheck_version": "9.0.0"})
    found = compare(old, new.model_copy(update={"summary": summary}), "old", "new")
    assert "gdrcheck: 0.1.0 -> 9.0.0" in text(found)
    assert found.exit_code == 0


# --- pairs --------------------------------------------------------------------------------------

ONE_TWO = Pair("node1/gpu0/mlx5_0", "node2/gpu0/mlx5_0")
TWO_THREE = Pair("node2/gpu0/mlx5_0", "node3/gpu0/mlx5_0")
THREE = ("node1", "node2", "node3")


def test_a_pair_that_fails_now_is_worse() -> None:
    bad = Made(pairs=[ONE_TWO, Pair(ONE_TWO.sink, ONE_TWO.source, "failed")])
    found = compared(Made(pairs=[ONE_TWO, Pair(ONE_TWO.sink, ONE_TWO.source)]), bad)
    assert [change.case for change in found.newly_failing] == [
        "bandwidth[node2/gpu0/mlx5_0 -> node1/gpu0/mlx5_0, gpu-gpu, WRITE]"
    ]


def test_a_pair_that_the_new_schedule_has_not_is_no_loss() -> None:
    old = Made(nodes=THREE, pairs=[ONE_TWO, TWO_THREE])
    found = compared(old, Made(nodes=THREE, pairs=[ONE_TWO]))
    assert (found.exit_code, found.unscheduled_pairs) == (0, 1)
    assert "pairs of OLD that NEW does not plan: 1" in text(found)


def test_a_case_that_vanished_from_a_pair_of_both_runs_is_worse() -> None:
    latency = Pair(ONE_TWO.source, ONE_TWO.sink, check="latency", operation="SEND")
    found = compared(Made(pairs=[ONE_TWO, latency]), Made(pairs=[ONE_TWO]))
    assert len(found.vanished) == 1
    assert found.exit_code == 1


def test_a_pair_that_nobody_reported_is_worse() -> None:
    missing = Pair("node1", "node2", "error", check="pair_measured", mode=None, operation=None)
    found = compared(Made(pairs=[ONE_TWO]), Made(pairs=[missing]))
    assert [change.case for change in found.no_longer_measured] == ["pair_measured[node1 -> node2]"]
    assert len(found.vanished) == 1


# --- devices ------------------------------------------------------------------------------------


def rails(**devices: str | None) -> Made:
    """node1 with these devices, and a case and a pair for each NIC."""
    nics = [name for name in devices if not name.startswith("gpu")]
    return Made(
        cases={"node1": {PORT: "", **{f"port_rate[node1/{nic}]": "passed" for nic in nics}}},
        pairs=[Pair(f"node1/{nic}", "node2/mlx5_0") for nic in nics],
        devices={"node1": devices},
    )


def test_a_device_that_was_renamed_is_the_same_device() -> None:
    found = compared(rails(mlx5_0=SLOT_A), rails(mlx5_2=SLOT_A))
    assert (found.exit_code, found.appeared, found.vanished) == (0, 0, ())
    (device,) = found.devices
    assert (device.old, device.new, device.slot) == ("mlx5_0", "mlx5_2", SLOT_A)
    assert "node1: mlx5_0 is mlx5_2" in text(found)


def test_two_devices_that_swapped_names_are_told_apart() -> None:
    new = rails(mlx5_0=SLOT_B, mlx5_1=SLOT_A)
    new = new.but(cases={"node1": {**new.cases["node1"], "port_rate[node1/mlx5_0]": "failed"}})
    (change,) = compared(rails(mlx5_0=SLOT_A, mlx5_1=SLOT_B), new).newly_failing
    assert (change.case, change.old_case) == ("port_rate[node1/mlx5_0]", "port_rate[node1/mlx5_1]")


def test_a_device_that_is_gone_is_not_the_one_that_took_its_name() -> None:
    found = compared(rails(mlx5_0=SLOT_A, mlx5_1=SLOT_B), rails(mlx5_0=SLOT_B))
    assert [(one.old, one.new) for one in found.devices] == [("mlx5_0", None), ("mlx5_1", "mlx5_0")]
    assert {change.case for change in found.vanished} == {
        "port_rate[node1/mlx5_0]",
        "bandwidth[node1/mlx5_0 -> node2/mlx5_0, gpu-gpu, WRITE]",
    }
    assert found.exit_code == 1


def test_a_renamed_device_that_fails_now_is_told_by_both_names() -> None:
    new = rails(mlx5_2=SLOT_A)
    new = new.but(cases={"node1": {PORT: "", "port_rate[node1/mlx5_2]": "failed"}})
    found = compared(rails(mlx5_0=SLOT_A), new)
    assert "port_rate at node1/mlx5_2 (was node1/mlx5_0): passed -> failed" in text(found)


def test_gpus_that_were_numbered_anew_keep_their_cases() -> None:
    def run(first: str, second: str, bad: str) -> Made:
        cases = {f"gpu_ecc[node1/{name}]": "passed" for name in ("gpu0", "gpu1")}
        return Made(
            cases={"node1": {**cases, f"gpu_ecc[node1/{bad}]": "failed"}},
            devices={"node1": {"gpu0": first, "gpu1": second}},
        )

    same = compared(run(SLOT_A, SLOT_B, "gpu0"), run(SLOT_B, SLOT_A, "gpu1"))
    assert (same.exit_code, same.still_failing, same.fixed) == (0, 1, ())
    other = compared(run(SLOT_A, SLOT_B, "gpu0"), run(SLOT_B, SLOT_A, "gpu0"))
    assert (other.exit_code, len(other.newly_failing), len(other.fixed)) == (1, 1, 1)


def test_buses_that_were_numbered_anew_leave_the_names() -> None:
    found = compared(rails(mlx5_0=SLOT_A), rails(mlx5_0=SLOT_C))
    assert (found.exit_code, found.devices) == (0, ())


def test_devices_without_a_slot_are_known_by_their_names() -> None:
    assert compared(rails(rxe0=None), rails(rxe0=None)).devices == ()


def test_a_node_that_sent_no_facts_renames_nothing() -> None:
    found = compared(rails(mlx5_0=SLOT_A), rails(mlx5_0=SLOT_A).but(devices={}))
    assert found.devices == ()


def test_gpus_are_known_by_their_slots() -> None:
    old = Made(cases=node1(x="passed")).but(devices={"node1": {"gpu0": SLOT_A, "gpu1": SLOT_B}})
    new = old.but(devices={"node1": {"gpu0": SLOT_B}})
    assert [(one.old, one.new) for one in compared(old, new).devices] == [
        ("gpu0", None),
        ("gpu1", "gpu0"),
    ]


# --- versions -----------------------------------------------------------------------------------


def test_versions_that_changed_alike_are_told_once() -> None:
    old = Made(versions={name: {"kernel": "6.8", "os": "x"} for name in ("node1", "node2")})
    new = Made(versions={name: {"kernel": "6.9", "os": "x"} for name in ("node1", "node2")})
    (version,) = compared(old, new).versions
    assert (version.name, version.old, version.new) == ("kernel", "6.8", "6.9")
    assert "kernel: 6.8 -> 6.9 on node[1-2]" in text(compared(old, new))


def test_a_renamed_device_is_no_change_of_a_version() -> None:
    def node(device: str) -> Made:
        return Made(
            devices={"node1": {device: SLOT_A}},
            versions={"node1": {"NIC firmware": f"28.39 (28.38 at {device})"}},
        )

    assert compared(node("mlx5_0"), node("mlx5_2")).versions == ()


# --- what cannot be compared --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("new", "why"),
    [
        (Made(emulated=True), "NEW is EMULATED, OLD is not"),
        (Made(software_rdma=True), "NEW is SOFT-ROCE, OLD is not"),
        (Made(check_mode=True), "NEW is check mode"),
        (Made(nodes=["other"]), "no node in common"),
        (
            Made(
                cases={
                    name: {f"os[{name}]": "error", f"port_active[{name}/mlx5_0]": "blocked"}
                    for name in ("node1", "node2")
                }
            ),
            "no case that both measured",
        ),
    ],
)
def test_runs_that_say_nothing_of_each_other_are_refused(new: Made, why: str) -> None:
    with pytest.raises(InputError, match=why):
        compared(Made(), new)


def test_two_runs_of_check_mode_are_no_comparison() -> None:
    with pytest.raises(InputError, match="both are of check mode: nothing was measured"):
        compared(Made(check_mode=True), Made(check_mode=True))


def test_many_checks_are_told_in_short_unless_all_are_asked_for() -> None:
    new = Made(cases=node1(**{f"x{number}": "failed" for number in range(20)}))
    found = compared(Made(), new)
    assert (
        "newly failing (20): --all tells of which checks\n  20 cases of 20 checks at node1"
        in text(found)
    )
    assert sum("x1" in line for line in lines(found)) == 0
    assert sum(line.startswith("  x") for line in lines(found, None)) == 20


def test_a_node_that_vanished_from_its_pairs_is_named_once() -> None:
    ends = [(f"node{one}/mlx5_0", f"node{two}/mlx5_0") for one, two in ((1, 2), (2, 3), (3, 2))]
    pairs = [Pair(*both, check=f"c{check}") for both in ends for check in range(9)]
    bad = [Pair(*both, "error", f"c{check}") for both in ends for check in range(9)]
    found = compared(Made(nodes=THREE, pairs=pairs), Made(nodes=THREE, pairs=bad))
    assert "27 cases of 9 checks between node2 and others: passed -> error" in text(found)


def test_numbers_of_a_pair_are_one_line() -> None:
    fast = {"gbps_65536": 400.0, "gbps_1048576": 400.0, "p50_us": 2.0}
    slow = {"gbps_65536": 200.0, "gbps_1048576": 100.0, "p50_us": 2.0}
    one, other = "node1/mlx5_0", "node2/mlx5_0"
    found = compared(
        Made(pairs=[Pair(one, other, numbers=fast)]), Made(pairs=[Pair(one, other, numbers=slow)])
    )
    assert "1048576 bytes: 400 -> 100 Gb/s, 300% slower" in text(found)
    assert "and 1 more number" in text(found)
    assert len([line for line in lines(found, None) if "bytes: 400" in line]) == 2


def test_many_sections_share_one_screen_and_none_is_left_out() -> None:
    kinds = [kind for kind in KINDS if kind != "waived"]
    cases = [(was, now, f"{was[:3]}{now[:3]}{n}") for was in kinds for now in kinds for n in "abc"]
    old = {"node1": {f"{name}[node1]": was for was, _, name in cases}}
    new = {"node1": {f"{name}[node1]": now for _, now, name in cases}}
    versions = {f"v{number}": "1" for number in range(30)}
    found = compared(
        Made(cases=old, versions={"node1": versions}),
        Made(cases=new, versions={"node1": dict.fromkeys(versions, "2")}),
    )
    told = lines(found)
    assert len(told) <= 42
    assert {
        line.partition(" (")[0] for line in told if not line.startswith(" ") and "):" in line
    } == {
        *("newly failing", "not measured", "no longer judged"),
        *("now waived or a warning", "fixed", "versions"),
    }
