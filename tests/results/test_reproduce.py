"""The commands for a failing pair: what they say is what the run did, and pingpong takes them."""

from __future__ import annotations

import argparse
import shlex
from dataclasses import replace
from pathlib import Path
from string import ascii_letters, digits

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdrcheck.commands.pingpong.options import MTUS, OF_CALLER, add_pingpong
from gdrcheck.findings.model import Finding, Where
from gdrcheck.outcome import Outcome
from gdrcheck.pairing.messages import NodeState, RailInfo
from gdrcheck.profile import Gid
from gdrcheck.registration import METHODS
from gdrcheck.results.cases import CaseResult
from gdrcheck.results.incoming import NodeReport
from gdrcheck.results.lists import Rendezvous
from gdrcheck.results.merge import merge
from gdrcheck.results.reproduce import (
    DIFFERS,
    FACTORS,
    MAX_REPRODUCTIONS,
    PINNED,
    TIMED_BYTES,
    Reproduction,
    reproductions,
)
from gdrcheck.results.states import SeenStates
from gdrcheck.run import RunSpec
from gdrcheck.transfer import ATOMICS, MODES, OPERATIONS
from tests import facts as builders
from tests.node.support import facts, profile, run_spec
from tests.results.trees import NodeTree, place_of, write_run

ONE, TWO = "node1/gpu0/mlx5_0", "node2/gpu3/mlx5_1"
GIDS = (
    "node1: index 3, ::ffff:10.0.0.1, RoCE v2, active MTU 4096; "
    "node2: index 5, ::ffff:10.0.0.2, RoCE v2, active MTU 4096"
)


def failed(
    source: str = ONE,
    sink: str = TWO,
    *,
    check: str = "pingpong",
    mode: str = "gpu-gpu",
    operation: str = "WRITE",
    outcome: Outcome = Outcome.FAILED,
    **evidence: str,
) -> CaseResult:
    """A pair case that failed."""
    where = place_of(source, sink)
    finding = Finding(
        code="PAIR-DATA-CORRUPT", where=where, observed="a", expected="b", evidence=evidence
    )
    return CaseResult(
        suite="pairs",
        id=f"{check}[{source} -> {sink}, {mode}, {operation}]",
        classname="pairs.data",
        where=where,
        outcome=outcome,
        findings=(finding,),
    )


def reports(*nodes: str, **states: NodeState) -> dict[str, NodeReport]:
    """What each node sent, with the rendezvous's list when there are states."""
    told = Rendezvous(leader=nodes[0], nodes=states) if states else None
    return {name: NodeReport(name, facts=facts(name), rendezvous=told) for name in nodes}


def ready(nic: str, gpu: str | None = "gpu0", **changes: object) -> NodeState:
    """A node that is ready with one rail."""
    rail = RailInfo.model_validate({"id": 0, "gpu": gpu, "nic": nic, "methods": ("dmabuf",)})
    return NodeState(state="ready", rails=(rail.model_copy(update=changes),))


def only(*cases: CaseResult, spec: RunSpec | None = None, **states: NodeState) -> Reproduction:
    """The one reproduction of ``cases``."""
    (found,) = reproductions(
        spec or run_spec("node1", "node2"), cases, reports("node1", "node2", **states)
    )
    return found


def parsed(command: str) -> argparse.Namespace:
    """What pingpong understands of a command, by its own parser."""
    words = shlex.split(command)
    if words[0].startswith("GDRCHECK_TOKEN="):
        words = words[1:]
    assert words[:2] == ["gdrcheck", "pingpong"]
    parser = argparse.ArgumentParser()
    add_pingpong(parser)
    return parser.parse_args(words[2:])


def test_everything_that_the_run_did_is_in_the_commands() -> None:
    found = only(
        failed(
            gids=GIDS,
            variant="from GPU memory by dmabuf to GPU memory by peermem, relaxed ordering",
            **{"message bytes": "4097"},
        ),
        node1=ready("mlx5_0", port=1),
        node2=ready("mlx5_1", "gpu3", port=2),
    )
    assert found.places == (TWO, ONE)
    assert found.listener == (
        "gdrcheck pingpong --listen 127.0.0.1 -d mlx5_1 -i 2 -x 5 --gpu 3 --method peermem"
    )
    assert found.caller == (
        "GDRCHECK_TOKEN=TOKEN gdrcheck pingpong 127.0.0.1 -d mlx5_0 -i 1 -x 3 --gpu 0 "
        "--method dmabuf --modes gpu-gpu --operations WRITE -s 4097"
    )
    assert found.differs == ()


def test_the_listener_is_the_later_node_whichever_way_the_data_went() -> None:
    found = only(failed(TWO, ONE), failed(ONE, TWO, operation="SEND"))
    assert (found.places, found.cases) == ((TWO, ONE), 2)
    assert parsed(found.caller).operations == ("SEND", "WRITE")


def test_methods_and_index_without_a_word_about_them_in_the_finding() -> None:
    both = ready("mlx5_0", methods=("dmabuf", "peermem"))
    found = only(failed(), node1=both, node2=ready("mlx5_1", "gpu3"))
    assert parsed(found.caller).method == "both"
    assert parsed(found.listener).method == "dmabuf"
    assert parsed(found.caller).gid_index is None


def gid(index: int, address: str, kind: str) -> dict[str, object]:
    """One entry of a GID table."""
    return {"index": index, "gid": address, "type": kind, "netdev": "eth1"}


@pytest.mark.parametrize(
    ("link_layer", "wanted", "index"),
    [
        ("ethernet", Gid(), 3),
        ("ethernet", Gid(type="RoCE v1"), 2),
        ("infiniband", Gid(), 0),
    ],
)
def test_the_index_of_the_address_that_the_node_gave(
    link_layer: str, wanted: Gid, index: int
) -> None:
    table = (
        gid(0, "fe80::1", "IB/RoCE v1"),
        gid(1, "fe80::1", "RoCE v2"),
        gid(2, "::ffff:10.0.0.1", "IB/RoCE v1"),
        gid(3, "::ffff:10.0.0.1", "RoCE v2"),
    )
    port = builders.port(link_layer=link_layer, gids=table)
    known = builders.facts(rdma_devices=(builders.rdma_device(ports=(port,)),))
    states = {
        "node1": ready("mlx5_0", None, data_address="10.0.0.1"),
        "node2": ready("mlx5_0", None),
    }
    sent = reports("node1", "node2", **states)
    sent["node1"] = replace(sent["node1"], facts=known)
    spec = run_spec("node1", "node2", profiles={"soft": profile(gid=wanted)})
    case = failed("node1/mlx5_0", "node2/mlx5_0", mode="host-host")
    (found,) = reproductions(spec, [case], sent)
    assert parsed(found.caller).gid_index == index
    assert parsed(found.listener).gid_index is None


def test_host_memory_alone_names_no_gpu() -> None:
    found = only(failed(mode="host-host"), node1=ready("mlx5_0"), node2=ready("mlx5_1", "gpu3"))
    assert "--gpu" not in found.caller + found.listener
    assert "--method" not in found.caller + found.listener


def test_an_unknown_size_leaves_all_sizes() -> None:
    assert (
        parsed(only(failed(), failed(operation="READ", **{"message bytes": "8"})).caller).size
        is None
    )


@pytest.mark.parametrize("check", sorted(TIMED_BYTES))
def test_numbers_are_asked_for_at_the_size_that_is_judged(check: str) -> None:
    args = parsed(only(failed(check=check)).caller)
    assert args.numbers
    assert TIMED_BYTES[check] in args.size
    # Of the largest the bandwidth is judged.
    assert max(args.size) >= 1 << 20


def test_the_size_of_a_measurement_that_went_wrong() -> None:
    case = failed(check="bandwidth", measurement="bandwidth, gpu-gpu, 65536 bytes")
    assert parsed(only(case).caller).size == (65536, 4 << 20)


# --- every variant that can fail ------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("operation", [*OPERATIONS, *ATOMICS])
@pytest.mark.parametrize("mode", MODES)
def test_each_variant_is_measured_again_and_no_other(
    mode: str, operation: str, method: str
) -> None:
    source, sink = (
        "host memory" if memory == "host" else f"GPU memory by {method}"
        for memory in mode.split("-")
    )
    found = only(
        failed(
            mode=mode,
            operation=operation,
            variant=f"from {source} to {sink}, relaxed ordering",
            **{"message bytes": "65"},
        ),
        node1=ready("mlx5_0", methods=(method,)),
        node2=ready("mlx5_1", "gpu3", methods=(method,)),
    )
    caller, listener = parsed(found.caller), parsed(found.listener)
    assert (caller.modes, caller.operations) == ((mode,), (operation,))
    # Atomic operations move eight bytes.
    assert caller.size == (None if operation in ATOMICS else (65,))
    gpus = mode != "host-host"
    assert (caller.gpu, listener.gpu) == (("0", "3") if gpus else (None, None))
    assert (caller.method, listener.method) == ((method, method) if gpus else ("any", "any"))
    assert (caller.device, listener.device) == ("mlx5_0", "mlx5_1")
    assert not caller.numbers


def test_ways_that_failed_by_different_methods_are_all_measured() -> None:
    found = only(
        failed(variant="from GPU memory by dmabuf to GPU memory by peermem"),
        failed(operation="SEND", variant="from GPU memory by peermem to GPU memory by peermem"),
    )
    assert parsed(found.caller).method == "both"
    assert parsed(found.listener).method == "peermem"


ONE_WORD = st.text(ascii_letters + digits + "_.-", max_size=20)
NAMES = st.builds("{}{}".format, st.sampled_from(ascii_letters + digits), ONE_WORD)
ADDRESSES = st.ip_addresses().map(str) | st.from_regex(
    r"[a-z][a-z0-9]{0,9}(\.[a-z0-9]{1,9})?", fullmatch=True
)


@given(
    names=st.lists(NAMES, min_size=2, max_size=2, unique=True),
    nic=NAMES,
    gpu=st.integers(0, 99),
    ib_port=st.integers(1, 255),
    index=st.integers(0, 99_999),
    address=ADDRESSES,
    port=st.integers(1, 65535),
    sizes=st.lists(st.integers(1, 16 << 20), min_size=1, max_size=80),
    scale=st.floats(0.01, 1000),
    tclass=st.integers(0, 255),
    mtu=st.sampled_from((None, *MTUS)),
)
def test_pingpong_understands_what_is_printed_as_it_was_meant(
    names: list[str],
    nic: str,
    gpu: int,
    ib_port: int,
    index: int,
    address: str,
    port: int,
    sizes: list[int],
    scale: float,
    tclass: int,
    mtu: int | None,
) -> None:
    one, two = names
    base = run_spec(one, two)
    wanted = profile(traffic_class=tclass, path_mtu=mtu)
    spec = base.model_copy(
        update={
            "time_scale": scale,
            "profiles": dict.fromkeys(base.profiles, wanted),
            "nodes": tuple(
                node.model_copy(update={"port": port, "address": address}) for node in base.nodes
            ),
        }
    )
    cases = [
        failed(
            f"{one}/gpu{gpu}/{nic}",
            f"{two}/gpu{gpu}/{nic}",
            check=f"check{number}",
            gids=f"{one}: index 1, a; {two}: index {index}, b",
            **{"message bytes": str(size)},
        )
        for number, size in enumerate(sizes)
    ]
    rail = ready(nic, f"gpu{gpu}", port=ib_port)
    (found,) = reproductions(spec, cases, reports(one, two, **{one: rail, two: rail}))
    caller, listener = parsed(found.caller), parsed(found.listener)
    assert (caller.host, caller.listen) == (address, None)
    assert listener.host is None
    assert listener.listen == (address if is_address(address) else "0.0.0.0")
    for args in (caller, listener):
        assert (args.device, args.gpu, args.ib_port, args.port) == (nic, str(gpu), ib_port, port)
        assert args.time_scale == pytest.approx(min(max(scale, 0.1), 100), rel=1e-4)
    assert caller.gid_index == 1
    assert listener.gid_index == (index if index <= 0xFFFF else None)
    assert caller.size == (tuple(sorted(set(sizes))) if len(set(sizes)) <= 64 else None)
    assert (caller.tclass or 0, caller.mtu) == (tclass, mtu)
    # pingpong refuses a listener that says what the caller says for both.
    assert not any(getattr(listener, name) for name in OF_CALLER)


def is_address(text: str) -> bool:
    """Whether ``text`` is an address and no name."""
    return ":" in text or text.replace(".", "").isdigit()


# --- what it does otherwise -----------------------------------------------------------------------


def test_memory_that_pingpong_has_not_is_said() -> None:
    found = only(failed(check="rdma_cm", mode="pinned-pinned", operation="SEND_WITH_IMM"))
    assert found.differs == (DIFFERS["rdma_cm"], PINNED)
    assert parsed(found.caller).modes == ("host-host",)


def test_factors_that_pingpong_has_not_are_said() -> None:
    base = run_spec("node1", "node2")
    changed = profile(factors={"nic_limited": 0.5})
    spec = base.model_copy(update={"profiles": dict.fromkeys(base.profiles, changed)})
    assert only(failed(check="bandwidth"), spec=spec).differs == (FACTORS,)
    assert only(failed(), spec=spec).differs == ()


@pytest.mark.parametrize("check", sorted(DIFFERS))
def test_what_cannot_be_repeated_is_said(check: str) -> None:
    assert only(failed(check=check)).differs == (DIFFERS[check],)


def test_settings_of_profile_and_run_are_passed_on() -> None:
    base = run_spec("node1", "node2")
    changed = profile(traffic_class=106, path_mtu=1024, service_level=3)
    spec = base.model_copy(
        update={
            "time_scale": 3.0,
            "profiles": dict.fromkeys(base.profiles, changed),
            "nodes": tuple(
                node.model_copy(update={"port": 18700, "address": "fd00::2"}) for node in base.nodes
            ),
        }
    )
    found = only(failed(), spec=spec)
    caller, listener = parsed(found.caller), parsed(found.listener)
    assert (caller.host, caller.tclass, caller.mtu) == ("fd00::2", 106, 1024)
    assert (caller.port, listener.port, caller.time_scale, listener.time_scale) == (
        *(18700, 18700),
        *(3, 3),
    )
    assert found.differs == ("the profile's service_level 3 has no option here",)


@pytest.mark.parametrize("outcome", [one for one in Outcome if one is not Outcome.FAILED])
def test_only_what_failed_is_repeated(outcome: Outcome) -> None:
    case = failed(outcome=outcome)
    assert reproductions(run_spec("node1", "node2"), [case], reports("node1", "node2")) == ()


@pytest.mark.parametrize(
    "place",
    ["node1/gpu0/$(reboot)", "node1/gpu0/-x", "node1/;reboot/mlx5_0", "node9/gpu0/mlx5_0"],
)
def test_nothing_that_a_node_made_up_becomes_a_command(place: str) -> None:
    found = reproductions(run_spec("node1", "node2"), [failed(place)], reports("node1", "node2"))
    words = " ".join(one.listener + one.caller for one in found)
    assert not set(words) & set("$;()")
    for one in found:
        assert parsed(one.caller).device in (None, "mlx5_0")


def test_evidence_that_is_no_number_is_not_passed_on() -> None:
    case = failed(
        gids="node1: index 1; reboot, x", variant="by rm to rm", **{"message bytes": "$x"}
    )
    found = only(case)
    assert (parsed(found.caller).gid_index, parsed(found.caller).size) == (None, None)
    assert not set(found.caller) & set("$;")


def test_the_list_is_limited() -> None:
    names = [f"node{number}" for number in range(2 * MAX_REPRODUCTIONS + 4)]
    cases = [
        failed(f"{one}/mlx5_0", f"{two}/mlx5_0", mode="host-host")
        for one, two in zip(names[::2], names[1::2], strict=True)
    ]
    found = reproductions(run_spec(*names), cases, reports(*names))
    assert len(found) == MAX_REPRODUCTIONS


def test_the_merge_tells_of_a_pair_that_failed(tmp_path: Path) -> None:
    write_run(tmp_path, run_spec("node1", "node2"))
    tree = NodeTree(tmp_path, "node1")
    NodeTree(tmp_path, "node2")
    tree.pair("node1/rxe0", "node2/rxe0", Outcome.FAILED)
    (found,) = merge(tmp_path, SeenStates()).reproduce
    assert found.places == ("node2/rxe0", "node1/rxe0")
    assert parsed(found.caller).device == "rxe0"


def test_the_first_pairs_are_each_of_another_end_with_a_partner_in_no_other_trouble() -> None:
    names = [f"node{number}" for number in range(1, 7)]
    place = {name: f"{name}/gpu0/mlx5_0" for name in names}
    # node1 and node2 are bad, node3 fails by itself as well.
    bad = [("1", "2"), ("1", "3"), ("1", "4"), ("2", "3"), ("2", "5")]
    cases = [failed(place[f"node{one}"], place[f"node{two}"]) for one, two in bad]
    own = CaseResult(
        suite="node3",
        id="os[node3]",
        classname="node3.os",
        where=Where(node="node3"),
        outcome=Outcome.ERROR,
    )
    found = reproductions(run_spec(*names), [*cases, own], reports(*names))
    told = [{place.partition("/")[0] for place in one.places} for one in found]
    assert told[:2] == [{"node1", "node4"}, {"node2", "node5"}]
    assert len(told) == len(bad)
