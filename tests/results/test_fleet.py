"""What the run as a whole owes: promises, images, waivers, pairs that nobody reported."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from gdrcheck.expect import Expect
from gdrcheck.node.process import PACKAGE_ROOT
from gdrcheck.outcome import Outcome, Verdict
from gdrcheck.profile import Gpus, Profile, Rails, Waiver
from gdrcheck.results.console import text
from gdrcheck.run import NodeSpec
from tests.node.support import profile, run_spec
from tests.results.trees import Merged, NodeTree, fill, port_down, two_nodes, write_run


def test_pair_struck_off_at_the_rendezvous(tmp_path: Path) -> None:
    write_run(tmp_path, run_spec("node1", "node2", "node3"))
    one, two, three = (NodeTree(tmp_path, name) for name in ("node1", "node2", "node3"))
    for tree in (one, two, three):
        tree.case(f"port[{tree.node}]")
    one.rendezvous(["node1", "node2"], node3="lost")
    one.both_ways("node2")
    merged = Merged(tmp_path)
    kind, message = merged.result("pair_measured[node1 -> node3]") or ("", "")
    assert kind == "Error"
    assert "node3 was lost at the rendezvous: no sign of life" in message
    assert "pair_measured[node3 -> node2]" in merged.cases
    assert "pair_measured[node1 -> node2]" not in merged.cases


def test_one_direction_alone_is_not_enough(tmp_path: Path) -> None:
    write_run(tmp_path, run_spec("node1", "node2"))
    one, two = NodeTree(tmp_path, "node1"), NodeTree(tmp_path, "node2")
    two.case("port[node2]")
    one.pair("node1/rxe0", "node2/rxe0")
    merged = Merged(tmp_path)
    assert "pair_measured[node2 -> node1]" in merged.cases
    assert merged.verdict is Verdict.INCOMPLETE


def test_pair_without_any_reason_is_an_error(tmp_path: Path) -> None:
    write_run(tmp_path, run_spec("node1", "node2"))
    for name in ("node1", "node2"):
        NodeTree(tmp_path, name).case(f"port[{name}]")
    merged = Merged(tmp_path)
    assert merged.cases["pair_measured[node1 -> node2]"].result[0].type == "error"
    assert merged.result("pairs_measured[fleet]") == ("Error", "measured no pair")


def test_one_node_measures_no_pair(tmp_path: Path) -> None:
    write_run(tmp_path, run_spec("node1", limited_to="node1"))
    NodeTree(tmp_path, "node1").case("port[node1]")
    merged = Merged(tmp_path)
    assert merged.verdict is Verdict.INCOMPLETE
    assert "limited to node1" in text(merged.summary, tmp_path)


def test_one_node_with_pairs_none_can_pass(tmp_path: Path) -> None:
    write_run(tmp_path, run_spec("node1", profiles={"soft": profile(pairs="none")}))
    NodeTree(tmp_path, "node1").case("port[node1]")
    merged = Merged(tmp_path)
    assert merged.verdict is Verdict.PASS
    assert merged.result("pairs_measured[fleet]") == ("Skipped", "the profile says pairs: none")


def test_nothing_measured_is_not_a_pass(tmp_path: Path) -> None:
    write_run(tmp_path, run_spec("node1", profiles={"soft": profile(pairs="none")}))
    NodeTree(tmp_path, "node1").case("rate[node1]", Outcome.NOT_JUDGED, message="12 Gb/s")
    fill(tmp_path, Outcome.NOT_JUDGED)
    merged = Merged(tmp_path)
    assert merged.verdict is Verdict.INCOMPLETE
    assert merged.summary.reasons[-1] == "nothing was measured"


def test_profile_that_promises_too_little(tmp_path: Path) -> None:
    two_nodes(tmp_path)
    rails = Rails.model_validate({"count": 1, "nics": [{"name": "rxe*"}]})
    spec = run_spec("node1", "node2", profiles={"soft": profile(rails=rails)})
    (tmp_path / "run.json").write_text(spec.model_dump_json())
    merged = Merged(tmp_path)
    assert merged.verdict is Verdict.INCOMPLETE
    _, message = merged.result("profile_promises_enough[soft]") or ("", "")
    assert message == "profile promises too little: rails.port_rate_gbps, rails.link_layer"


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"cross_rail": "required"}, "cross_rail: required"),
        ({"cross_rail": "absent"}, "cross_rail: absent"),
        ({"registration": "dmabuf"}, "no GPU is promised whose memory could be registered"),
        ({"matrix": "full"}, "no GPU is promised whose memory could be registered"),
        ({"modes": "all"}, "no GPU is promised whose memory could be registered or moved (modes"),
        ({"pairs": "none", "factors": {"nic_limited": 0.99}}, "pairs: none, so nothing is moved"),
        ({"pairs": "none", "latency_limit_us": 5.0}, "between nodes (latency_limit_us)"),
        ({"pairs": "none", "transfers": {"atomics": True}}, "between nodes (transfers.atomics)"),
    ],
)
def test_promises_that_nothing_measures(
    tmp_path: Path, changes: dict[str, object], part: str
) -> None:
    two_nodes(tmp_path)
    spec = run_spec("node1", "node2", profiles={"soft": profile(**changes)})
    (tmp_path / "run.json").write_text(spec.model_dump_json())
    merged = Merged(tmp_path)
    assert merged.verdict is Verdict.INCOMPLETE
    assert part in (merged.result("promises_measured[soft]") or ("", ""))[1]


def test_what_is_measured_of_gpus_and_of_speed_is_no_empty_promise(tmp_path: Path) -> None:
    promises = profile(
        gpus=Gpus(count=1, model="H200"),
        registration="both",
        matrix="full",
        modes="all",
        factors={"nic_limited": 0.99},
        latency_limit_us=5.0,
        transfers={"atomics": True},
    )
    write_run(tmp_path, run_spec("node1", "node2", profiles={"soft": promises}))
    one, two = NodeTree(tmp_path, "node1"), NodeTree(tmp_path, "node2")
    two.case("port[node2]")
    one.both_ways("node2", promises=promises, gpu="gpu0")
    merged = Merged(tmp_path)
    assert merged.result("promises_measured[soft]") is None
    assert merged.verdict is Verdict.PASS


# Who judges each promise, or applies it to all transfers; those that nobody does are named above.
JUDGED = {
    "gpus": "gpu_present, cuda_starts, and the modes of pingpong",
    "registration": "gpu_memory_registers, gpu_memory_moves, and pingpong uses it",
    "matrix": "gpu_memory_registers",
    "rails": "device_present, port_rate, port_link_layer",
    "pairs": "pair_measured",
    "gid": "gid_usable, and all transfers use it",
    "traffic_class": "port_traffic_class, and all transfers use it",
    "service_level": "all transfers use it",
    "pkey": "port_partition, and all transfers use it",
    "path_mtu": "port_mtu, and all transfers use it",
    "modes": "latency, bandwidth and those beside them",
    "transfers": "pingpong, pingpong_far",
    "factors": "bandwidth, bandwidth_both_ways, bandwidth_all_rails",
    "latency_limit_us": "latency",
    "expect": "each key by a check of its own",
    "waivers": "waiver_current",
}


def test_no_key_of_a_profile_is_promised_without_being_judged_or_listed() -> None:
    listed = {"cross_rail"}
    assert set(Profile.model_fields) == listed | set(JUDGED)
    rules = (PACKAGE_ROOT / "gdrcheck/rules").glob("*.py")
    text = "".join(path.read_text() for path in rules)
    unread = [key for key in Expect.model_fields if f"profile.expect.{key}" not in text]
    assert unread == []


def test_different_images(tmp_path: Path) -> None:
    write_run(tmp_path, run_spec("node1", "node2"))
    one, two = NodeTree(tmp_path, "node1"), NodeTree(tmp_path, "node2", image_id="sha256:2")
    one.both_ways("node2")
    two.case("port[node2]")
    merged = Merged(tmp_path)
    assert merged.verdict is Verdict.FAIL
    assert merged.cases["same_image[fleet]"].result[0].type == "RUN-IMAGE-DIFFERS"


@pytest.mark.parametrize(("image_id", "kind"), [("1", None), ("", "Skipped")])
def test_image_ids_that_say_the_same_or_nothing(
    tmp_path: Path, image_id: str, kind: str | None
) -> None:
    write_run(tmp_path, run_spec("node1"))
    NodeTree(tmp_path, "node1", image_id=image_id).case("port[node1]")
    result = Merged(tmp_path).result("same_image[fleet]")
    assert (result[0] if result else None) == kind


def waiver(until: str, where: str = "node1/*") -> Waiver:
    """The owner accepts a port that is down."""
    return Waiver(
        code="PORT-NOT-ACTIVE", where=where, reason="spare port", until=date.fromisoformat(until)
    )


@pytest.mark.parametrize(
    ("one", "verdict"),
    [
        (waiver("2026-01-02"), Verdict.PASS),
        (waiver("2026-01-01"), Verdict.FAIL),
        (waiver("2026-01-02", "node2/*"), Verdict.FAIL),
    ],
)
def test_waivers(tmp_path: Path, one: Waiver, verdict: Verdict) -> None:
    tree, _two = two_nodes(tmp_path)
    tree.case("bad[node1/rxe0]", Outcome.FAILED, message="down", findings=[port_down()])
    spec = run_spec("node1", "node2", profiles={"soft": profile(waivers=(one,))})
    (tmp_path / "run.json").write_text(spec.model_dump_json())
    merged = Merged(tmp_path)
    assert merged.verdict is verdict
    if verdict is Verdict.PASS:
        expected = ("Skipped", "waived until 2026-01-02: spare port (down)")
        assert merged.result("bad[node1/rxe0]") == expected
        assert merged.summary.counts["waived"] == 1
        assert merged.summary.waivers == (one,)
        assert merged.summary.findings[0].waived_until == "2026-01-02"


def test_a_waiver_of_one_profile_excuses_no_node_of_another(tmp_path: Path) -> None:
    lax = Waiver(code="PAIR-DATA-CORRUPT", where="*", reason="x", until=date(2027, 1, 1))
    spec = run_spec(
        nodes=tuple(
            NodeSpec(name=name, address="127.0.0.1", profile=name) for name in ("node1", "node2")
        ),
        profiles={"node1": profile(), "node2": profile(waivers=(lax,))},
    )
    one, _two = two_nodes(tmp_path)
    (tmp_path / "run.json").write_text(spec.model_dump_json())
    assert Merged(tmp_path).verdict is Verdict.PASS
    mine = one.pair("node1/rxe0", "node2/rxe0", Outcome.FAILED, operation="TIMED")
    theirs = one.pair("node2/rxe0", "node1/rxe0", Outcome.FAILED, operation="TIMED")
    merged = Merged(tmp_path)
    assert merged.verdict is Verdict.FAIL
    assert (merged.result(mine) or ("",))[0] == "Failure"
    assert (merged.result(theirs) or ("",))[0] == "Skipped"


def test_expired_waiver_is_an_error_even_without_its_finding(tmp_path: Path) -> None:
    two_nodes(tmp_path)
    old = waiver("2025-12-31")
    spec = run_spec("node1", "node2", profiles={"soft": profile(waivers=(old,))})
    (tmp_path / "run.json").write_text(spec.model_dump_json())
    merged = Merged(tmp_path)
    assert merged.verdict is Verdict.INCOMPLETE
    assert [entry.finding.code for entry in merged.summary.findings] == ["RUN-WAIVER-EXPIRED"]
