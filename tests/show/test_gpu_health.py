"""A GPU's health in lines: everything is told, and what is wrong stands out by its words."""

from __future__ import annotations

from gdrcheck.facts import Facts, GpuHealth, Unreadable
from gdrcheck.show import devices, gpu_health
from gdrcheck.show.words import Gaps
from tests import facts as build
from tests.gpu_facts import gpu_health as healthy
from tests.gpu_facts import gpu_peer, nvlink, nvlinks

WHY = Unreadable(unreadable="NVML: so it is")


def text(value: GpuHealth | Unreadable, gaps: Gaps | None = None) -> str:
    """All lines as one."""
    lines = gpu_health.health(value, gaps or Gaps())
    return " ".join(" ".join(lines).split())


def test_a_healthy_gpu_shows_all_that_was_read() -> None:
    assert text(healthy()) == (
        "VBIOS 96.00.A5.00.1A, board 692-2G520-0282-001, GSP firmware 580.95.05, "
        "persistence mode on "
        "ECC: enabled, 0 correctable and 0 uncorrectable errors since the driver was loaded, "
        "0 correctable and 0 uncorrectable errors ever "
        "remapped rows 0 for correctable and 0 for uncorrectable errors, recovery action none "
        "clocks: 345 of 1980 MHz, memory 3201 of 3201 MHz, limited by: idle "
        "power: 81.6 W, limit 700 W (default 700 W, at most 700 W) "
        "temperature: 41 °C, memory 41 °C; slows down at 89 °C, switches off at 95 °C "
        "PCIe at this moment: generation 1 of 5, width 16 of 16, 2 replays "
        "NVLinks: 18 of 18 up; to a switch, 26.562 GB/s each; errors: none"
    )


def test_what_is_wrong_with_memory_is_told() -> None:
    shown = text(
        healthy(
            ecc={
                "pending": "disabled",
                "volatile": {"correctable": 1, "uncorrectable": 2},
                "aggregate": {"correctable": None, "uncorrectable": None},
                "sram_threshold_exceeded": True,
            },
            row_remap={"correctable": 3, "uncorrectable": 4, "pending": True, "failed": True},
            retired_pages={"single_bit": 5, "double_bit": 6, "pending": True},
        )
    )
    assert (
        "ECC: enabled, disabled after the next reset, 1 correctable and 2 uncorrectable errors "
        "since the driver was loaded, no errors counted ever, more errors in SRAM than a healthy "
        "GPU has"
    ) in shown
    assert "3 for correctable and 4 for uncorrectable errors (waits for a reset) (failed)" in shown
    assert "5 for single-bit and 6 for double-bit errors (waits for a reset)" in shown


def test_links_of_several_kinds_are_told_apart() -> None:
    changed = (
        nvlink(3, active=False, remote=None),
        nvlink(4, remote="gpu", remote_slot="0000:1c:00.0"),
        nvlink(5, remote="gpu", remote_slot="0000:1c:00.0", replay_errors=7, crc_errors=8),
    )
    assert text(healthy(nvlinks=nvlinks(*changed, count=8))).endswith(
        "NVLinks: 7 of 8 up; 0-2 6-7: to a switch, 26.562 GB/s each; "
        "4-5: to a GPU at 0000:1c:00.0, 26.562 GB/s each; down: 3; "
        "errors: link 5 replay 7, link 5 CRC 8"
    )
    assert text(healthy(nvlinks=())).endswith("NVLinks: none")


def test_what_a_gpu_does_not_have_is_not_available() -> None:
    shown = text(
        healthy(
            ecc=None,
            row_remap=None,
            recovery_action=None,
            clock_limits=None,
            power={"limit_w": None},
            nvlinks=(nvlink(0, replay_errors=None, recovery_errors=None, crc_errors=None),),
        )
    )
    for words in (
        "ECC: not available",
        "recovery action not available",
        "limited by: not available",
        "limit not available W",
    ):
        assert words in shown
    assert "errors" not in shown


def test_what_was_not_read_is_noted_and_never_looks_healthy() -> None:
    gaps = Gaps()
    shown = text(
        healthy(
            ecc=WHY,
            row_remap=WHY,
            recovery_action=WHY,
            clock_limits=WHY,
            temperature={"gpu_c": WHY},
            nvlinks=(nvlink(0, active=WHY), nvlink(1, replay_errors=WHY, speed_mbytes_per_s=WHY)),
        ),
        gaps,
    )
    for words in ("ECC: ?", "remapped rows ?", "recovery action ?", "limited by: ?", "1 of 2 up"):
        assert words in shown
    (told,) = [" ".join(gaps.lines()[1:])]
    for what in ("ECC", "remapped rows", "clocks", "temperatures", "errors of NVLinks"):
        assert what in told
    gaps = Gaps()
    assert gpu_health.health(WHY, gaps) == []
    assert gaps.lines() == ["not read:", "  NVML: so it is: health of GPUs"]


def test_gpus_of_a_node_say_whether_they_reach_each_other() -> None:
    slots = (build.GPU_SLOT, "0000:1c:00.0")
    both = (gpu_peer(*slots), gpu_peer(*reversed(slots)))
    assert devices.gpus(with_peers(*both), Gaps())[-2:] == [
        "  confidential computing: not available",
        "  access between GPUs: read ok, write ok, NVLink ok: each GPU to each other",
    ]
    one_way = (both[0], gpu_peer(*reversed(slots), write="disabled"))
    assert devices.gpus(with_peers(*one_way), Gaps())[-2:] == [
        "  access between GPUs: read ok, write ok, NVLink ok: gpu0 to 0000:1c:00.0",
        "  access between GPUs: read ok, write disabled, NVLink ok: 0000:1c:00.0 to gpu0",
    ]
    gaps = Gaps()
    devices.gpus(build.facts(nvml=build.nvml(peers=WHY)), gaps)
    assert gaps.lines() == ["not read:", "  NVML: so it is: access between GPUs"]


def with_peers(*peers: object) -> Facts:
    return build.facts(nvml=build.nvml(peers=peers))
