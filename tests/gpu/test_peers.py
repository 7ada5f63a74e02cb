"""Two GPUs that use each other's memory, and what is said of them beside nvidia-smi's words."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from gdrcheck.facts import Facts, Nvml
from gdrcheck.gpu import peers
from gdrcheck.gpu.context import Gpu, open_gpu
from gdrcheck.gpu.devices import GpuDevice
from gdrcheck.show.matrix import topology_of
from tests.gpu_layer.peer_bodies import RUN_TAG, AnyPair, Pair

pytestmark = pytest.mark.gpu

TOOL_S = 60
# nvidia-smi's words for what NVML says of two GPUs (its own legend).
STATUS = {
    "OK": "ok",
    "CNS": "chipset not supported",
    "GNS": "GPU not supported",
    "TNS": "topology not supported",
    "NS": "not supported",
}


@pytest.fixture(scope="module")
def gpus(devices: tuple[GpuDevice, ...]) -> Iterator[tuple[Gpu, ...]]:
    if len(devices) < 2:
        pytest.skip("needs two GPUs, and this machine has one")
    with ExitStack() as stack:
        yield tuple(stack.enter_context(open_gpu(device)) for device in devices)


@pytest.fixture
def pair(gpus: tuple[Gpu, ...]) -> Pair:
    return gpus[0], gpus[-1]


class TestTheFirstAndTheLast(AnyPair):
    """All that holds of any two."""


def test_all_pairs_are_measured(
    gpus: tuple[Gpu, ...], record_property: Callable[[str, object], None]
) -> None:
    rates: list[float] = []
    for number, one in enumerate(gpus):
        for other in gpus[number + 1 :]:
            for way in peers.exchange(one, other, RUN_TAG):
                assert all(each.verdict.right for each in way.transfers)
                assert way.rate.wrong is None
                rates.append(way.rate.gbytes_per_s)
    record_property("pairs of GPUs", f"{len(rates) // 2}")
    record_property("copy one way", f"{min(rates):.0f} to {max(rates):.0f} GB/s")


def told(*options: str) -> dict[str, dict[str, str]]:
    """The matrix that ``nvidia-smi topo`` prints: by row and column, ``GPU0`` and so on."""
    done = subprocess.run(
        ["nvidia-smi", "topo", *options], capture_output=True, text=True, timeout=TOOL_S, check=True
    )
    plain = re.sub(r"\x1b\[\d*m", "", done.stdout).partition("Legend")[0]
    lines = [[cell.strip() for cell in line.split("\t")] for line in plain.splitlines()]
    head, *rows = [line for line in lines if any(cell.startswith("GPU") for cell in line)]
    columns = [(at, cell) for at, cell in enumerate(head) if re.fullmatch(r"GPU\d+", cell)]
    return {row[0]: {name: row[at] for at, name in columns} for row in rows}


def test_the_matrix_of_gpus_is_that_of_nvidia_smi(facts: Facts) -> None:
    links = topology_of(facts, (), "topology").gpu_links
    ours = {
        one.upper(): {other.upper(): word for other, word in row.items()}
        for one, row in links.items()
    }
    # Its rows of NICs are left out: this matrix has none.
    theirs = {name: row for name, row in told("-m").items() if name.startswith("GPU")}
    assert ours == theirs


@pytest.mark.parametrize(("option", "name"), [("r", "read"), ("w", "write"), ("n", "nvlink")])
def test_what_nvml_says_of_two_gpus_is_what_nvidia_smi_says(
    facts: Facts, option: str, name: str
) -> None:
    assert isinstance(facts.nvml, Nvml)
    assert isinstance(facts.nvml.peers, tuple), facts.nvml.peers
    numbers = {gpu.slot: f"GPU{number}" for number, gpu in enumerate(facts.nvml.gpus)}
    theirs = told("-p2p", option)
    ours = {(numbers[one.slot], numbers[one.peer]): getattr(one, name) for one in facts.nvml.peers}
    assert ours == {
        (row, column): STATUS[word]
        for row, cells in theirs.items()
        for column, word in cells.items()
        if row != column
    }
