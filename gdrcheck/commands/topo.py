"""``gdrcheck topo``: the PCI Express tree, distances between GPUs and NICs, and the rails."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime
from pathlib import Path

from gdrcheck import rails
from gdrcheck.commands.output import print_json, say
from gdrcheck.commands.source import facts_of
from gdrcheck.facts import Facts, Unreadable
from gdrcheck.profile import Profile
from gdrcheck.profile_file import load_profile
from gdrcheck.proposal import propose
from gdrcheck.results.plain import in_lines
from gdrcheck.show import topo
from gdrcheck.show.matrix import Topology, topology_of


def run(args: argparse.Namespace) -> int:
    """Print the topology; 0. InputError when a file that was named is wrong."""
    facts = facts_of(args)
    if args.json:
        print_json(_topology(facts, args.profile))
    else:
        plain = in_lines(facts)
        say(topo.as_lines(plain, _topology(plain, args.profile)))
    return 0


def _topology(facts: Facts, profile: Path | None) -> Topology:
    if profile is None:
        proposal = propose(facts)
        left_out = [f"{what}: {why}" for what, why in proposal.left_out]
        return topology_of(facts, proposal.rails, "topology", left_out)
    promised = load_profile(profile, datetime.now(UTC).date())
    undecided = _undecided(promised, facts)
    resolved = () if undecided else rails.resolve(promised, facts)
    return topology_of(facts, resolved, "profile", undecided=undecided)


def _undecided(profile: Profile, facts: Facts) -> str | None:
    """Why the profile does not say which devices serve its rails; None when it does."""
    if (
        profile.rails is None
        or isinstance(facts.rdma_devices, Unreadable)
        or rails.told_apart(profile, facts)
    ):
        return None
    matched = rails.selected_devices(profile, facts)
    names = ", ".join(device.name for device in matched) or "none"
    return (
        f"{len(matched)} devices match, {profile.rails.count} rails are promised: which ones serve "
        f"them is not told. They are {names}; name those of the rails one by one in rails.nics."
    )
