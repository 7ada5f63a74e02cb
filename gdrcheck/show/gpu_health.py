"""A GPU's health in lines, and what the driver says of each two GPUs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

from gdrcheck.facts import Ecc, EccCounts, GpuHealth, NvLink, Nvml, Unreadable
from gdrcheck.show.words import Gaps, wrapped

INDENT = "    "
NOT_THERE = "not available"
ENDS = {
    "gpu": "to a GPU",
    "switch": "to a switch",
    "other": "to something else",
    None: "to an unknown end",
}
Number = int | float | Unreadable | None


def health(value: GpuHealth | Unreadable, gaps: Gaps) -> list[str]:
    """The lines below a GPU."""
    if isinstance(value, Unreadable):
        gaps.note(value, "health of GPUs")
        return []
    texts = (
        _board(value, gaps),
        f"ECC: {_ecc(value.ecc, gaps)}",
        _repairs(value, gaps),
        _clocks(value, gaps),
        _power(value, gaps),
        _temperature(value, gaps),
        _pcie(value, gaps),
        f"NVLinks: {_nvlinks(value.nvlinks, gaps)}",
    )
    return [line for text in texts for line in wrapped(text, INDENT)]


def machine(nvml: Nvml, names: Mapping[str, str], gaps: Gaps) -> list[str]:
    """The lines of all GPUs together; ``names`` are theirs by slot."""
    mode = nvml.confidential_computing
    text = NOT_THERE if mode is None else gaps.text(mode, "confidential computing")
    lines = wrapped(f"confidential computing: {text}")
    if isinstance(nvml.peers, Unreadable):
        gaps.note(nvml.peers, "access between GPUs")
        return lines
    ways: defaultdict[str, list[str]] = defaultdict(list)
    for peer in nvml.peers:
        said = ", ".join(
            f"{what} {gaps.text(value, 'access between GPUs')}"
            for what, value in (("read", peer.read), ("write", peer.write), ("NVLink", peer.nvlink))
        )
        one, other = (names.get(slot, slot) for slot in (peer.slot, peer.peer))
        ways[said].append(f"{one} to {other}")
    for said, which in ways.items():
        among = "each GPU to each other" if len(ways) == 1 else ", ".join(which)
        lines += wrapped(f"access between GPUs: {said}: {among}")
    return lines


def _text(value: str | Number, what: str, gaps: Gaps) -> str:
    if value is None:
        return NOT_THERE
    return gaps.text(value, what, lambda one: f"{one:g}" if isinstance(one, float) else str(one))


def _board(value: GpuHealth, gaps: Gaps) -> str:
    return ", ".join(
        (
            f"VBIOS {_text(value.vbios, 'VBIOS', gaps)}",
            f"board {_text(value.board_part, 'board part number', gaps)}",
            f"GSP firmware {_text(value.gsp_firmware, 'GSP firmware', gaps)}",
            f"persistence mode {_text(value.persistence, 'persistence mode', gaps)}",
        )
    )


def _ecc(ecc: Ecc | Unreadable | None, gaps: Gaps) -> str:
    if ecc is None:
        return NOT_THERE
    if isinstance(ecc, Unreadable):
        return gaps.text(ecc, "ECC")
    parts: list[str] = [ecc.mode]
    if ecc.pending != ecc.mode:
        parts.append(f"{ecc.pending} after the next reset")
    parts.append(f"{_counts(ecc.volatile, gaps)} since the driver was loaded")
    parts.append(f"{_counts(ecc.aggregate, gaps)} ever")
    if isinstance(ecc.sram_threshold_exceeded, Unreadable):
        gaps.note(ecc.sram_threshold_exceeded, "threshold of SRAM errors")
    elif ecc.sram_threshold_exceeded:
        parts.append("more errors in SRAM than a healthy GPU has")
    return ", ".join(parts)


def _counts(counts: EccCounts, gaps: Gaps) -> str:
    """``0 correctable and 0 uncorrectable errors``."""
    correctable = _text(counts.correctable, "ECC errors", gaps)
    uncorrectable = _text(counts.uncorrectable, "ECC errors", gaps)
    if correctable == uncorrectable == NOT_THERE:
        return "no errors counted"
    return f"{correctable} correctable and {uncorrectable} uncorrectable errors"


def _repairs(value: GpuHealth, gaps: Gaps) -> str:
    parts = []
    rows, pages = value.row_remap, value.retired_pages
    if isinstance(rows, Unreadable):
        parts.append(f"remapped rows {gaps.text(rows, 'remapped rows')}")
    elif rows is not None:
        parts.append(
            f"remapped rows {rows.correctable} for correctable and {rows.uncorrectable} for "
            f"uncorrectable errors{_state(rows.pending, rows.failed)}"
        )
    if isinstance(pages, Unreadable):
        parts.append(f"retired pages {gaps.text(pages, 'retired pages')}")
    elif pages is not None:
        parts.append(
            f"retired pages {pages.single_bit} for single-bit and {pages.double_bit} for "
            f"double-bit errors{_state(pages.pending, failed=False)}"
        )
    parts.append(f"recovery action {_text(value.recovery_action, 'recovery action', gaps)}")
    return ", ".join(parts)


def _state(pending: bool, failed: bool) -> str:
    return (" (waits for a reset)" if pending else "") + (" (failed)" if failed else "")


def _clocks(value: GpuHealth, gaps: Gaps) -> str:
    clocks, limits = value.clocks, value.clock_limits
    graphics = _of(clocks.graphics_mhz, clocks.max_graphics_mhz, "clocks", gaps)
    memory = _of(clocks.memory_mhz, clocks.max_memory_mhz, "clocks", gaps)
    if limits is None:
        why = NOT_THERE
    else:
        why = gaps.text(limits, "limits of the clocks", ", ".join) or "nothing"
    return f"clocks: {graphics} MHz, memory {memory} MHz, limited by: {why}"


def _of(value: Number, most: Number, what: str, gaps: Gaps) -> str:
    """``345 of 1980``: a value and the most that it may be."""
    return f"{_text(value, what, gaps)} of {_text(most, what, gaps)}"


def _power(value: GpuHealth, gaps: Gaps) -> str:
    power = value.power
    draw, limit, default, most = (
        _text(one, "power", gaps)
        for one in (power.draw_w, power.limit_w, power.default_w, power.max_w)
    )
    return f"power: {draw} W, limit {limit} W (default {default} W, at most {most} W)"


def _temperature(value: GpuHealth, gaps: Gaps) -> str:
    of = value.temperature
    gpu, memory, slowdown, shutdown = (
        _text(one, "temperatures", gaps)
        for one in (of.gpu_c, of.memory_c, of.slowdown_c, of.shutdown_c)
    )
    return (
        f"temperature: {gpu} °C, memory {memory} °C; slows down at {slowdown} °C, "
        f"switches off at {shutdown} °C"
    )


def _pcie(value: GpuHealth, gaps: Gaps) -> str:
    link = value.pcie
    generation = _of(link.generation, link.max_generation, "PCIe link of GPUs", gaps)
    width = _of(link.width, link.max_width, "PCIe link of GPUs", gaps)
    replays = _text(link.replays, "PCIe link of GPUs", gaps)
    return f"PCIe at this moment: generation {generation}, width {width}, {replays} replays"


def _nvlinks(links: tuple[NvLink, ...] | Unreadable, gaps: Gaps) -> str:
    if isinstance(links, Unreadable):
        return gaps.text(links, "NVLinks")
    if not links:
        return "none"
    up = [link for link in links if link.active is True]
    parts = [f"{len(up)} of {len(links)} up"]
    kinds: defaultdict[str, list[int]] = defaultdict(list)
    for link in up:
        kinds[_end(link, gaps)].append(link.number)
    parts += [
        end if len(kinds) == 1 else f"{_numbers(numbers)}: {end}" for end, numbers in kinds.items()
    ]
    down = [link.number for link in links if link.active is False]
    if down:
        parts.append(f"down: {_numbers(down)}")
    unknown = [link for link in links if isinstance(link.active, Unreadable)]
    parts += [f"link {one.number} {gaps.text(one.active, 'NVLinks')}" for one in unknown]
    return "; ".join([*parts, *_errors(up, gaps)])


def _end(link: NvLink, gaps: Gaps) -> str:
    """``to a switch, 26.562 GB/s each``: where a link goes, and how fast, one way."""
    end = ENDS[None] if link.remote is None else gaps.text(link.remote, "NVLinks", ENDS.__getitem__)
    at = f" at {link.remote_slot}" if link.remote_slot else ""
    speed = link.speed_mbytes_per_s
    if isinstance(speed, int):
        return f"{end}{at}, {speed / 1000:g} GB/s each"
    return f"{end}{at}, speed {_text(speed, 'speed of NVLinks', gaps)}"


def _errors(links: list[NvLink], gaps: Gaps) -> Iterator[str]:
    """The links that counted errors; else that none did."""
    counted = []
    told = False
    for link in links:
        for what, value in (
            ("replay", link.replay_errors),
            ("recovery", link.recovery_errors),
            ("CRC", link.crc_errors),
        ):
            if isinstance(value, Unreadable):
                gaps.note(value, "errors of NVLinks")
            elif value is not None:
                told = True
                if value:
                    counted.append(f"link {link.number} {what} {value}")
    if told:
        yield f"errors: {', '.join(counted) or 'none'}"


def _numbers(numbers: list[int]) -> str:
    """``0-3 7``: numbers in order, those that follow each other as one range."""
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and ranges[-1][-1] + 1 == number:
            ranges[-1] = [ranges[-1][0], number]
        else:
            ranges.append([number, number])
    return " ".join(f"{a}" if a == b else f"{a}-{b}" for a, b in ranges)
