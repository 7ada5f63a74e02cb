"""The PCI Express tree in lines."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

from gdrcheck.facts import Facts, PciFunction, PciTree, Unreadable
from gdrcheck.show import words
from gdrcheck.show.words import Gaps

# No real tree is deeper; a broken one must not fill the screen with blanks.
MAX_DEPTH = 16
SETTINGS = "ACS, payload and ordering"


def names_of(facts: Facts) -> dict[str, list[str]]:
    """Slot → the names by which GPUs and RDMA devices there are known."""
    names: defaultdict[str, list[str]] = defaultdict(list)
    if not isinstance(facts.pci, Unreadable):
        for number, gpu in enumerate(facts.pci.nvidia_gpus):
            names[gpu.slot].append(f"gpu{number}")
    if not isinstance(facts.rdma_devices, Unreadable):
        for device in facts.rdma_devices:
            if device.slot is not None:
                names[device.slot].append(device.name)
    return dict(names)


def tree(facts: Facts, gaps: Gaps) -> list[str]:
    """Host bridges, and below each its functions, indented by depth, with their links."""
    if isinstance(facts.pci, Unreadable):
        gaps.note(facts.pci, "PCI Express tree")
        return []
    names = names_of(facts)
    lines: list[str] = []
    for root_bus, function, depth in _walk(facts.pci):
        if function is None:
            lines.append(root_bus)
        else:
            indent = "  " * min(depth, MAX_DEPTH)
            lines.append(f"{indent}{_function(function, names, gaps)}")
    for slot, why in facts.pci.misplaced.items():
        gaps.note(Unreadable(unreadable=why), f"place of {slot}")
    return lines


def _walk(tree: PciTree) -> Iterator[tuple[str, PciFunction | None, int]]:
    """Each host bridge, then what is below it: bus, function (None: the bridge itself), depth.

    Functions whose parents go in a circle come last, below their host bridge.
    """
    slots = {function.slot for function in tree.functions}
    below: defaultdict[str, list[PciFunction]] = defaultdict(list)
    tops: defaultdict[str, list[PciFunction]] = defaultdict(list)
    for function in tree.functions:
        if function.parent in slots and function.parent is not None:
            below[function.parent].append(function)
        else:
            tops[function.root_bus].append(function)
    seen: set[str] = set()
    for root_bus, functions in tops.items():
        yield root_bus, None, 0
        stack = [(function, 1) for function in reversed(functions)]
        while stack:
            function, depth = stack.pop()
            seen.add(function.slot)
            yield root_bus, function, depth
            stack += [(one, depth + 1) for one in reversed(below.pop(function.slot, []))]
    for function in tree.functions:
        if function.slot not in seen:
            yield function.root_bus, function, 1


def _function(function: PciFunction, names: Mapping[str, list[str]], gaps: Gaps) -> str:
    parts = [function.slot, ", ".join(names.get(function.slot, [])) or _kind(function)]
    if function.link is not None:
        parts.append(words.link(function.link, gaps, "PCIe link"))
    if isinstance(function.numa_node, Unreadable):
        gaps.note(function.numa_node, "NUMA node")
    elif function.numa_node is not None:
        parts.append(f"NUMA node {function.numa_node}")
    if not function.is_bridge:
        parts.append(f"driver {function.driver}" if function.driver else "no driver")
    return "  ".join([*parts, *_settings(function, gaps), *_errors(function, gaps)])


def _kind(function: PciFunction) -> str:
    if function.is_nvswitch:
        return "NVSwitch"
    if not function.is_bridge:
        return f"{function.vendor:04x}:{function.device:04x}"
    settings = function.settings
    if settings is None or isinstance(settings, Unreadable):
        return "bridge"
    return settings.port_type


def _settings(function: PciFunction, gaps: Gaps) -> Iterator[str]:
    settings = function.settings
    if isinstance(settings, Unreadable):
        gaps.note(settings, SETTINGS)
    elif settings is not None and function.is_bridge:
        yield words.acs(settings.acs, gaps)


def settings(function: PciFunction | None, gaps: Gaps) -> list[str]:
    """How a GPU or NIC talks on PCI Express, in a line; none when there is nothing to tell."""
    found = None if function is None else function.settings
    if isinstance(found, Unreadable):
        gaps.note(found, SETTINGS)
        return ["    PCIe: ?"]
    if found is None:
        return [] if function is None else ["    PCIe: no PCI Express capability"]
    ats = "no ATS capability"
    if found.ats_enabled is not None:
        ats = f"ATS {gaps.text(found.ats_enabled, 'ATS', _on)}"
    parts = (
        f"payload {found.max_payload_bytes} of {found.max_payload_supported_bytes} bytes",
        f"read request {found.max_read_request_bytes} bytes",
        f"relaxed ordering {_on(found.relaxed_ordering)}",
        ats,
        words.acs(found.acs, gaps),
    )
    return words.wrapped(f"PCIe: {', '.join(parts)}", "    ")


def _on(value: bool) -> str:
    return "on" if value else "off"


def _errors(function: PciFunction, gaps: Gaps) -> Iterator[str]:
    for kind, count in (("fatal", function.aer_fatal), ("non-fatal", function.aer_nonfatal)):
        if isinstance(count, Unreadable):
            gaps.note(count, "AER counters")
        elif count:
            yield f"AER {kind} errors {count}"
