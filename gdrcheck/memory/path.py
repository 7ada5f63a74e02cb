"""The way from a port to itself, for loop-back."""

from __future__ import annotations

from gdrcheck.profile import Profile
from gdrcheck.verbs.device import Device
from gdrcheck.verbs.queue_pair import Path


def loopback_path(device: Device, port: int, profile: Profile, completion_s: float) -> Path:
    """How the port reaches itself, with the GID, partition and MTU that the profile wants.

    NoUsableGid if the port has no such GID, VerbsError if it does not answer or is in no such
    partition.
    """
    info = device.port(port)
    return Path(
        port=info,
        gid=device.choose_gid(info, profile.gid),
        pkey_index=device.pkey_index(port, profile.pkey),
        traffic_class=profile.traffic_class,
        service_level=profile.service_level,
        promised_mtu=profile.path_mtu,
        completion_s=completion_s,
    )
