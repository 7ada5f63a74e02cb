"""What is judged of two GPUs of a node: each reaches the other's memory, and every byte arrives."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gdrcheck import topology
from gdrcheck.facts import Facts, Nvml
from gdrcheck.findings.model import Finding, Where
from gdrcheck.mismatch import Mismatch
from gdrcheck.outcome import NotJudged
from gdrcheck.peering import PeerReach, PeerTransfer, PeerWay
from gdrcheck.profile import Profile
from gdrcheck.rules import cuda, gpu_pattern
from gdrcheck.rules.cuda_cause import CudaFailure
from gdrcheck.rules.promises import shown
from gdrcheck.sizes import size_text

ENABLE = "cuCtxEnablePeerAccess"
# After an error of another call the contexts of both GPUs may be lost.
HARMLESS = (ENABLE, "cuDeviceCanAccessPeer")
_EVERY_BYTE = "every byte as the GPU wrote it"

Slots = tuple[str, str]


def places(profile: Profile, node: str) -> tuple[Where, ...]:
    """Each two of the promised GPUs, once: ``gpu`` is one, ``peer`` the other (``node1/gpu1``)."""
    count = profile.gpus.count if profile.gpus else 0
    return tuple(
        Where(node=node, gpu=f"gpu{one}", peer=f"{node}/gpu{other}")
        for one in range(count)
        for other in range(one + 1, count)
    )


def case_of(where: Where) -> str:
    """``node1/gpu0 -> node1/gpu1``: what stands in the brackets of the case's name."""
    return f"{where.node}/{where.gpu} -> {where.peer}"


def unreachable(
    where: Where, reach: PeerReach, slots: Slots, profile: Profile, facts: Facts
) -> Finding | None:
    """GPU-PEER-ACCESS when CUDA lets one of two GPUs not use the other's memory, and should.

    It should when the profile says so, when NVLinks join the two or NVML says that they can, and
    when the other way works. NotJudged otherwise: PCI Express alone promises no such access.
    """
    if reach.both:
        return None
    why = _promise(reach, slots, profile, facts)
    told = _told(slots, facts)
    if not why:
        words = ", ".join(f"{name}: {text}" for name, text in told.items())
        raise NotJudged(
            "CUDA lets none of the two use the other's memory, and expect.peer_access is not in "
            f"the profile ({words})"
        )
    ways = (("->", reach.there), ("<-", reach.back))
    refused = ", ".join(f"{slots[0]} {arrow} {slots[1]}" for arrow, can in ways if not can)
    return Finding(
        code="GPU-PEER-ACCESS",
        where=where,
        observed=f"CUDA does not let the GPU use the other's memory: {refused}",
        expected=f"access both ways: {why}",
        evidence=told,
    )


def _promise(reach: PeerReach, slots: Slots, profile: Profile, facts: Facts) -> str:
    """Why the two should reach each other; empty when nothing says so."""
    if profile.expect.peer_access == "all":
        return "expect.peer_access is all"
    if reach.there or reach.back:
        return "the other way works"
    if _kept_apart(slots, facts):
        return ""
    links = topology.nvlinks_between(facts, *slots)
    if links:
        return f"{links} NVLinks join them"
    said = [peer.read for peer in topology.peers(facts, *slots)]
    return "NVML says that they can" if said and set(said) == {"ok"} else ""


def _kept_apart(slots: Slots, facts: Facts) -> bool:
    """Whether a mode of the GPUs takes peer access away, whatever joins them.

    Source: NVIDIA Multi-Instance GPU User Guide (no peer access); NVIDIA's deployment guides for
    confidential computing.
    """
    if not isinstance(facts.nvml, Nvml):
        return False
    gpus = [facts.nvml.gpu(slot) for slot in slots]
    return facts.nvml.confidential_computing == "on" or any(
        gpu is not None and gpu.mig == "enabled" for gpu in gpus
    )


def _told(slots: Slots, facts: Facts) -> dict[str, str]:
    """What joins the two, and what NVML says of them."""
    links = topology.nvlinks_between(facts, *slots)
    told = {
        "NVLinks between them": "not known" if links is None else str(links),
        "distance on PCI Express": topology.distance(facts, *slots) or "not known",
    }
    for peer in topology.peers(facts, *slots):
        told[f"NVML, {peer.slot} -> {peer.peer}"] = (
            f"read {shown(peer.read)}, write {shown(peer.write)}, NVLink {shown(peer.nvlink)}"
        )
    if isinstance(facts.nvml, Nvml):
        told |= {
            f"MIG of {gpu.slot}": "enabled"
            for gpu in facts.nvml.gpus
            if gpu.slot in slots and gpu.mig == "enabled"
        }
        if facts.nvml.confidential_computing is not None:
            told["confidential computing"] = shown(facts.nvml.confidential_computing)
    return told


def call_failed(where: Where, error: CudaFailure, slots: Slots, facts: Facts) -> Finding:
    """The finding when a call fails between two GPUs that CUDA says can reach each other."""
    if error.function != ENABLE:
        return cuda.call_failed(where, error, slots[0], facts)
    return Finding(
        code="GPU-PEER-ACCESS",
        where=where,
        observed=str(error),
        expected="access both ways: CUDA says that the two can",
        evidence={"CUDA error": f"{error.name} ({error.number})", **_told(slots, facts)},
    )


def data_wrong(where: Where, ways: Sequence[PeerWay]) -> Finding | None:
    """GPU-PEER-DATA for the first transfer, or the copies, that did not bring every byte.

    GPU-VERIFIERS-DISAGREE when GPU and CPU differ about memory that the GPU itself has.
    """
    for way in ways:
        for transfer in way.transfers:
            verdict, what = transfer.verdict, f"{_way(way)}, {_what(transfer)}"
            if verdict.disagree and not _over_the_link(transfer):
                return gpu_pattern.disagreement(where, verdict, what)
            if not verdict.right:
                found = verdict.by_gpu or verdict.by_cpu
                evidence = gpu_pattern.evidence_of(verdict) | _blame(transfer)
                return _wrong(where, what, found, evidence)
        if way.rate.wrong is not None:
            what = f"{_way(way)}, {way.rate.copies} copies of {size_text(way.rate.length_bytes)}"
            return _wrong(where, what, way.rate.wrong, {"looks like": way.rate.wrong.looks_like})
    return None


def _over_the_link(transfer: PeerTransfer) -> bool:
    """Whether only the GPU looked through the link, and it alone found wrong bytes."""
    return transfer.means == "read in place" and transfer.verdict.by_cpu is None


def _wrong(where: Where, what: str, found: Mismatch | None, evidence: dict[str, str]) -> Finding:
    return Finding(
        code="GPU-PEER-DATA",
        where=where,
        observed=f"{what}: {gpu_pattern.told(found)}",
        expected=_EVERY_BYTE,
        evidence=evidence,
    )


def _blame(transfer: PeerTransfer) -> dict[str, str]:
    if transfer.means == "write in place":
        return {}
    return {"in the source's own memory": gpu_pattern.told(transfer.at_source)}


def measured(ways: Sequence[PeerWay], slots: Slots, facts: Facts) -> Iterator[tuple[str, str]]:
    """What was moved and how fast, as properties of the case."""
    yield from _told(slots, facts).items()
    for way in ways:
        rate = way.rate
        yield (
            f"copy {_way(way)}",
            f"{rate.gbytes_per_s:.1f} GB/s ({rate.copies} x {size_text(rate.length_bytes)})",
        )
    sizes = dict.fromkeys(size_text(one.length_bytes) for one in ways[0].transfers)
    means = dict.fromkeys(one.means for one in ways[0].transfers)
    yield "verified", f"{', '.join(sizes)}; by {', '.join(means)}"


def _way(way: PeerWay) -> str:
    return f"{way.source} -> {way.sink}"


def _what(transfer: PeerTransfer) -> str:
    return (
        f"{transfer.means} of {size_text(transfer.length_bytes)} at offset {transfer.offset_bytes}"
    )
