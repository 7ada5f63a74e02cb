"""What is judged of PCIe links: as wide and as fast as both ends can be, and as promised.

Of a link the function below it tells the state: the port above may be one that an emulator made up.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gdrcheck import gates
from gdrcheck.expect import PciLink
from gdrcheck.facts import Facts, Link, PciFunction, Unreadable
from gdrcheck.findings.model import Finding, Where
from gdrcheck.outcome import Blocked, NotJudged, ProbeError
from gdrcheck.profile import Profile
from gdrcheck.rails import Rail
from gdrcheck.rules import pci_path
from gdrcheck.rules.pci_path import Way

Value = int | float


@dataclass(frozen=True, slots=True)
class _Aspect:
    """Width or speed: how to get at the values, and how to write one."""

    code: str
    name: str
    current: Callable[[Link], Value | Unreadable]
    most: Callable[[Link], Value | Unreadable]
    promised: Callable[[PciLink], Value | None]
    text: Callable[[Value], str]


WIDTH = _Aspect(
    code="PCI-LINK-WIDTH",
    name="width of the link",
    current=lambda link: link.current_width,
    most=lambda link: link.max_width,
    promised=lambda link: link.width,
    text=lambda lanes: f"x{lanes}",
)
SPEED = _Aspect(
    code="PCI-LINK-SPEED",
    name="speed of the link",
    current=lambda link: link.current_gts,
    most=lambda link: link.max_gts,
    promised=lambda link: link.speed_gts,
    text=lambda gts: f"{gts:g} GT/s",
)


@dataclass(frozen=True, slots=True)
class _Segment:
    """One link of a way: the function below it, and the port above it."""

    lower: PciFunction
    upper: PciFunction
    below: Link
    above: Link

    @property
    def place(self) -> str:
        return f"{self.upper.slot} - {self.lower.slot}"

    def text(self) -> str:
        parts = []
        for aspect in (WIDTH, SPEED):
            values = (aspect.current(self.below), aspect.most(self.below), aspect.most(self.above))
            words = ["?" if isinstance(one, Unreadable) else aspect.text(one) for one in values]
            parts.append("{}, the ends can do {} and {}".format(*words))
        return "; ".join(parts)


@dataclass(frozen=True, slots=True)
class _Reading:
    """One aspect of a link. ``able``: what both ends can do. ``promised`` None: nothing is."""

    segment: _Segment
    current: Value
    able: Value
    promised: Value | None

    @property
    def due(self) -> Value:
        return max(self.able, self.promised or 0)


def width_of_nic(rail: Rail, profile: Profile, facts: Facts) -> Finding | None:
    """PCI-LINK-WIDTH when a link between the rail's NIC and the root port is too narrow.

    ``expect.nic_link`` is about the NIC's own link, ``expect.uplink`` about those above it. Blocked
    when the narrow one is another rail's. NotJudged when the NIC has no link; ProbeError when a
    link is not to be seen although the profile promises its width, or when a value is unreadable.
    """
    return _judge_nic(WIDTH, rail, profile, facts)


def speed_of_nic(rail: Rail, profile: Profile, facts: Facts) -> Finding | None:
    """PCI-LINK-SPEED when a link between the rail's NIC and the root port is too slow.

    Raises as ``width_of_nic``.
    """
    return _judge_nic(SPEED, rail, profile, facts)


def width_of_gpu(where: Where, slot: str | None, profile: Profile, facts: Facts) -> Finding | None:
    """PCI-LINK-WIDTH when a link between the GPU and the root port is too narrow.

    ``slot`` None: the GPU is not there. Raises as ``width_of_nic``.
    """
    way = pci_path.of_gpu(where, slot, profile, facts)
    return _judge(WIDTH, way, profile.expect.gpu_link, profile.expect.uplink)


def speed_of_gpu(where: Where, slot: str | None, profile: Profile, facts: Facts) -> Finding | None:
    """PCI-LINK-SPEED when a link between the GPU and the root port is too slow.

    An idle GPU lowers the speed of its own link: below what it can be that one is NotJudged, if
    both ends can be as fast as promised, and a finding if one of them cannot. Where the port above
    it does not tell what it can be, a promise is a ProbeError. Raises as ``width_of_nic``.
    """
    way = pci_path.of_gpu(where, slot, profile, facts)
    return _judge(SPEED, way, profile.expect.gpu_link, profile.expect.uplink, idles=True)


def _judge_nic(aspect: _Aspect, rail: Rail, profile: Profile, facts: Facts) -> Finding | None:
    own, above = profile.expect.nic_link, profile.expect.uplink
    words = [
        f"{key} {aspect.text(value)}"
        for key, link in (("nic_link", own), ("uplink", above))
        if link is not None and (value := aspect.promised(link)) is not None
    ]
    way = pci_path.of_nic(rail, profile, facts, ", ".join(words) or None)
    return _judge(aspect, way, own, above)


def _judge(
    aspect: _Aspect, way: Way, own: PciLink | None, above: PciLink | None, *, idles: bool = False
) -> Finding | None:
    """``own`` is promised of the link of the way's end, ``above`` of every other one.

    ``idles``: the link of the end may be lower than it could be.
    """
    promised = aspect.promised(own) if own else None
    promised_above = aspect.promised(above) if above else None
    segments = _segments(way)
    readings = [
        reading
        for segment in segments
        if (
            reading := _reading(
                aspect, segment, promised if segment.lower is way.end else promised_above
            )
        )
    ]
    low = [reading for reading in readings if _is_low(reading, way, idles=idles)]
    first = [one for one in low if one.segment.upper.slot not in way.found_at]
    if first:
        return _finding(aspect, way, min(first, key=lambda one: one.current / one.due), segments)
    if low:
        raise Blocked(f"{aspect.code} at {way.found_at[low[0].segment.upper.slot].text()}")
    _require_readable(aspect, way, segments)
    _require_uplinks(aspect, way, segments, promised_above)
    if not segments or segments[0].lower is not way.end:
        return _judge_alone(aspect, way, promised, idles=idles)
    if idles and readings[0].current < readings[0].able:
        raise NotJudged(_idle_text(aspect, way, readings[0]))
    return None


def _idle_text(aspect: _Aspect, way: Way, reading: _Reading) -> str:
    enough = (
        "" if reading.promised is None else f", and {aspect.text(reading.promised)} is promised"
    )
    return (
        f"the link of {way.end.slot} is at {aspect.text(reading.current)}; both its ends can do "
        f"{aspect.text(reading.able)}{enough}; a GPU lowers it while it is idle"
    )


def _require_uplinks(
    aspect: _Aspect, way: Way, segments: list[_Segment], promised: Value | None
) -> None:
    """ProbeError when one of the links above that of the end is promised and not to be seen.

    Of an end that sits directly below a root port there is none.
    """
    above = [segment for segment in segments if segment.lower is not way.end]
    there = (len(way.functions) - 1) // 2
    if promised is None or (len(way.functions) > 1 and len(above) == there):
        return
    raise ProbeError(
        f"{way.where.text()}: {len(above)} of the links above that of {way.end.slot} are to be "
        f"seen, and the profile promises uplink {aspect.text(promised)}",
        step=f"read the {aspect.name}",
    )


def _judge_alone(
    aspect: _Aspect, way: Way, promised: Value | None, *, idles: bool
) -> Finding | None:
    """The end of a way above which no port tells of a link, as in a virtual machine."""
    slot, link = way.end.slot, way.end.link
    if link is None:
        text = f"{slot} has no PCIe link (virtual or integrated)"
        if promised is None:
            raise NotJudged(text)
        raise ProbeError(
            f"{way.where.text()}: {text}, and the profile promises {aspect.text(promised)}",
            step=f"read the {aspect.name}",
        )
    current = gates.readable(aspect.current(link), way.where, f"{aspect.name} of {slot}")
    reading = f"{aspect.text(current)} at {slot}; what the port above it can do is not told"
    if promised is None:
        raise NotJudged(reading)
    most = gates.readable(aspect.most(link), way.where, f"greatest {aspect.name} of {slot}")
    if (most if idles else current) < promised:
        return Finding(
            code=aspect.code,
            where=way.where,
            observed=f"{aspect.text(current)} at {slot}",
            expected=f"at least {aspect.text(promised)}; it can do {aspect.text(most)}",
        )
    if current < promised:
        raise ProbeError(
            f"{way.where.text()}: {reading}, so that an idle GPU cannot be told from a slow link; "
            f"the profile promises {aspect.text(promised)}",
            step=f"read the {aspect.name}",
        )
    return None


def _segments(way: Way) -> list[_Segment]:
    """The links of the way, the lowest first.

    Every other step is one: the topmost is the root port's, and the two ports of a switch on the
    way are joined inside it.
    """
    down = way.functions[::-1]
    pairs = zip(down[::2], down[1::2], strict=False)
    return [
        _Segment(lower, upper, lower.link, upper.link)
        for upper, lower in pairs
        if lower.link is not None and upper.link is not None
    ][::-1]


def _reading(aspect: _Aspect, segment: _Segment, promised: Value | None) -> _Reading | None:
    current = aspect.current(segment.below)
    lower, upper = aspect.most(segment.below), aspect.most(segment.above)
    if (
        isinstance(current, Unreadable)
        or isinstance(lower, Unreadable)
        or isinstance(upper, Unreadable)
    ):
        return None
    return _Reading(segment, current, min(lower, upper), promised)


def _is_low(reading: _Reading, way: Way, *, idles: bool) -> bool:
    if idles and reading.segment.lower is way.end:
        return reading.able < reading.due
    return reading.current < reading.due


def _finding(aspect: _Aspect, way: Way, worst: _Reading, segments: list[_Segment]) -> Finding:
    able = f"both ends can do {aspect.text(worst.able)}"
    expected = able if worst.due == worst.able else f"at least {aspect.text(worst.due)}; {able}"
    return Finding(
        code=aspect.code,
        where=way.where,
        observed=f"{aspect.text(worst.current)} on {worst.segment.place}",
        expected=expected,
        evidence={segment.place: segment.text() for segment in segments},
    )


def _require_readable(aspect: _Aspect, way: Way, segments: list[_Segment]) -> None:
    for segment in segments:
        gates.readable(aspect.current(segment.below), way.where, f"{aspect.name} {segment.place}")
        for function, link in ((segment.lower, segment.below), (segment.upper, segment.above)):
            what = f"greatest {aspect.name} of {function.slot}"
            gates.readable(aspect.most(link), way.where, what)
