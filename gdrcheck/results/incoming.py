"""Reading what one node left in its directory. Nothing in there is trusted."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Literal, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from gdrcheck.facts import DEVICE_NAME_PATTERN, Facts, Unreadable
from gdrcheck.findings.model import Where
from gdrcheck.outcome import Outcome
from gdrcheck.results.cases import PAIRS, CaseResult, class_name
from gdrcheck.results.events import RunEvent, clip
from gdrcheck.results.files import read_limited
from gdrcheck.results.lists import Lists, Rendezvous
from gdrcheck.results.plain import first_line
from gdrcheck.results.told import EVENTS_FILE, Told, tell, why_broken

FACTS_FILE = "facts.json"
DONE_FILE = "done.json"
RENDEZVOUS_FILE = "rendezvous.json"
COUNTERS_FILE = "counters.json"
GPUS_FILE = "gpus.json"
XIDS_FILE = "xids.jsonl"
JUNIT_FILE = "junit.xml"

MAX_FACTS_BYTES = 4 * 1024 * 1024
MAX_DONE_BYTES = 64 * 1024
# Far more than any machine has, and few enough to compare each with each.
MAX_PCI_FUNCTIONS = 4096
MAX_RDMA_DEVICES = 1024
MAX_GPUS = 64

T = TypeVar("T")


class Done(BaseModel):
    """The last file a supervisor writes: its exit code, and why it ended early if it did."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    exit_code: Literal[0, 1, 2]
    reason: str
    finished: Literal[True] = True


@dataclass(frozen=True, slots=True)
class NodeReport:
    """What a node sent. ``problems`` are things in it that cannot be right, in words.

    ``first`` and ``last`` are the times of its first and last event, by its own clock.
    """

    node: str
    cases: tuple[CaseResult, ...] = ()
    run: RunEvent | None = None
    facts: Facts | None = None
    done: Done | None = None
    rendezvous: Rendezvous | None = None
    first: datetime | None = None
    last: datetime | None = None
    problems: tuple[str, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether the node reported to its proper end, with results, and nothing is wrong."""
        return not self.lacks

    @property
    def lacks(self) -> str:
        """Why this is not the whole of what the node owes; empty when it is."""
        if self.problems:
            return f"results cannot be trusted: {self.problems[0]}"
        if self.done is None:
            return "results are incomplete: the container ended before it finished"
        if not self.cases:
            return f"finished without any case: {self.done.reason or 'no reason given'}"
        if self.done.reason:
            return f"results are incomplete: {first_line(self.done.reason)}"
        if self.run is None:
            return f"results are incomplete: {EVENTS_FILE} does not say of which run they are"
        if self.facts is None:
            return f"results are incomplete: there is no {FACTS_FILE}"
        return ""

    def distrusted(self, problems: Sequence[str], refused: Collection[str] = ()) -> NodeReport:
        """This report with further ``problems``, and without the pair cases called ``refused``."""
        if not problems:
            return self
        every = (*self.problems, *problems)
        broken = _unreadable(self.node, every)
        kept = [
            case
            for case in self.cases
            if case.id != broken.id and not (case.suite == PAIRS and case.id in refused)
        ]
        return replace(self, cases=(*kept, broken), problems=every)


def read_node(
    directory: Path, node: str, run_id: str, death: str, lists: Lists | None = None
) -> NodeReport:
    """The report in ``directory``; ``death`` says why there are cases without a result.

    A directory that does not exist is an empty report. What is broken becomes a problem, and a
    case ``results_readable`` when there is any. ``lists`` reads the list of the rendezvous; without
    it the report has none.
    """
    return report_of(directory, node, tell(directory, node, run_id, death), lists)


def report_of(directory: Path, node: str, told: Told, lists: Lists | None) -> NodeReport:
    """The report in ``directory`` as ``read_node`` gives it; ``told`` is what its events tell."""
    if told.broken:
        return NodeReport(node).distrusted([told.broken])
    try:
        return _read(directory, node, told, lists)
    # The outermost hook of what one node sent: whatever is in there costs no other node its result.
    except Exception as error:
        return NodeReport(node).distrusted([why_broken(error)])


def _read(directory: Path, node: str, told: Told, lists: Lists | None) -> NodeReport:
    problems = list(told.problems)
    facts = _taken(directory / FACTS_FILE, _facts, problems)
    if facts is not None and facts.node != node:
        problems.append(f"{FACTS_FILE} is of node {facts.node}, not of {node}")
        facts = None
    done = _taken(directory / DONE_FILE, _done, problems)
    if done is not None and told.cut_bytes:
        # Only a death cuts a record, and who wrote done.json did not die.
        problems.append(f"{EVENTS_FILE}: its last line was cut off after {told.cut_bytes} bytes")
    rendezvous = _taken(directory / RENDEZVOUS_FILE, lists.read, problems) if lists else None
    report = NodeReport(
        node,
        told.cases,
        run=told.run,
        facts=facts,
        done=done,
        rendezvous=rendezvous,
        first=told.first,
        last=told.last,
    )
    return report.distrusted(problems)


def _taken(path: Path, read: Callable[[Path], T], problems: list[str]) -> T | None:
    """What ``read`` makes of ``path``; None if there is no such file, or when it is a problem."""
    try:
        return read(path)
    except FileNotFoundError:
        return None
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        problems.append(f"{path.name}: {place}: {first['msg']}")
    except (OSError, ValueError) as error:
        problems.append(f"{path.name}: {error}")
    return None


def _done(path: Path) -> Done:
    return Done.model_validate_json(read_limited(path, MAX_DONE_BYTES))


def _facts(path: Path) -> Facts:
    facts = Facts.model_validate_json(read_limited(path, MAX_FACTS_BYTES))
    for problem in _incredible(facts):
        raise ValueError(problem)
    return facts


def _incredible(facts: Facts) -> Iterator[str]:
    """What no machine has, and what would cost every other node's result its time."""
    pci, nvml, devices = facts.pci, facts.nvml, facts.rdma_devices
    if not isinstance(devices, Unreadable):
        yield from _too_many("RDMA devices", len(devices), MAX_RDMA_DEVICES)
        for device in devices:
            if not re.fullmatch(DEVICE_NAME_PATTERN, device.name):
                yield f"{clip(device.name, 100)!r} is no name of an RDMA device"
    if not isinstance(pci, Unreadable):
        yield from _too_many("PCI functions", len(pci.functions), MAX_PCI_FUNCTIONS)
        yield from _too_many("GPUs on PCI", len(pci.nvidia_gpus), MAX_GPUS)
    if nvml is not None and not isinstance(nvml, Unreadable):
        yield from _too_many("GPUs in NVML", len(nvml.gpus), MAX_GPUS)


def _too_many(what: str, count: int, most: int) -> Iterator[str]:
    if count > most:
        yield f"has {count} {what}; more than {most} are not believed"


def _unreadable(node: str, problems: Sequence[str]) -> CaseResult:
    return CaseResult(
        suite=node,
        id=f"results_readable[{node}]",
        classname=class_name(node, "run"),
        where=Where(node=node),
        outcome=Outcome.ERROR,
        message="what the node sent cannot be trusted:\n" + "\n".join(problems),
    )
