"""The run document of a Job, made by index 0 of the pods that arrived. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from gdrcheck import __version__
from gdrcheck.findings.model import Finding, Where
from gdrcheck.kubernetes.settings import Settings, pod_name
from gdrcheck.natural import natural
from gdrcheck.pairing.handshake import Identity
from gdrcheck.pairing.job_messages import DOCUMENT_CHARS, Arrived, DocumentPart
from gdrcheck.pairing.messages import NodeName
from gdrcheck.results.states import SeenState, SeenStates
from gdrcheck.run import NodeSpec, RunSpec, new_run_id

# Before there is a run: what the pods prove their secret with. Nonces make each proof a new one.
ASSEMBLY_RUN_ID = "00000000T000000Z-000000"
MAX_DOCUMENT_CHARS = 64 << 20
NEVER_ARRIVED = "RUN-PEER-NEVER-ARRIVED"


class JobDocument(BaseModel):
    """What index 0 sends to all: the run, and the nodes whose pods are there."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    run: RunSpec
    present: Annotated[tuple[NodeName, ...], Field(min_length=1)]


def identity_of(settings: Settings) -> Identity:
    """Who this pod is for the others of its Job, which must be told the same as it was."""
    told = (
        settings.profile_name,
        settings.profile.model_dump_json(),
        settings.deadlines.model_dump_json(),
        str(settings.rounds),
        str(settings.time_scale),
        str(settings.pods),
        settings.job,
    )
    return Identity(
        run_id=ASSEMBLY_RUN_ID,
        node=settings.me,
        secret=settings.secret,
        image_id=settings.image_id,
        profile_hash=hashlib.sha256(json.dumps(told).encode()).hexdigest(),
    )


def make_document(settings: Settings, arrived: Collection[Arrived], now: datetime) -> JobDocument:
    """The document of a new run of ``arrived``, this pod included.

    The nodes stand in the order in which people count, then the pods that never arrived, by the
    names that they have in the Job, since nobody knows their nodes.
    """
    there = sorted(arrived, key=lambda one: natural(one.node))
    names = [one.node for one in there]
    nodes = [
        NodeSpec(
            name=one.node,
            address=one.address,
            port=settings.port,
            profile=settings.profile_name,
        )
        for one in there
    ]
    nodes += [
        NodeSpec(
            name=name,
            address=f"{pod}.{settings.leader_host.partition('.')[2] or settings.job}",
            port=settings.port,
            profile=settings.profile_name,
        )
        for pod, name in absent_names(settings, arrived).items()
    ]
    run = RunSpec(
        run_id=new_run_id(now),
        created=now.astimezone(UTC),
        gdrcheck_version=__version__,
        image_id=settings.image_id,
        nodes=tuple(nodes),
        profiles={settings.profile_name: settings.profile},
        rounds=settings.rounds,
        time_scale=settings.time_scale,
        deadlines=settings.deadlines,
    )
    return JobDocument(run=run, present=tuple(names))


def absent_names(settings: Settings, arrived: Collection[Arrived]) -> dict[str, str]:
    """The pods that are not there: the name of each, and what its node is called in the run."""
    indexes = {one.index for one in arrived}
    taken = {one.node for one in arrived}
    found = {}
    for index in range(settings.pods):
        if index in indexes:
            continue
        pod = name = pod_name(settings.job, index)
        while name in taken:
            name += "-pod"
        taken.add(name)
        found[pod] = name
    return found


def states_of(
    settings: Settings,
    arrived: Collection[Arrived],
    lost: Mapping[str, str],
    knocked: str = "",
) -> SeenStates:
    """How each node fared, as index 0 saw it. ``lost``: why a node's results did not come.

    ``knocked`` says who came and proved nothing, if anyone did: it may be the one that is missing.
    """
    states = {
        one.node: SeenState(state="no result", reason=lost[one.node])
        if one.node in lost
        else SeenState(state="ok")
        for one in arrived
    }
    for pod, name in absent_names(settings, arrived).items():
        reason = f"pod {pod} was not there after {settings.arrival_s:g} s"
        finding = Finding(
            code=NEVER_ARRIVED,
            where=Where(node=name),
            observed=f"{reason}; {knocked}" if knocked else reason,
            expected=f"{settings.pods} pods, each on a node of its own",
        )
        states[name] = SeenState(state="never arrived", reason=reason, findings=(finding,))
    return SeenStates(nodes=states)


def parts_of(document: JobDocument) -> list[DocumentPart]:
    """``document`` in parts that each fit a frame."""
    text = document.model_dump_json()
    pieces = [text[at : at + DOCUMENT_CHARS] for at in range(0, len(text), DOCUMENT_CHARS)]
    return [
        DocumentPart(text=piece, last=number == len(pieces))
        for number, piece in enumerate(pieces, 1)
    ]
