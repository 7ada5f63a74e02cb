"""What an inventory says of cables is judged before any node is touched."""

from __future__ import annotations

import pytest

from tests.test_ib_links import IBNETDISCOVER
from tests.test_inventory import Site, site

__all__ = ["site"]

PROFILE = (
    "rails: {{count: 1, nics: [{{name: mlx5_0}}], link_layer: {layer}, cabling: by_rail}}\n"
    "gpus: {{count: 0}}\n"
)


def promise(site: Site, layer: str) -> None:
    site.write("inventory/profiles/lab.yml", PROFILE.format(layer=layer))


def test_a_list_of_links_is_taken_from_beside_the_playbook(site: Site) -> None:
    promise(site, "infiniband")
    site.write("links/ib.txt", IBNETDISCOVER)
    site.everywhere({"gdrcheck_ib_links": "links/ib.txt"})
    assert site.judge().ib_links == IBNETDISCOVER.encode()


def test_without_one_there_is_none(site: Site) -> None:
    assert site.judge().ib_links is None


def test_a_file_that_is_missing_or_another_is_named_with_its_place(site: Site) -> None:
    site.everywhere({"gdrcheck_ib_links": "ib.txt"})
    place = "inventory/group_vars/gpu.yml:2: gdrcheck_ib_links: ib.txt: "
    (line,) = site.problems()
    assert line.startswith(f"{place}No such file or directory; expected what ibnetdiscover")
    site.write("ib.txt", "hello\n")
    (line,) = site.problems()
    assert line.startswith(f"{place}names no port of an adapter")


@pytest.mark.parametrize(
    ("layer", "wrong", "right"),
    [
        ("ethernet", {"gdrcheck_ib_links": "ib.txt"}, {"gdrcheck_neighbours": "lldp"}),
        ("infiniband", {"gdrcheck_neighbours": "lldp"}, {"gdrcheck_ib_links": "ib.txt"}),
    ],
)
def test_a_cabling_that_nobody_asks_about_is_refused(
    site: Site, layer: str, wrong: dict[str, object], right: dict[str, object]
) -> None:
    site.write("ib.txt", IBNETDISCOVER)
    promise(site, layer)
    for own in site.hostvars.values():
        own |= wrong
    (line,) = site.problems()
    assert "profile lab promises rails.cabling: by_rail" in line
    assert f"expected {next(iter(right))}: " in line
    for own in site.hostvars.values():
        own |= right
    site.judge()


def test_a_way_that_there_is_not_is_refused(site: Site) -> None:
    site.everywhere({"gdrcheck_neighbours": "cdp"})
    (line,) = site.problems()
    assert line.startswith("inventory/group_vars/gpu.yml:2: gdrcheck_neighbours: ")
    assert "lldp" in line
