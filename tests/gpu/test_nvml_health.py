"""What the probe says of a real GPU's health, against what nvidia-smi says of the same GPU."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from gdrcheck.facts import Gpu, GpuHealth, Nvml, Unreadable
from gdrcheck.facts.base import FactsModel
from gdrcheck.probes.gpu import read_nvml
from tests.gpu import smi

pytestmark = pytest.mark.gpu

LIVE_ROOT = Path("/")
TOOL_S = 60
# A GPU that does nothing changes its temperature slowly; this is the least that tells a wrong unit
# or another sensor's value.
NEAR_C = 15


@dataclass(frozen=True)
class Answers:
    """What the probe and then the tool said: counters of the tool are never the smaller ones."""

    nvml: Nvml
    query: dict[str, smi.Rows]
    speeds: dict[str, dict[int, float | None]]
    errors: dict[str, dict[tuple[int, str], int]]

    @property
    def pairs(self) -> list[tuple[Gpu, smi.Rows]]:
        return [(gpu, self.query[str(gpu.uuid)]) for gpu in self.nvml.gpus]


def tool(*options: str) -> str:
    return subprocess.run(
        ["nvidia-smi", *options], capture_output=True, text=True, timeout=TOOL_S, check=True
    ).stdout


@pytest.fixture(scope="module")
def answers() -> Answers:
    nvml = read_nvml(LIVE_ROOT)
    assert isinstance(nvml, Nvml), nvml
    assert nvml.gpus
    return Answers(
        nvml=nvml,
        query=smi.gpus(tool("-q")),
        speeds=smi.link_speeds(tool("nvlink", "-s")),
        errors=smi.link_errors(tool("nvlink", "-e")),
    )


def at(value: object, path: str) -> object:
    """The fact at ``ecc.volatile``; None when something on the way is not there."""
    for name in path.split("."):
        if value is None:
            return None
        value = getattr(value, name)
    return value


def unreadable(value: object, path: str = "") -> dict[str, str]:
    """Everything below a fact that was not read, with its reason."""
    if isinstance(value, Unreadable):
        return {path: value.unreadable}
    if isinstance(value, tuple):
        parts = {str(number): one for number, one in enumerate(value)}
    elif isinstance(value, FactsModel):
        parts = {name: getattr(value, name) for name in type(value).model_fields}
    else:
        return {}
    found: dict[str, str] = {}
    for name, one in parts.items():
        found |= unreadable(one, f"{path}.{name}")
    return found


def test_everything_could_be_read(answers: Answers) -> None:
    assert unreadable(answers.nvml) == {}


def test_each_value_is_that_of_nvidia_smi(answers: Answers) -> None:
    for gpu, rows in answers.pairs:
        theirs = smi.health(rows)
        assert {path: at(gpu.health, path) for path in theirs} == theirs


def test_values_that_move_are_near_those_of_nvidia_smi(answers: Answers) -> None:
    for gpu, rows in answers.pairs:
        theirs = smi.moving(rows)
        replays, expected = at(gpu.health, "pcie.replays"), theirs.pop("pcie.replays")
        if expected is None:
            assert replays is None
        else:
            assert isinstance(replays, int)
            assert replays <= expected
        for path, celsius in theirs.items():
            ours = at(gpu.health, path)
            if celsius is None:
                assert ours is None
            else:
                assert isinstance(ours, int)
                assert abs(ours - celsius) <= NEAR_C, path


def test_each_nvlink_is_that_of_nvidia_smi(answers: Answers) -> None:
    for gpu in answers.nvml.gpus:
        assert isinstance(gpu.health, GpuHealth)
        assert isinstance(gpu.health.nvlinks, tuple)
        ours = {
            link.number: link.speed_mbytes_per_s / 1000
            if link.active and isinstance(link.speed_mbytes_per_s, int)
            else None
            for link in gpu.health.nvlinks
        }
        assert ours == answers.speeds.get(str(gpu.uuid), {})


def test_the_errors_of_each_nvlink_are_those_of_nvidia_smi(answers: Answers) -> None:
    for gpu in answers.nvml.gpus:
        assert isinstance(gpu.health, GpuHealth)
        assert isinstance(gpu.health.nvlinks, tuple)
        ours = {
            (link.number, kind): count
            for link in gpu.health.nvlinks
            for kind, count in (
                ("Replay", link.replay_errors),
                ("Recovery", link.recovery_errors),
                ("CRC", link.crc_errors),
            )
            if count is not None
        }
        assert ours == answers.errors.get(str(gpu.uuid), {})
