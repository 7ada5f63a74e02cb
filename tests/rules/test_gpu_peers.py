"""Two GPUs of a node: when access is owed, and what is told of data that arrives wrong."""

from __future__ import annotations

import pytest

from gdrcheck.facts import Facts
from gdrcheck.findings.model import Where
from gdrcheck.mismatch import Mismatch, Verdict
from gdrcheck.outcome import NotJudged
from gdrcheck.peering import PeerRate, PeerReach, PeerTransfer, PeerWay
from gdrcheck.profile import Profile
from gdrcheck.rules import gpu_peers as rules
from tests import facts as build
from tests.gpu_facts import gpu_health, gpu_peer, nvlink
from tests.rules.test_cuda import failure

ONE, OTHER = "0000:1a:05.0", "0000:1a:06.0"
SLOTS = (ONE, OTHER)
PLACE = Where(node="node1", gpu="gpu0", peer="node1/gpu1")
NEITHER = PeerReach(there=False, back=False)
BYTE = Mismatch(
    first_bad_offset=3,
    bad_bytes=1,
    excerpt_offset=0,
    expected_hex="00",
    got_hex="01",
    looks_like="other",
)
RIGHT, WRONG = Verdict(None, None), Verdict(BYTE, BYTE)


def facts(*, nvlinks: object = (), **changes: object) -> Facts:
    """Two GPUs, joined by PCI Express alone unless ``nvlinks`` says more."""
    health = gpu_health(nvlinks=nvlinks)
    gpus = tuple(build.gpu(slot, health=health) for slot in SLOTS)
    said = {"read": "chipset not supported", "write": "chipset not supported"}
    peers = (gpu_peer(*SLOTS, **said), gpu_peer(*SLOTS[::-1], **said))
    return build.facts(nvml=build.nvml(**{"gpus": gpus, "peers": peers, **changes}))


def promising(access: str | None) -> Profile:
    return build.profile(
        gpus={"count": 2, "model": "NVIDIA H200"}, expect={"peer_access": access} if access else {}
    )


def way(*transfers: PeerTransfer, wrong: Mismatch | None = None) -> PeerWay:
    return PeerWay(ONE, OTHER, transfers, PeerRate(256 << 20, 8, 390.0, wrong))


def transfer(means: str, verdict: Verdict, at_source: Mismatch | None = None) -> PeerTransfer:
    return PeerTransfer(means, 1, 65_537, verdict, at_source)  # type: ignore[arg-type]


@pytest.mark.parametrize("count", [0, 1, 2, 8])
def test_each_two_gpus_are_one_place(count: int) -> None:
    profile = build.profile(gpus={"count": count, "model": "*" if count else None})
    found = rules.places(profile, "node1")
    assert len(found) == count * (count - 1) // 2
    assert len({frozenset((f"{one.node}/{one.gpu}", one.peer)) for one in found}) == len(found)


def test_without_gpus_there_is_no_place() -> None:
    assert rules.places(build.profile(gpus=None), "node1") == ()


def test_a_case_is_named_after_both() -> None:
    assert rules.case_of(PLACE) == "node1/gpu0 -> node1/gpu1"


def test_gpus_that_reach_each_other_are_right_whatever_is_promised() -> None:
    both = PeerReach(there=True, back=True)
    assert rules.unreachable(PLACE, both, SLOTS, promising(None), facts()) is None


def test_pcie_alone_promises_no_access() -> None:
    with pytest.raises(NotJudged, match="chipset not supported"):
        rules.unreachable(PLACE, NEITHER, SLOTS, promising(None), facts())


@pytest.mark.parametrize(
    ("known", "promise", "reach", "why"),
    [
        (facts(), "all", NEITHER, "expect.peer_access is all"),
        (facts(), None, PeerReach(there=True, back=False), "the other way works"),
        (facts(nvlinks=(nvlink(0), nvlink(1))), None, NEITHER, "2 NVLinks join them"),
        (
            facts(peers=(gpu_peer(*SLOTS), gpu_peer(*SLOTS[::-1]))),
            None,
            NEITHER,
            "NVML says that they can",
        ),
    ],
)
def test_access_that_is_owed_and_refused_is_found(
    known: Facts, promise: str | None, reach: PeerReach, why: str
) -> None:
    finding = rules.unreachable(PLACE, reach, SLOTS, promising(promise), known)
    assert finding is not None
    assert (finding.code, finding.where) == ("GPU-PEER-ACCESS", PLACE)
    assert why in finding.expected
    assert f"{OTHER}" in finding.observed


@pytest.mark.parametrize("apart", ["MIG", "confidential computing"])
def test_a_mode_that_keeps_gpus_apart_is_no_fault_unless_access_is_promised(apart: str) -> None:
    links = (nvlink(0),)
    if apart == "MIG":
        split = build.gpu(ONE, health=gpu_health(nvlinks=links), mig="enabled")
        gpus = (split, build.gpu(OTHER, health=gpu_health(nvlinks=links)))
        known = facts(gpus=gpus)
    else:
        known = facts(nvlinks=links, confidential_computing="on")
    with pytest.raises(NotJudged, match=apart):
        rules.unreachable(PLACE, NEITHER, SLOTS, promising(None), known)
    assert rules.unreachable(PLACE, NEITHER, SLOTS, promising("all"), known) is not None


def test_peers_of_which_nvml_says_nothing_promise_nothing() -> None:
    with pytest.raises(NotJudged):
        rules.unreachable(PLACE, NEITHER, SLOTS, promising(None), facts(peers=()))


def test_data_that_arrives_whole_is_right() -> None:
    means = ("copy", "read in place", "write in place")
    assert rules.data_wrong(PLACE, [way(*(transfer(one, RIGHT) for one in means))]) is None


@pytest.mark.parametrize("means", ["copy", "read in place", "write in place"])
def test_wrong_bytes_are_found_with_their_way_and_place(means: str) -> None:
    ways = [way(transfer("copy", RIGHT)), way(transfer(means, WRONG))]
    finding = rules.data_wrong(PLACE, ways)
    assert finding is not None
    assert finding.code == "GPU-PEER-DATA"
    assert f"{ONE} -> {OTHER}, {means} of 65537 B at offset 1" in finding.observed
    assert "1 wrong bytes, the first at offset 3" in finding.observed


def test_memory_that_is_wrong_already_at_the_source_is_told() -> None:
    finding = rules.data_wrong(PLACE, [way(transfer("copy", WRONG, BYTE))])
    assert finding is not None
    assert "1 wrong bytes" in finding.evidence["in the source's own memory"]


def test_what_only_the_link_spoils_is_data_and_no_disagreement() -> None:
    seen = rules.data_wrong(PLACE, [way(transfer("read in place", Verdict(BYTE, None)))])
    assert seen is not None
    assert seen.code == "GPU-PEER-DATA"


@pytest.mark.parametrize(
    ("means", "verdict"),
    [
        ("copy", Verdict(BYTE, None)),
        ("copy", Verdict(None, BYTE)),
        ("write in place", Verdict(None, BYTE)),
        ("read in place", Verdict(None, BYTE)),
    ],
)
def test_verifiers_that_disagree_about_the_same_memory_are_found(
    means: str, verdict: Verdict
) -> None:
    finding = rules.data_wrong(PLACE, [way(transfer(means, verdict))])
    assert finding is not None
    assert finding.code == "GPU-VERIFIERS-DISAGREE"


def test_copies_that_are_fast_and_wrong_are_found() -> None:
    finding = rules.data_wrong(PLACE, [way(transfer("copy", RIGHT), wrong=BYTE)])
    assert finding is not None
    assert finding.code == "GPU-PEER-DATA"
    assert "8 copies of 256 MiB" in finding.observed


def test_access_that_cannot_be_switched_on_is_no_access() -> None:
    error = failure("PEER_ACCESS_UNSUPPORTED", 217, "cuCtxEnablePeerAccess")
    assert rules.call_failed(PLACE, error, SLOTS, facts()).code == "GPU-PEER-ACCESS"
    lost = failure("ILLEGAL_ADDRESS", 700, "cuMemcpyDtoH")
    assert rules.call_failed(PLACE, lost, SLOTS, facts()).code == "GPU-CUDA-FAILED"


def test_the_rates_of_both_ways_are_told() -> None:
    told = dict(rules.measured([way(transfer("copy", RIGHT))], SLOTS, facts(nvlinks=(nvlink(0),))))
    assert told[f"copy {ONE} -> {OTHER}"] == "390.0 GB/s (8 x 256 MiB)"
    assert told["NVLinks between them"] == "1"
    assert told["verified"] == "65537 B; by copy"
