"""What a profile promises, against what a Job of this shape can see. Pure."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping

from gdrcheck.profile import Profile

HOST_FACTS = "host-facts"


def unkept(profile: Profile, args: argparse.Namespace, devices: Mapping[str, int]) -> Iterator[str]:
    """Each thing that the profile promises and the options leave no way to see, with the remedy.

    ``devices`` are the RDMA devices that a pod takes, those of ``--rdma-resource`` that are right.
    """
    yield from _collected(profile, args)
    yield from _cables(profile, args)
    yield from _devices(profile, args, devices)


def _collected(profile: Profile, args: argparse.Namespace) -> Iterator[str]:
    keys = profile.expect.needs_collector()
    if keys and HOST_FACTS not in args.component:
        yield (
            f"{args.profile}: {', '.join(keys)}: only root on the host can read that; expected "
            f"--component {HOST_FACTS}, which is a privileged init container, or a profile without"
        )
    if args.neighbours == "lldp" and HOST_FACTS not in args.component:
        yield f"--neighbours lldp: expected --component {HOST_FACTS} with it, which listens"
    if args.neighbours == "lldp" and args.overlay == "sriov":
        yield "--neighbours lldp: a pod's own network hears no LLDP; expected another overlay"


def _cables(profile: Profile, args: argparse.Namespace) -> Iterator[str]:
    rails = profile.rails
    if rails is None or rails.cabling is None:
        return
    ways = {
        "ethernet": ("--neighbours lldp", args.neighbours == "lldp"),
        "infiniband": ("--ib-links FILE", args.ib_links is not None),
    }
    open_ways = [ways[rails.link_layer]] if rails.link_layer else list(ways.values())
    if not any(given for _, given in open_ways):
        yield (
            f"{args.profile}: rails.cabling: {rails.cabling}: nothing tells of it in this run; "
            f"expected {' or '.join(option for option, _ in open_ways)}: docs/cabling.md"
        )


def _devices(
    profile: Profile, args: argparse.Namespace, devices: Mapping[str, int]
) -> Iterator[str]:
    rails = profile.rails.count if profile.rails else 0
    if args.overlay == "privileged" and args.rdma_resource:
        yield (
            "--rdma-resource: the overlay privileged takes all NICs of the node, without a device "
            "plugin; expected --overlay rdma-shared or sriov with it"
        )
    if args.overlay != "privileged" and not args.rdma_resource:
        yield (
            f"--rdma-resource: missing; expected NAME=COUNT for --overlay {args.overlay}: without "
            "it the pod gets no NIC"
        )
    if args.overlay != "sriov" and args.network:
        yield f"--network: expected --overlay sriov with it, not {args.overlay}"
    if args.overlay != "sriov" or not rails:
        return
    if len(devices) == len(args.rdma_resource) > 0 and sum(devices.values()) < rails:
        yield (
            f"--rdma-resource: {sum(devices.values())} virtual functions a pod; expected {rails}, "
            f"one for each rail that {args.profile} promises"
        )
    if len(args.network) != rails:
        yield (
            f"--network: given {len(args.network)} times; expected {rails}, one for each rail that "
            f"{args.profile} promises"
        )
