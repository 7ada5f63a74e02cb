"""What a first profile expects of the health and the settings of GPUs."""

from __future__ import annotations

import pytest

from gdrcheck import expectations
from gdrcheck.expect import Expect
from gdrcheck.facts import Gpu, Power, Unreadable
from tests import facts as build
from tests.gpu_facts import gpu_health, gpu_peer, nvlink, nvlinks

SLOTS = ("0000:1b:00.0", "0000:2b:00.0")
BOTH_WAYS = (gpu_peer(*SLOTS), gpu_peer(*reversed(SLOTS)))


def expected(
    *gpus: Gpu, peers: object = BOTH_WAYS, **nvml: object
) -> tuple[dict[str, object], dict[str, str]]:
    """The values for ``Expect``, and what was left out with the reason."""
    facts = build.facts(nvml=build.nvml(gpus=gpus, peers=peers, **nvml))
    values, left_out = expectations.read(facts, (), gpus)
    Expect.model_validate(values)
    return values, dict(left_out)


def two(**second: object) -> tuple[Gpu, Gpu]:
    health = gpu_health(**second)
    return build.gpu(slot=SLOTS[0]), build.gpu(slot=SLOTS[1], health=health)


def test_alike_gpus_are_expected_as_they_are() -> None:
    values, left_out = expected(*two(), confidential_computing="off")
    assert {
        "vbios": "96.00.A5.00.1A",
        "ecc": "enabled",
        "compute_mode": "default",
        "persistence": "on",
        "confidential_computing": "off",
        "power_limit_w": 700,
        "nvlinks": 18,
        "peer_access": "all",
    }.items() <= values.items()
    assert not [key for key in left_out if "nvlinks" in key or "power" in key]


@pytest.mark.parametrize(
    ("change", "key", "why"),
    [
        ({"vbios": "96.00.74.00.11"}, "vbios", "differs: 96.00.74.00.11, 96.00.A5.00.1A"),
        ({"ecc": {"mode": "disabled"}}, "ecc", "differs: disabled, enabled"),
        ({"persistence": Unreadable(unreadable="Unknown Error")}, "persistence", "Unknown Error"),
        ({"nvlinks": nvlinks(nvlink(3, active=False))}, "nvlinks", "differs: 17, 18"),
    ],
)
def test_what_differs_or_was_not_read_is_left_out_with_the_reason(
    change: dict[str, object], key: str, why: str
) -> None:
    values, left_out = expected(*two(**change))
    assert key not in values
    assert left_out[f"expect.{key}"] == why


def test_power_limit_is_the_lowest_of_the_node() -> None:
    values, _ = expected(*two(power={"limit_w": 500.0}))
    assert values["power_limit_w"] == 500


def test_what_a_gpu_does_not_have_is_not_expected_of_it() -> None:
    none = Power(draw_w=None, limit_w=None, default_w=None, max_w=None)
    health = gpu_health(vbios=None, ecc=None, persistence=None, power=none, nvlinks=())
    values, left_out = expected(build.gpu(slot=SLOTS[0], health=health))
    assert not {"vbios", "ecc", "persistence", "power_limit_w", "nvlinks"} & values.keys()
    assert "peer_access" not in values
    assert not [key for key in left_out if "vbios" in key]


@pytest.mark.parametrize(
    "peers",
    [
        (gpu_peer(*SLOTS), gpu_peer(*reversed(SLOTS), write="chipset not supported")),
        BOTH_WAYS[:1],
        Unreadable(unreadable="not asked"),
    ],
)
def test_peer_access_is_expected_only_where_the_driver_says_so_of_all(peers: object) -> None:
    values, _ = expected(*two(), peers=peers)
    assert "peer_access" not in values


def test_health_that_was_not_read_is_left_out_as_a_whole() -> None:
    gpu = build.gpu(slot=SLOTS[0], health=Unreadable(unreadable="not asked of NVML"))
    values, left_out = expected(gpu)
    assert not {"vbios", "ecc", "power_limit_w", "nvlinks"} & values.keys()
    assert "not asked of NVML" in left_out.values()
