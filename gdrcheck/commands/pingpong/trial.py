"""What works at this end: the NIC opened, GPU memory registered, in a child that then ends."""

from __future__ import annotations

import errno
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gdrcheck import gates
from gdrcheck.commands.pingpong.choice import Choice, with_more_time
from gdrcheck.findings.model import Finding
from gdrcheck.memory_rules import limited_by_memlock, memlock_refused
from gdrcheck.node.local_gpus import local_gpus
from gdrcheck.outcome import InputError, ProbeError
from gdrcheck.pairing.deadline import Deadline
from gdrcheck.pairing.messages import RailInfo
from gdrcheck.pairing.pairs import LocalGpu
from gdrcheck.pairing.rail import RailError, RailProcess
from gdrcheck.registration import METHODS, Attempt, Method, Refusal, Stage, Support
from gdrcheck.rules.registration import refused
from gdrcheck.rules.registration_evidence import evidence_of_attempt
from gdrcheck.run import Deadlines
from gdrcheck.verbs import protocol

METHOD_WORDS: dict[Method, str] = {"dmabuf": "dma-buf", "peermem": "peermem"}
# The step of verbs.gid.NoUsableGid.
CHOOSE_GID = "choose a GID"
# Which stage of a registration the step of a failed command was.
STAGES: tuple[tuple[str, Stage], ...] = (
    (r"cuMemGetHandle", "export"),
    (r"cuMem|cuPointer|allocate", "allocate"),
    (r"ibv_reg|register", "register"),
)
# What only the checks of a node ask before they register; here it would say that nothing was known.
NOT_ASKED = (
    "attributes of the GPU",
    "dma-buf registration of no descriptor gives",
    "registered before",
    "sizes",
)


@dataclass(frozen=True, slots=True)
class Workers:
    """How endpoint children are started here."""

    command: Sequence[str]
    out_dir: Path
    root: Path = field(default=Path("/"))


class Trial:
    """One end's NIC and GPU, tried in a child that ends afterwards."""

    def __init__(
        self,
        choice: Choice,
        node: str,
        request: protocol.Open,
        waits: Deadlines,
        workers: Workers,
    ) -> None:
        self._choice, self._node, self._request = choice, node, request
        self._waits, self._workers = waits, workers
        self.findings: list[Finding] = []
        self.gpu_blocked_by = ""
        self._opened: protocol.Opened | None = None
        self._gpu_opened: protocol.GpuOpened | None = None
        self._notes: list[str] = []

    def nic(self) -> str | None:
        """What keeps the NIC from use, as ``CODE at place`` or in words; None when nothing does."""
        try:
            finding = gates.port_not_active(self._choice.rail)
        except ProbeError as error:
            return with_more_time(str(error))
        if finding is not None:
            return self._found(finding)
        with self._process(None) as rail:
            try:
                self._opened = rail.open(Deadline.after(self._waits.check_s))
            except RailError as failure:
                finding = self._of_nic(failure)
                return str(failure) if finding is None else self._found(finding)
        return None

    def methods(self) -> tuple[Method, ...]:
        """Those by which memory of the GPU registers, of those that the user wants."""
        wanted = self._choice.profile.registration
        tried = METHODS if wanted in ("any", "both") else (wanted,)
        working: list[Method] = []
        against: dict[Method, Finding | str] = {}
        for method in METHODS:
            if method not in tried or (wanted == "any" and working):
                continue
            failed = self._try(method)
            if failed is None:
                working.append(method)
            else:
                against[method] = failed
        if working and wanted == "any":
            self._notes += [_not_by(method, why) for method, why in against.items()]
            return tuple(working)
        for why in against.values():
            blocker = why if isinstance(why, str) else self._found(why)
            self.gpu_blocked_by = self.gpu_blocked_by or blocker
        return () if against else tuple(working)

    @property
    def why_no_gpu(self) -> str:
        """Why memory of a GPU cannot be used, where it cannot."""
        untried = f"{self._choice.rail.gpu} was not tried: the NIC comes first"
        return self.gpu_blocked_by or self._choice.gpu_lacks or untried

    def local_gpu(self, methods: tuple[Method, ...]) -> LocalGpu:
        """The GPU, as a rail's process takes it."""
        choice = self._choice
        told = RailInfo(id=choice.rail.id, nic=choice.rail.nic, methods=methods)
        return local_gpus(choice.profile, choice.facts, (told,))[told.id]

    def about(self, methods: Sequence[Method]) -> str:
        """``gpu0 (NVIDIA H200, 0000:1b:00.0) by dma-buf; mlx5_0 port 1, GID 3 (10.0.0.1, ...)``."""
        return f"{self._about_gpu(methods)}; {self._about_nic()}"

    def _about_gpu(self, methods: Sequence[Method]) -> str:
        gpu, rail = self._gpu_opened, self._choice.rail
        if not methods or gpu is None:
            return f"no GPU memory ({self.why_no_gpu})"
        by = " and ".join(METHOD_WORDS[method] for method in methods)
        notes = "".join(f", {note}" for note in self._notes)
        return f"{rail.gpu} ({gpu.name}, {rail.gpu_slot}) by {by}{notes}"

    def _about_nic(self) -> str:
        rail, opened = self._choice.rail, self._opened
        place = f"{rail.nic} port {rail.port}"
        if opened is None:
            return place
        if opened.link_layer == "infiniband":
            return f"{place}, LID {opened.lid}, InfiniBand"
        address = opened.gid.removeprefix("::ffff:")
        return f"{place}, GID {opened.gid_index} ({address}), {opened.gid_type}"

    def _process(self, gpu: LocalGpu | None) -> RailProcess:
        return RailProcess(
            node=self._node,
            rail_id=0,
            request=self._request,
            gpu=gpu,
            waits=self._waits,
            out_dir=self._workers.out_dir,
            command=self._workers.command,
            root=self._workers.root,
        )

    def _try(self, method: Method) -> Finding | str | None:
        """What keeps the method from working; None when memory registered by it."""
        with self._process(self.local_gpu((method,))) as rail:
            try:
                self._gpu_opened = rail.open_gpu(Deadline.after(self._waits.check_s))
            except RailError as failure:
                if failure.error is None:
                    return str(failure)
                return self._of_gpu(method, failure.error)
        return None

    def _found(self, finding: Finding) -> str:
        self.findings.append(finding)
        return gates.named(finding)

    def _of_nic(self, failure: RailError) -> Finding | None:
        """The finding behind a NIC that does not open, where it is known.

        InputError when it has no such GID as the user asked for.
        """
        rail, error, limits = self._choice.rail, failure.error, self._choice.facts.limits
        if error is None:
            return None
        length_bytes = self._request.buffer_bytes
        if error.errno == errno.ENOMEM and limited_by_memlock(length_bytes, limits):
            return memlock_refused(rail.where, length_bytes, error.errno, error.text, limits)
        if error.step == CHOOSE_GID and self._request.gid_index is not None:
            place = f"{rail.nic} port {rail.port}"
            raise InputError(f"-x {self._request.gid_index}: {place}: {error.text}")
        if "GID" in error.step:
            return Finding(
                code="PORT-GID-NONE",
                where=rail.where,
                observed=error.text,
                expected="a GID that a connection can use",
            )
        return Finding(
            code="PORT-OPEN-FAILED",
            where=rail.where,
            observed=error.text,
            expected="the device opens",
            evidence={"step": error.step},
        )

    def _of_gpu(self, method: Method, error: protocol.ErrorInfo) -> Finding:
        """The finding of a registration that was refused, as in a run, from its errno and facts."""
        refusal = Refusal(
            stage=_stage(error.step),
            text=error.text,
            errno=error.errno,
            cuda=error.cuda,
            length_bytes=self._request.buffer_bytes,
        )
        attempt = Attempt(
            method=method,
            support=Support(None, None, None),
            sizes_bytes=(self._request.buffer_bytes,),
            limited_by="",
            proof=None,
            regions=(),
            growth=None,
            refusal=refusal,
        )
        pair = self._choice.gpu
        evidence = evidence_of_attempt(attempt, pair, self._choice.facts)
        expected = f"memory of the GPU registers with the NIC by {method}"
        finding = refused(pair, evidence, error.text, expected)
        asked = {key: value for key, value in finding.evidence.items() if key not in NOT_ASKED}
        return finding.model_copy(update={"evidence": asked})


def _stage(step: str) -> Stage:
    return next((stage for pattern, stage in STAGES if re.search(pattern, step)), "register")


def _not_by(method: Method, why: Finding | str) -> str:
    """``not by dma-buf (MR-DMABUF-UNSUPPORTED: ...)``: what was tried and is not needed."""
    reason = why if isinstance(why, str) else f"{why.code}: {why.observed}"
    return f"not by {METHOD_WORDS[method]} ({reason})"
