"""Rules of ports: each finding, what is right without it, and what is not judged."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gdrcheck.facts import Unreadable, VerbsDevice, VerbsPort
from gdrcheck.findings import catalogue
from gdrcheck.findings.model import Finding
from gdrcheck.outcome import Blocked, NotJudged, ProbeError
from gdrcheck.profile import Profile
from gdrcheck.rails import Rail, resolve
from gdrcheck.rules import ports
from tests import facts as builders

BLIND = Unreadable(unreadable="rate: Input/output error")


def rail(profile: Profile, device: dict[str, object] | None = None, **port: object) -> Rail:
    """The rail of the healthy node with these changes to its device and port."""
    changes = {"ports": (builders.port(**port),)} | (device or {})
    facts = builders.facts(rdma_devices=(builders.rdma_device(**changes),))
    return resolve(profile, facts)[0]


def promised(rate_gbps: float | None = 400, layer: str | None = "infiniband") -> Profile:
    rails: dict[str, object] = {"count": 1, "nics": [{"name": "mlx5_*"}]}
    return builders.profile(rails=rails | {"port_rate_gbps": rate_gbps, "link_layer": layer})


def code_of(finding: Finding | None) -> str | None:
    if finding is None:
        return None
    assert finding.where.text() == "node1/mlx5_0"
    assert finding.severity == catalogue.entry(finding.code).severity
    return finding.code


ALL: tuple[Callable[[Rail, Profile], Finding | None], ...] = (
    ports.lanes_missing,
    ports.rate_low,
    ports.link_layer_wrong,
    ports.firmware_wrong,
    ports.pkey_missing,
    ports.mtu_low,
    ports.traffic_class_overridden,
)


@pytest.mark.parametrize("rule", ALL[:-1])
def test_a_healthy_port_gives_no_finding(
    rule: Callable[[Rail, Profile], Finding | None],
) -> None:
    expect = {"firmware": "28.43.*", "mtu_bytes": 4096}
    profile = builders.profile(expect=expect, pkey=0x7FFF, path_mtu=4096)
    assert rule(rail(profile), profile) is None


@pytest.mark.parametrize("rule", ALL)
def test_without_a_promise_nothing_is_judged_and_the_reading_is_told(
    rule: Callable[[Rail, Profile], Finding | None],
) -> None:
    profile = promised(None, None)
    reading = {
        ports.lanes_missing: "4 lanes",
        ports.rate_low: "400 Gb/s",
        ports.link_layer_wrong: "ethernet",
        ports.firmware_wrong: "28.43.2026",
        ports.pkey_missing: "0xffff",
        ports.mtu_low: "4096 bytes",
        ports.traffic_class_overridden: "class 96",
    }[rule]
    with pytest.raises(NotJudged, match=reading):
        rule(rail(profile, traffic_class=96, link_layer="ethernet"), profile)


@pytest.mark.parametrize("rule", ALL)
def test_what_cannot_be_read_is_an_error(
    rule: Callable[[Rail, Profile], Finding | None],
) -> None:
    expect = {"firmware": "28.43.*", "mtu_bytes": 4096}
    profile = builders.profile(expect=expect, pkey=0x7FFF, traffic_class=106)
    blind = dict.fromkeys(("rate_gbps", "lanes", "link_layer", "pkeys", "traffic_class"), BLIND)
    with pytest.raises(ProbeError, match=r"node1/mlx5_0: .* is unreadable: rate: Input/output"):
        rule(rail(profile, {"firmware": BLIND, "verbs": BLIND}, **blind), profile)


@pytest.mark.parametrize(
    ("rate_gbps", "lanes", "promise_gbps", "lanes_code", "rate_code"),
    [
        (100, 1, 400, "PORT-LANES", "blocked"),
        (200, 2, 400, "PORT-LANES", "blocked"),
        (400, 4, 400, None, None),
        (400, 4, 200, None, None),
        # Narrow by design, as HDR100 is: as fast as promised.
        (100, 2, 100, None, None),
        # All lanes at a lower speed, and too slow with any number of lanes.
        (200, 4, 400, None, "PORT-RATE-LOW"),
        (25, 1, 400, None, "PORT-RATE-LOW"),
        (300, 12, 400, None, "PORT-RATE-LOW"),
    ],
)
def test_a_slow_port_has_exactly_one_finding(
    rate_gbps: float,
    lanes: int,
    promise_gbps: float,
    lanes_code: str | None,
    rate_code: str | None,
) -> None:
    profile = promised(promise_gbps)
    port = rail(profile, rate_gbps=rate_gbps, lanes=lanes)
    assert code_of(ports.lanes_missing(port, profile)) == lanes_code
    if rate_code == "blocked":
        with pytest.raises(Blocked, match="by PORT-LANES at node1/mlx5_0"):
            ports.rate_low(port, profile)
    else:
        assert code_of(ports.rate_low(port, profile)) == rate_code


def test_the_lanes_of_a_software_device_mean_nothing() -> None:
    profile = promised(10)
    port = rail(profile, {"software": True}, rate_gbps=2.5, lanes=1)
    assert ports.lanes_missing(port, profile) is None
    assert code_of(ports.rate_low(port, profile)) == "PORT-RATE-LOW"


def test_a_slow_port_whose_lanes_are_unknown_is_slow_all_the_same() -> None:
    profile = promised(400)
    port = rail(profile, rate_gbps=100, lanes=BLIND)
    assert code_of(ports.rate_low(port, profile)) == "PORT-RATE-LOW"
    with pytest.raises(ProbeError, match="number of lanes is unreadable"):
        ports.lanes_missing(port, profile)
    assert ports.lanes_missing(rail(profile, lanes=BLIND), profile) is None


def test_another_link_layer_is_a_finding() -> None:
    profile = promised(layer="ethernet")
    for rule in (ports.link_layer_wrong, ports.other_link_layer):
        assert code_of(rule(rail(profile), profile)) == "PORT-LINK-LAYER"
    assert ports.other_link_layer(rail(profile), promised(layer=None)) is None


def test_another_firmware_is_a_finding() -> None:
    profile = builders.profile(expect={"firmware": "28.44.*"})
    finding = ports.firmware_wrong(rail(profile), profile)
    assert code_of(finding) == "PORT-FIRMWARE"
    assert finding is not None
    assert (finding.observed, finding.evidence) == ("28.43.2026", {"board": "MT_0000000838"})


def test_promised_firmware_that_the_driver_does_not_say_is_an_error() -> None:
    profile = builders.profile(expect={"firmware": "28.44.*"})
    with pytest.raises(ProbeError, match="firmware version is unreadable: the driver says none"):
        ports.firmware_wrong(rail(profile, {"firmware": None}), profile)
    with pytest.raises(NotJudged, match="not named by the driver"):
        ports.firmware_wrong(rail(profile, {"firmware": None}), builders.profile())


@pytest.mark.parametrize(
    ("keys", "pkey", "code"),
    [
        ((0xFFFF, 0x8001), 0x8001, None),
        ((0xFFFF, 0x0001), 0x8001, "PORT-PKEY-MISSING"),
        ((0x0001, 0x8001), 0x8001, None),
        ((0xFFFF, 0x8001), 0x0001, None),
        ((0xFFFF, 0x0001), 0x0001, None),
        ((0x7FFF,), 0xFFFF, "PORT-PKEY-MISSING"),
        ((0xFFFF, 0x8002), 0x8001, "PORT-PKEY-MISSING"),
        ((), 0x8001, "PORT-PKEY-MISSING"),
    ],
)
def test_a_key_with_the_bit_of_full_members_wants_one(
    keys: tuple[int, ...], pkey: int, code: str | None
) -> None:
    profile = builders.profile(pkey=pkey)
    assert code_of(ports.pkey_missing(rail(profile, pkeys=keys), profile)) == code


def verbs(active_mtu_bytes: int) -> VerbsDevice:
    port = VerbsPort(number=1, active_mtu_bytes=active_mtu_bytes, max_mtu_bytes=4096)
    return VerbsDevice(name="mlx5_0", error=None, error_number=None, ports=(port,))


@pytest.mark.parametrize(
    ("active", "promise", "code", "expected"),
    [
        (4096, {"path_mtu": 4096}, None, ""),
        (4096, {"path_mtu": 1024}, None, ""),
        (1024, {"path_mtu": 4096}, "PORT-MTU-LOW", "at least 4096 (path_mtu)"),
        (2048, {"expect": {"mtu_bytes": 4096}}, "PORT-MTU-LOW", "at least 4096 (expect.mtu_bytes)"),
        (
            2048,
            {"path_mtu": 1024, "expect": {"mtu_bytes": 4096}},
            "PORT-MTU-LOW",
            "at least 4096 (expect.mtu_bytes)",
        ),
    ],
)
def test_the_active_mtu_is_at_least_the_larger_promise(
    active: int, promise: dict[str, object], code: str | None, expected: str
) -> None:
    profile = builders.profile(**promise)
    finding = ports.mtu_low(rail(profile, {"verbs": verbs(active)}), profile)
    assert code_of(finding) == code
    assert finding is None or finding.expected == expected


def test_the_mtu_of_a_device_that_does_not_open_is_blocked() -> None:
    profile = builders.profile(path_mtu=4096)
    shut = VerbsDevice(name="mlx5_0", error="open mlx5_0: EPERM", error_number=1, ports=())
    with pytest.raises(Blocked, match="by PORT-OPEN-FAILED at node1/mlx5_0"):
        ports.mtu_low(rail(profile, {"verbs": shut}), profile)


def test_the_mtu_of_a_port_before_the_one_that_did_not_answer_is_judged() -> None:
    profile = builders.profile(path_mtu=4096)
    half = verbs(1024).model_copy(update={"error": "query port 2 of mlx5_0: EIO"})
    assert code_of(ports.mtu_low(rail(profile, {"verbs": half}), profile)) == "PORT-MTU-LOW"


def test_a_port_that_libibverbs_does_not_show_is_an_error() -> None:
    profile = builders.profile(path_mtu=4096)
    none = VerbsDevice(name="mlx5_0", error=None, error_number=None, ports=())
    with pytest.raises(ProbeError, match="libibverbs shows no port 1"):
        ports.mtu_low(rail(profile, {"verbs": none}), profile)


@pytest.mark.parametrize(
    ("forced", "code"), [(106, None), (0, "PORT-TRAFFIC-CLASS"), (96, "PORT-TRAFFIC-CLASS")]
)
def test_an_override_must_be_the_promised_class(forced: int, code: str | None) -> None:
    profile = builders.profile(traffic_class=106)
    port = rail(profile, traffic_class=forced, link_layer="ethernet")
    assert code_of(ports.traffic_class_overridden(port, profile)) == code


def test_without_an_override_the_class_is_not_judged() -> None:
    profile = builders.profile(traffic_class=106)
    with pytest.raises(NotJudged, match="no traffic class is forced"):
        ports.traffic_class_overridden(rail(profile, link_layer="ethernet"), profile)


def test_a_class_on_infiniband_is_not_judged() -> None:
    profile = builders.profile(traffic_class=106)
    with pytest.raises(NotJudged, match="service level"):
        ports.traffic_class_overridden(rail(profile, traffic_class=96), profile)


def test_a_rail_without_a_device_is_an_error_not_a_pass() -> None:
    profile = builders.profile(expect={"firmware": "28.43.*"})
    missing = resolve(profile, builders.facts(rdma_devices=()))[0]
    with pytest.raises(ProbeError, match="no RDMA device for rail 0"):
        ports.firmware_wrong(missing, profile)
