"""What an inventory says of cables: the list of a fabric's links, and promises that need asking."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from gdrcheck import ib_links
from gdrcheck.outcome import InputError
from gdrcheck.profile import Profile
from gdrcheck.variables import PREFIX, RunVariables

NEEDED = {
    "ethernet": ("neighbours", f"{PREFIX}neighbours: lldp"),
    "infiniband": ("ib_links", f"{PREFIX}ib_links: FILE"),
}


def read_ib_links(variables: RunVariables, folder: Path) -> bytes | None:
    """The content of the list that the variables name, relative to ``folder``; None if none.

    InputError when it cannot be read or is no list of links.
    """
    named = variables.ib_links
    if named is None:
        return None
    try:
        with (folder / named).open("rb") as stream:
            data = stream.read(ib_links.MAX_BYTES + 1)
    except OSError as error:
        raise InputError(f"{named}: {error.strerror}; {ib_links.EXPECTED}") from error
    if len(data) > ib_links.MAX_BYTES:
        raise InputError(f"{named}: larger than {ib_links.MAX_BYTES} bytes; {ib_links.EXPECTED}")
    ib_links.parse(data.decode("utf-8", "replace"), named)
    return data


def unasked(profiles: Mapping[str, Profile], variables: RunVariables) -> Iterator[tuple[str, str]]:
    """Each profile that promises a cabling which nothing tells of in this run, with the remedy."""
    asked = {"neighbours": variables.neighbours != "none", "ib_links": variables.ib_links}
    for name, profile in profiles.items():
        promised = profile.rails
        if promised is None or promised.cabling is None:
            continue
        layers = [promised.link_layer] if promised.link_layer else list(NEEDED)
        if not any(asked[NEEDED[layer][0]] for layer in layers):
            wanted = " or ".join(NEEDED[layer][1] for layer in layers)
            yield (
                name,
                f"profile {name} promises rails.cabling: {promised.cabling}, which nothing tells "
                f"of in this run; expected {wanted}: docs/cabling.md",
            )
