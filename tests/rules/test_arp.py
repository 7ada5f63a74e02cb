"""ARP flux: rails in one network, and the settings that keep them apart."""

from __future__ import annotations

import pytest

from gdrcheck.facts import Facts, Unreadable
from gdrcheck.findings import catalogue
from gdrcheck.outcome import NotJudged, NotPromised, ProbeError
from gdrcheck.profile import Profile
from gdrcheck.rules.arp import arp_flux
from tests import facts as builders

RAILS = {"nics": [{"name": "mlx5_*"}], "port_rate_gbps": 400, "link_layer": "ethernet"}
TWO = builders.profile(rails=RAILS | {"count": 2})
SHARED = ("192.0.2.0/24", "192.0.2.0/24")


def settings(**changes: str) -> dict[str, str]:
    """The kernel's defaults; ``changes`` by interface and name, as ``eth0__arp_ignore``."""
    names = [
        f"net.ipv4.conf.{one}.{name}"
        for one in ("all", "eth0", "eth1")
        for name in ("arp_ignore", "arp_announce", "arp_filter")
    ]
    changed = {f"net.ipv4.conf.{key.replace('__', '.')}": value for key, value in changes.items()}
    return dict.fromkeys(names, "0") | changed


def node(
    networks: tuple[object, ...] = SHARED,
    sysctls: dict[str, str] | None = None,
    link_layer: object = "ethernet",
) -> Facts:
    """A node with a RoCE rail for each of ``networks``, the interfaces eth0, eth1…"""
    devices = tuple(
        builders.rdma_device(
            f"mlx5_{number}",
            netdevs=(
                builders.netdev(f"eth{number}", subnets=(one,) if isinstance(one, str) else one),
            ),
            ports=(builders.port(link_layer=link_layer),),
        )
        for number, one in enumerate(networks)
    )
    host = builders.host(sysctls=settings() if sysctls is None else sysctls)
    return builders.facts(rdma_devices=devices, host=host)


def test_two_rails_in_one_network_with_the_defaults_are_a_warning() -> None:
    finding = arp_flux(TWO, node())
    assert finding is not None
    assert (finding.code, finding.where.text()) == ("PORT-ARP-FLUX", "node1")
    assert finding.severity == catalogue.entry(finding.code).severity
    assert "eth0 (mlx5_0) in 192.0.2.0/24; eth1 (mlx5_1) in 192.0.2.0/24" in finding.observed
    assert finding.evidence == dict.fromkeys(("eth0", "eth1"), "arp_ignore 0, arp_announce 0")


def test_a_network_within_a_network_is_shared() -> None:
    assert arp_flux(TWO, node(("192.0.2.0/24", "192.0.2.128/25"))) is not None


def test_a_network_for_each_rail_is_right() -> None:
    assert arp_flux(TWO, node(("192.0.2.0/25", "192.0.2.128/25"))) is None
    assert arp_flux(TWO, node(((), ()))) is None


@pytest.mark.parametrize(
    "changes",
    [
        {"all__arp_ignore": "1", "all__arp_announce": "2"},
        {"all__arp_filter": "1", "all__arp_announce": "2"},
        {f"eth{n}__{name}": "1" for n in (0, 1) for name in ("arp_ignore", "arp_announce")},
        {"all__arp_ignore": "1", "eth0__arp_announce": "2", "eth1__arp_announce": "2"},
    ],
)
def test_settings_that_keep_rails_apart_are_right(changes: dict[str, str]) -> None:
    assert arp_flux(TWO, node(sysctls=settings(**changes))) is None


@pytest.mark.parametrize(
    "changes",
    [
        {"all__arp_ignore": "1"},
        {"all__arp_announce": "2"},
        {"eth0__arp_ignore": "1", "all__arp_announce": "2"},
    ],
)
def test_half_of_the_settings_is_not_enough(changes: dict[str, str]) -> None:
    finding = arp_flux(TWO, node(sysctls=settings(**changes)))
    assert finding is not None
    assert "eth1" in finding.evidence


@pytest.mark.parametrize(
    "profile",
    [
        Profile(),
        builders.profile(rails=RAILS | {"count": 1}),
        builders.profile(rails=RAILS | {"count": 2, "link_layer": "infiniband"}),
    ],
)
def test_nothing_is_promised_without_two_rails_over_ethernet(profile: Profile) -> None:
    with pytest.raises(NotPromised):
        arp_flux(profile, node())


def test_rails_that_are_not_there_cannot_be_confused() -> None:
    with pytest.raises(NotJudged, match="0 rails over Ethernet"):
        arp_flux(TWO, node(("192.0.2.0/24",)))


@pytest.mark.parametrize(
    "facts",
    [
        node(("192.0.2.0/24", Unreadable(unreadable="route: empty"))),
        node(sysctls={"net.ipv4.conf.all.arp_ignore": "0", "net.ipv4.conf.all.arp_announce": "0"}),
        node(sysctls=settings(eth1__arp_announce="?")),
        node(link_layer=Unreadable(unreadable="link_layer: empty")),
    ],
)
def test_what_cannot_be_read_is_an_error(facts: Facts) -> None:
    with pytest.raises(ProbeError, match="unreadable"):
        arp_flux(TWO, facts)
