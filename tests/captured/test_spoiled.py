"""Spoiled files: reading never breaks, and what cannot be read is never taken for healthy."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from gdrcheck import probes
from gdrcheck.facts import SLOT_PATTERN, Facts
from gdrcheck.outcome import Outcome
from tests.captured.edits import HOST_FILE, gone, put
from tests.captured.gpus import NVML_RECORD
from tests.captured.machines import MACHINES
from tests.captured.pci import COLLECTED
from tests.captured.rdma import VERBS_RECORD
from tests.captured.reading import opened_below
from tests.captured.running import NODE, promised, run_checks

Spoil = Callable[[bytes], bytes]
HOSTILE = b"4: ACTIVE\x1b[2J <script>alert(1)</script> '; rm -rf /\n\n9" + b"9" * 400
SPOILS: dict[str, Spoil] = {
    "empty": lambda _: b"",
    "truncated": lambda data: data[: len(data) // 2],
    "binary": lambda _: bytes(range(256)) * 4,
    "huge": lambda data: data[:4096] * (1 + (1 << 17) // max(1, len(data[:4096]))),
    "hostile": lambda _: HOSTILE,
}
# Of these nothing can be read any more; a truncated text may still say the same.
UNREADABLE = ("empty", "binary", "huge", "hostile")
RDMA = "sys/class/infiniband"
PCI = "sys/bus/pci/devices"
ODD: tuple[Any, ...] = (
    *(None, True, -1, 1 << 80, float("inf"), float("nan"), 1.5, "", "\x00\ud800", "x" * 70_000),
    *([], {}, [[[]]], {"unreadable": 3}, {"unreadable": "why", "more": 1}, ["x", None]),
)
# Ends of paths that are read, and of which a spoiled one changes nothing, with the reason.
WITHOUT_TRACE = {
    "host/config/#": "only as many bytes are taken as a configuration space has",
    "/config": "without the collector only the header is there, which tells nothing",
    "node_desc": "only of a virtual device, which says there that it is one",
    "gids/#": "an empty slot that cannot be read stays empty; the kernel answers so itself",
}


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("seed", range(4))
def test_reading_never_breaks(name: str, seed: int, tmp_path: Path) -> None:
    chance = random.Random(f"{name} {seed}")
    tree = MACHINES[name]().tree
    for path in chance.sample(sorted(tree.files), len(tree.files) // 5):
        _, spoil = chance.choice(sorted(SPOILS.items()))
        tree.files[path] = spoil(tree.files[path])
    for path in chance.sample(sorted(tree.links), len(tree.links) // 8):
        del tree.links[path]
        tree.files[path] = b"no link"
    tree.write(tmp_path)
    facts = probes.collect(NODE, tmp_path)
    assert Facts.model_validate_json(facts.model_dump_json()) == facts


@pytest.mark.parametrize("record", [HOST_FILE, NVML_RECORD, VERBS_RECORD])
def test_records_of_another_shape_never_break_reading(record: str, tmp_path: Path) -> None:
    root = MACHINES["grace"]().write(tmp_path)
    text = (root / record).read_text()
    for seed in range(40):
        chance = random.Random(f"{record} {seed}")
        document = json.loads(text)
        _replace_somewhere(document, chance)
        (root / record).write_text(json.dumps(document))
        facts = probes.collect(NODE, root)
        assert Facts.model_validate_json(facts.model_dump_json()) == facts, document


def _replace_somewhere(document: Any, chance: random.Random) -> None:
    """Puts something odd in the place of one value, at any depth."""
    place = document
    while True:
        key = chance.choice(list(place) if isinstance(place, dict) else range(len(place)))
        if not isinstance(place[key], dict | list) or not place[key] or chance.random() < 0.3:
            place[key] = chance.choice(ODD)
            return
        place = place[key]


def test_no_file_that_is_read_is_spoiled_without_trace(tmp_path: Path) -> None:
    kinds: set[str] = set()
    unnoticed = []
    for name in ("grace", "vm", "mig", "lab", "roce", "pod"):
        root = MACHINES[name]().write(tmp_path / name)
        with opened_below(root) as opened:
            healthy = probes.collect(NODE, root)
        new = {kind: path for path in sorted(opened) if (kind := kind_of(path)) not in kinds}
        kinds |= set(new)
        for kind, path in new.items():
            if not kind.endswith(tuple(WITHOUT_TRACE)):
                unnoticed += _unnoticed(root, path, healthy)
    assert unnoticed == []


def _unnoticed(root: Path, path: str, healthy: Facts) -> list[str]:
    """The file, with each way of spoiling it that changes nothing in the facts."""
    content = (root / path).read_bytes()
    found = []
    for how in UNREADABLE:
        (root / path).write_bytes(SPOILS[how](content))
        if content.strip() and probes.collect(NODE, root) == healthy:
            found.append(f"{path}: {how}")
    (root / path).write_bytes(content)
    return found


def kind_of(path: str) -> str:
    """The end of the path, without the numbers and addresses in which others of it differ."""
    end = "/".join(path.split("/")[-3:])
    return re.sub(r"[0-9a-f]*\d[0-9a-f]*", "#", re.sub(SLOT_PATTERN.strip("^$"), "#", end))


@dataclass(frozen=True, slots=True)
class Source:
    """A file, and the checks, by their cases, that may not pass when it cannot be read.

    ``harmless``: a way of spoiling after which it is still right.
    """

    machine: str
    path: str
    cases: tuple[str, ...]
    promise: Mapping[str, Any] = field(default_factory=dict)
    harmless: str = ""


PORT = f"{RDMA}/mlx5_1/ports/1"
SOURCES = (
    Source("mig", f"{PORT}/state", ("port_active[node1/mlx5_1]",)),
    Source("mig", f"{PORT}/rate", ("port_rate[node1/mlx5_1]", "port_lanes[node1/mlx5_1]")),
    Source("mig", f"{PORT}/link_layer", ("port_link_layer[node1/mlx5_1]",)),
    Source("mig", f"{PORT}/pkeys/0", ("port_partition[node1/mlx5_1]",), {"pkey": 0xFFFF}),
    Source(
        "mig",
        f"{RDMA}/mlx5_1/fw_ver",
        ("port_firmware[node1/mlx5_1]",),
        {"expect": {"firmware": "20.43.*"}},
    ),
    Source("roce", f"{PORT}/gids/3", ("gid_usable[node1/mlx5_1]",)),
    Source("roce", f"{PORT}/gid_attrs/types/3", ("gid_usable[node1/mlx5_1]",)),
    Source(
        "roce",
        f"{RDMA}/mlx5_1/tc/1/traffic_class",
        ("port_traffic_class[node1/mlx5_1]",),
        harmless="empty",
    ),
    Source("grace", VERBS_RECORD, ("port_mtu[node1/mlx5_0]", "device_opens[node1/mlx5_0]")),
    Source("mig", f"{PCI}/0000:48:00.0/current_link_width", ("pci_link_width[node1/mlx5_1]",)),
    Source("mig", f"{PCI}/0000:42:02.0/max_link_width", ("pci_link_width[node1/mlx5_1]",)),
    Source("mig", f"{PCI}/0000:46:00.0/aer_dev_fatal", ("gpu_pci_errors[node1/gpu1]",)),
    Source("mig", f"{PCI}/0000:46:00.0/class", ("gpu_present[node1/gpu1]",)),
    Source("mig", f"{PCI}/0000:46:00.0/vendor", ("gpu_present[node1/gpu1]",)),
    Source(
        "mig",
        f"{COLLECTED}/0000:42:02.0",
        ("acs[node1/mlx5_1]",),
        {"expect": {"acs_redirect": "off"}},
        harmless="huge",
    ),
    Source(
        "mig",
        f"{COLLECTED}/0000:48:00.0",
        ("relaxed_ordering[node1/mlx5_1]",),
        {"expect": {"relaxed_ordering": True}},
        harmless="huge",
    ),
    Source("vm", NVML_RECORD, ("nvml_answers[node1]", "gpu_model[node1/gpu0]")),
    Source("vm", HOST_FILE, ("os[node1]", "ofed[node1]"), {"expect": {"ofed": "inbox"}}),
    Source(
        "vm",
        "proc/driver/nvidia/version",
        ("nvidia_module_kind[node1]",),
        {"expect": {"open_module": True}},
    ),
    Source("lab", "proc/sys/kernel/osrelease", ("kernel[node1]",)),
    Source("roce", "sys/kernel/iommu_groups/2/type", ("iommu[node1]",)),
    Source("roce", "etc/libibverbs.d/mlx5.driver", ("providers[node1]",)),
    Source("pod", "proc/self/net/route", ("rails_keep_addresses_apart[node1]",)),
)


@pytest.mark.parametrize(
    ("source", "how"),
    [
        pytest.param(one, how, id=f"{one.machine}/{one.path.rpartition('/')[2]}-{how}")
        for one in SOURCES
        for how in UNREADABLE
        if how != one.harmless
    ],
)
def test_a_check_whose_source_is_spoiled_never_passes(
    source: Source, how: str, tmp_path: Path
) -> None:
    machine = MACHINES[source.machine]()
    root = machine.write(tmp_path / "root")
    content = (root / source.path).read_bytes()
    (root / source.path).write_bytes(SPOILS[how](content))
    ran = run_checks(root, promised(machine.profile, source.promise), tmp_path / "out")
    outcomes = {name: ran.cases[name].outcome for name in source.cases}
    assert not {Outcome.PASSED, Outcome.SKIPPED, Outcome.NOT_JUDGED} & set(outcomes.values())


@pytest.mark.parametrize("client", ["nv_mem", "nv_mem_nc"])
def test_a_list_of_peers_that_cannot_be_read_is_no_list_of_peers(
    client: str, tmp_path: Path
) -> None:
    machine = MACHINES["mig"]()
    root = machine.write(tmp_path / "root")
    gone("sys/kernel/mm/memory_peers")(root)
    put("sys/kernel/mm/memory_peers", client)(root)
    ran = run_checks(root, machine.profile, tmp_path / "out")
    assert ran.cases["peermem_registered[node1]"].outcome is Outcome.ERROR
