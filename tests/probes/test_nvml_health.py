"""The NVML probe about health, NVLinks and peers: what the binding makes of a library's answers."""

from __future__ import annotations

from typing import Any

import pynvml
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gdrcheck.facts import (
    Clocks,
    Ecc,
    EccCounts,
    GpuHealth,
    GpuPeer,
    NvLink,
    Nvml,
    PcieLink,
    Power,
    RetiredPages,
    RowRemap,
    Temperature,
    Unreadable,
)
from gdrcheck.facts.gpu_health import CLOCK_LIMITS
from gdrcheck.probes import nvml_child
from tests.probes.fake_nvml import FakeGpu, FakeLibrary
from tests.probes.fake_nvml_health import FakeHealth, FakeLink

LOST = pynvml.NVML_ERROR_GPU_IS_LOST
UNSUPPORTED = pynvml.NVML_ERROR_NOT_SUPPORTED
UNKNOWN = pynvml.NVML_ERROR_UNKNOWN
NO_FUNCTION = pynvml.NVML_ERROR_FUNCTION_NOT_FOUND
WHY = Unreadable(unreadable="NVML: NVML_ERROR_UNKNOWN (999): Unknown Error")
RECOVERY = pynvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION
MEMORY_C = pynvml.NVML_FI_DEV_MEMORY_TEMP
SPEED = pynvml.NVML_FI_DEV_NVLINK_GET_SPEED
# Models whose values are asked one by one.
GROUPS = (GpuHealth, Ecc, EccCounts, Clocks, Power, Temperature, PcieLink, NvLink)
# Each function of NVML, and the values that come from it alone.
SOURCES = {
    "nvmlDeviceGetVbiosVersion": ("vbios",),
    "nvmlDeviceGetBoardPartNumber": ("board_part",),
    "nvmlDeviceGetGspFirmwareVersion": ("gsp_firmware",),
    "nvmlDeviceGetPersistenceMode": ("persistence",),
    "nvmlDeviceGetEccMode": ("ecc",),
    "nvmlDeviceGetTotalEccErrors": (
        "ecc.volatile.correctable",
        "ecc.volatile.uncorrectable",
        "ecc.aggregate.correctable",
        "ecc.aggregate.uncorrectable",
    ),
    "nvmlDeviceGetSramEccErrorStatus": ("ecc.sram_threshold_exceeded",),
    "nvmlDeviceGetRemappedRows": ("row_remap",),
    "nvmlDeviceGetRetiredPages": ("retired_pages",),
    "nvmlDeviceGetClockInfo": ("clocks.graphics_mhz", "clocks.memory_mhz"),
    "nvmlDeviceGetMaxClockInfo": ("clocks.max_graphics_mhz", "clocks.max_memory_mhz"),
    "nvmlDeviceGetCurrentClocksEventReasons": ("clock_limits",),
    "nvmlDeviceGetPowerUsage": ("power.draw_w",),
    "nvmlDeviceGetEnforcedPowerLimit": ("power.limit_w",),
    "nvmlDeviceGetPowerManagementDefaultLimit": ("power.default_w",),
    "nvmlDeviceGetPowerManagementLimitConstraints": ("power.max_w",),
    "nvmlDeviceGetTemperature": ("temperature.gpu_c",),
    "nvmlDeviceGetTemperatureThreshold": ("temperature.slowdown_c", "temperature.shutdown_c"),
    "nvmlDeviceGetCurrPcieLinkGeneration": ("pcie.generation",),
    "nvmlDeviceGetCurrPcieLinkWidth": ("pcie.width",),
    "nvmlDeviceGetMaxPcieLinkGeneration": ("pcie.max_generation",),
    "nvmlDeviceGetMaxPcieLinkWidth": ("pcie.max_width",),
    "nvmlDeviceGetPcieReplayCounter": ("pcie.replays",),
    "nvmlDeviceGetFieldValues": (
        "recovery_action",
        "temperature.memory_c",
        "nvlinks.0.speed_mbytes_per_s",
    ),
    "nvmlDeviceGetNvLinkRemoteDeviceType": ("nvlinks.0.remote",),
    "nvmlDeviceGetNvLinkVersion": ("nvlinks.0.version",),
    "nvmlDeviceGetNvLinkErrorCounter": (
        "nvlinks.0.replay_errors",
        "nvlinks.0.recovery_errors",
        "nvlinks.0.crc_errors",
    ),
}


def read(monkeypatch: pytest.MonkeyPatch, *gpus: FakeGpu, **errors: int) -> Nvml:
    FakeLibrary(*gpus, errors=errors).install(monkeypatch)
    answer = nvml_child.read()
    assert isinstance(answer, Nvml)
    return answer


def health(
    monkeypatch: pytest.MonkeyPatch, errors: dict[str, int] | None = None, **values: Any
) -> GpuHealth:
    values = {"links": (FakeLink(),)} | values
    (one,) = read(monkeypatch, FakeGpu(errors=errors or {}, health=FakeHealth(**values))).gpus
    assert isinstance(one.health, GpuHealth)
    return one.health


def flat(value: Any, path: str = "") -> dict[str, Any]:
    """Every value that stands alone, by its path: those of models and of lists of models."""
    if isinstance(value, tuple) and value and isinstance(value[0], NvLink):
        items = {str(number): one for number, one in enumerate(value)}
    elif isinstance(value, GROUPS):
        items = {name: getattr(value, name) for name in type(value).model_fields}
    else:
        return {path: value}
    found: dict[str, Any] = {}
    for name, item in items.items():
        found |= flat(item, f"{path}.{name}".lstrip("."))
    return found


def test_the_health_of_a_gpu_is_read_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    none = EccCounts(correctable=0, uncorrectable=0)
    assert health(monkeypatch) == GpuHealth(
        vbios="96.00.A5.00.1A",
        board_part="692-2G520-0282-001",
        gsp_firmware="580.159.04",
        persistence="on",
        ecc=Ecc(
            mode="enabled",
            pending="enabled",
            volatile=none,
            aggregate=none,
            sram_threshold_exceeded=False,
        ),
        row_remap=RowRemap(correctable=0, uncorrectable=0, pending=False, failed=False),
        retired_pages=None,
        recovery_action="none",
        clocks=Clocks(
            graphics_mhz=345, memory_mhz=3201, max_graphics_mhz=1980, max_memory_mhz=3202
        ),
        clock_limits=("idle",),
        power=Power(draw_w=81.6, limit_w=700, default_w=700, max_w=700),
        temperature=Temperature(gpu_c=40, memory_c=41, slowdown_c=89, shutdown_c=95),
        pcie=PcieLink(generation=1, width=16, max_generation=5, max_width=16, replays=2),
        nvlinks=(
            NvLink(
                number=0,
                active=True,
                remote="switch",
                remote_slot=None,
                version=6,
                speed_mbytes_per_s=26562,
                replay_errors=0,
                recovery_errors=0,
                crc_errors=0,
            ),
        ),
    )


@pytest.mark.parametrize(("function", "places"), SOURCES.items())
def test_what_one_function_does_not_tell_leaves_the_rest(
    monkeypatch: pytest.MonkeyPatch, function: str, places: tuple[str, ...]
) -> None:
    before = flat(health(monkeypatch))
    for code, expected in ((UNKNOWN, WHY), (UNSUPPORTED, None)):
        after = flat(health(monkeypatch, errors={function: code}))
        below = {path for path in before if path.startswith(tuple(f"{place}." for place in places))}
        assert {path: after[path] for path in places} == dict.fromkeys(places, expected)
        rest = before.keys() - below - set(places)
        assert {path: after[path] for path in rest} == {path: before[path] for path in rest}


@pytest.mark.parametrize("function", [*SOURCES, "nvmlDeviceGetNvLinkState"])
def test_a_gpu_that_is_lost_meanwhile_is_lost_as_a_whole(
    monkeypatch: pytest.MonkeyPatch, function: str
) -> None:
    gpu = FakeGpu(errors={function: LOST}, health=FakeHealth(links=(FakeLink(),)))
    answer = read(monkeypatch, gpu)
    assert answer.gpus == ()
    assert answer.lost == {"0000:1b:00.0": "NVML_ERROR_GPU_IS_LOST (15): GPU is lost"}


@pytest.mark.parametrize(
    ("function", "place", "expected"),
    [
        ("nvmlDeviceGetSramEccErrorStatus", "ecc.sram_threshold_exceeded", None),
        ("nvmlDeviceGetGspFirmwareVersion", "gsp_firmware", None),
        ("nvmlDeviceGetEccMode", "ecc", Unreadable),
        ("nvmlDeviceGetNvLinkState", "nvlinks", Unreadable),
    ],
)
def test_an_older_driver_lacks_only_what_came_later(
    monkeypatch: pytest.MonkeyPatch, function: str, place: str, expected: Any
) -> None:
    value = flat(health(monkeypatch, errors={function: NO_FUNCTION}))[place]
    assert value is None if expected is None else isinstance(value, expected)


def test_errors_of_memory_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    errors = {(0, 0): 1, (1, 0): 2, (0, 1): 3, (1, 1): 4}
    ecc = health(monkeypatch, ecc=(1, 0), ecc_errors=errors, sram_exceeded=1).ecc
    assert ecc == Ecc(
        mode="enabled",
        pending="disabled",
        volatile=EccCounts(correctable=1, uncorrectable=2),
        aggregate=EccCounts(correctable=3, uncorrectable=4),
        sram_threshold_exceeded=True,
    )
    off = health(monkeypatch, ecc=(0, 1)).ecc
    assert isinstance(off, Ecc)
    assert (off.mode, off.pending) == ("disabled", "enabled")
    assert off.volatile == EccCounts(correctable=None, uncorrectable=None)


def test_repairs_of_memory_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    values = health(monkeypatch, rows=(5, 6, 1, 0), retired=(7, 8, 1))
    assert values.row_remap == RowRemap(correctable=5, uncorrectable=6, pending=True, failed=False)
    assert values.retired_pages == RetiredPages(single_bit=7, double_bit=8, pending=True)
    values = health(monkeypatch, rows=(0, 0, 0, 1), retired=(0, 0, 0))
    assert values.row_remap == RowRemap(correctable=0, uncorrectable=0, pending=False, failed=True)
    assert values.retired_pages == RetiredPages(single_bit=0, double_bit=0, pending=False)


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        ((1, 0), "none"),
        ((1, 1), "reset"),
        ((1, 2), "reboot"),
        ((1, 3), "drain_p2p"),
        ((1, 4), "drain_and_reset"),
        ((1, 99), "action 99"),
        (UNSUPPORTED, None),
        # A driver that does not know the field.
        (pynvml.NVML_ERROR_INVALID_ARGUMENT, None),
        (UNKNOWN, WHY),
        (
            (42, 1),
            Unreadable(unreadable="NVML: field 230 has a value of type 42, which is unknown"),
        ),
    ],
)
def test_what_the_driver_asks_for_has_a_name(
    monkeypatch: pytest.MonkeyPatch, field: Any, expected: object
) -> None:
    assert health(monkeypatch, fields={RECOVERY: field}).recovery_action == expected


@pytest.mark.parametrize(("kind", "raw"), [(1, 41), (3, 41), (5, 41), (6, 41), (5, 2**32 - 5)])
def test_a_field_is_read_by_the_type_that_it_says(
    monkeypatch: pytest.MonkeyPatch, kind: int, raw: int
) -> None:
    fields = {MEMORY_C: (kind, raw), RECOVERY: (1, 0)}
    expected = raw if raw < 2**31 else raw - 2**32
    assert health(monkeypatch, fields=fields).temperature.memory_c == expected


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
@given(reasons=st.integers(0, 2**64 - 1))
def test_every_limit_of_the_clocks_is_named(monkeypatch: pytest.MonkeyPatch, reasons: int) -> None:
    limits = health(monkeypatch, reasons=reasons).clock_limits
    assert isinstance(limits, tuple)
    bits = {name: bit for bit, name in CLOCK_LIMITS.items()}
    read_back = [
        bits[name] if name in bits else int(name.removeprefix("unknown (").rstrip(")"), 16)
        for name in limits
    ]
    assert len(set(read_back)) == len(read_back)
    assert sum(read_back) == reasons


def test_an_older_driver_is_asked_for_the_limits_of_the_clocks_by_their_older_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = [f"nvmlDeviceGetCurrentClocks{kind}Reasons" for kind in ("Event", "Throttle")]
    older = health(monkeypatch, errors={names[0]: NO_FUNCTION}, reasons=0x40)
    assert older.clock_limits == ("hw_thermal",)
    neither = health(monkeypatch, errors=dict.fromkeys(names, NO_FUNCTION))
    assert isinstance(neither.clock_limits, Unreadable)


def test_power_is_in_watts_and_the_limit_is_the_one_in_force(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    power = health(monkeypatch, milliwatts=(1, 500_000, 600_500, 700_000)).power
    assert power == Power(draw_w=0.001, limit_w=500, default_w=600.5, max_w=700)


def test_links_are_all_told_also_those_that_are_down(monkeypatch: pytest.MonkeyPatch) -> None:
    links = (
        FakeLink(
            remote=pynvml.NVML_NVLINK_DEVICE_TYPE_GPU,
            place=b"00000000:1C:00.0",
            counters=(1, 2, 3, 4, 5),
        ),
        FakeLink(active=0),
        FakeLink(code=UNKNOWN),
        FakeLink(code=UNSUPPORTED),
        FakeLink(remote=pynvml.NVML_NVLINK_DEVICE_TYPE_IBMNPU, place=b"nonsense"),
        FakeLink(),
    )
    told = health(monkeypatch, links=links).nvlinks
    assert isinstance(told, tuple)
    assert [link.number for link in told] == [0, 1, 2, 4, 5]
    assert [link.active for link in told] == [True, False, WHY, True, True]
    assert [link.remote for link in told] == ["gpu", None, None, "other", "switch"]
    assert [link.remote_slot for link in told] == ["0000:1c:00.0", None, None, None, None]
    first = told[0]
    assert (first.replay_errors, first.recovery_errors, first.crc_errors) == (1, 2, 3)
    assert told[1] == NvLink(number=1, active=False)


def test_a_gpu_without_nvlinks_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    assert health(monkeypatch, links=()).nvlinks == ()


def test_more_links_than_the_binding_knows_of_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    told = health(monkeypatch, links=tuple(FakeLink() for _ in range(36))).nvlinks
    assert isinstance(told, tuple)
    assert len(told) == 36


def test_each_two_gpus_are_told_both_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    near = FakeGpu(bus_id=b"00000000:1B:00.0", health=FakeHealth(peer=(0, 4, 5)))
    far = FakeGpu(bus_id=b"00000000:DB:00.0", health=FakeHealth(peer=(1, 2, 9)))
    assert read(monkeypatch, far, near).peers == (
        GpuPeer(
            slot="0000:1b:00.0",
            peer="0000:db:00.0",
            read="ok",
            write="disabled by a setting of the driver",
            nvlink="not supported",
        ),
        GpuPeer(
            slot="0000:db:00.0",
            peer="0000:1b:00.0",
            read="chipset not supported",
            write="GPU not supported",
            nvlink="status 9",
        ),
    )


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (UNSUPPORTED, "not supported"),
        (UNKNOWN, WHY),
        (LOST, Unreadable(unreadable="NVML: NVML_ERROR_GPU_IS_LOST (15): GPU is lost")),
    ],
)
def test_peers_that_are_not_told_say_why(
    monkeypatch: pytest.MonkeyPatch, code: int, expected: object
) -> None:
    broken = FakeGpu(errors={"nvmlDeviceGetP2PStatus": code})
    answer = read(monkeypatch, broken, FakeGpu(bus_id=b"00000000:DB:00.0"))
    assert len(answer.gpus) == 2
    assert isinstance(answer.peers, tuple)
    assert [peer.read for peer in answer.peers] == [expected, "ok"]


def test_a_gpu_that_is_lost_is_nobodys_peer(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = FakeGpu(bus_id=b"00000000:DB:00.0", errors={"nvmlDeviceGetRemappedRows": LOST})
    assert read(monkeypatch, FakeGpu(), gone).peers == ()
