"""Container images for the nodes as a read-only disk: an additional image store, which costs no
loading.

Loading 690 MB inside an emulated guest takes twelve minutes; a store that is a disk is simply
there.
"""

from __future__ import annotations

import os
from pathlib import Path

from lab import cache, tools
from lab.errors import LabError
from lab.paths import REPOSITORY
from lab.progress import step

_MAKE_STORE = REPOSITORY / "lab" / "make-store"


def image_id(reference: str) -> str:
    """The id of an image in this user's podman storage; raises LabError saying how to get it."""
    try:
        return tools.run(
            "podman", "image", "inspect", "--format", "{{.Id}}", reference, deadline_s=60
        ).strip()
    except LabError as error:
        raise LabError(
            f"podman has no image {reference}: run `make image`, or `lab up --no-image`\n{error}"
        ) from error


def build(reference: str) -> Path:
    """A disk image with the image `reference` in a store of its own, from the cache or built;
    raises LabError.
    """
    identity = image_id(reference)
    key = cache.key_of(identity, reference, _MAKE_STORE.read_bytes(), Path(__file__).read_bytes())

    def fill(draft: Path) -> None:
        with step(f"making the store disk of {reference}"):
            tools.run(
                "podman",
                "save",
                "--quiet",
                "--output",
                draft / "image.tar",
                reference,
                deadline_s=600,
            )
            _make_disk(draft / "image.tar", draft)
            os.unlink(draft / "image.tar")

    return cache.entry("image-store", key, fill) / "store.ext4"


def _make_disk(archive: Path, draft: Path) -> None:
    arguments = (_MAKE_STORE, archive, draft / "store", draft / "store.ext4")
    if os.geteuid() == 0:
        tools.run("sh", *arguments, deadline_s=900)
    else:
        # podman's own user namespace: in any other it takes itself for the real root.
        tools.run("podman", "unshare", "sh", *arguments, deadline_s=900)
