#!/usr/bin/python
"""Brings the image to a node, from a registry or an archive, and proves that it is the one."""

from __future__ import annotations

import os

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.gdrcheck import Engine

DOCUMENTATION = r"""
module: gdrcheck_image
short_description: Pull or load the image and compare its id
options:
  engine: {type: path, required: true, description: Path of the container engine.}
  image: {type: str, required: true, description: The image.}
  image_id: {type: str, default: "", description: The id that it must have.}
  archive: {type: path, description: Load this file; without it the image is pulled.}
  remove_archive: {type: bool, default: false, description: Remove the file afterwards.}
  deadline_s: {type: int, default: 3600, description: How long it may last, in seconds.}
author: [gdrcheck]
"""

EXAMPLES = r"""
- name: Pull the image
  gdrcheck_image:
    engine: /usr/bin/podman
    image: registry.example.com/gdrcheck@sha256:0123
"""

RETURN = r"""
image_id: {type: str, returned: success, description: Id of the image that is here now.}
"""


def main() -> None:
    """Entry point."""
    module = AnsibleModule(
        argument_spec={
            "engine": {"type": "path", "required": True},
            "image": {"type": "str", "required": True},
            "image_id": {"type": "str", "default": ""},
            "archive": {"type": "path"},
            "remove_archive": {"type": "bool", "default": False},
            "deadline_s": {"type": "int", "default": 3600},
        },
        supports_check_mode=True,
    )
    if module.check_mode:
        module.exit_json(changed=True, image_id="")
    options = module.params
    engine = Engine(options["engine"])
    archive = options["archive"]
    command = ["load", "--input", archive] if archive else ["pull", options["image"]]
    try:
        answer = engine.run(*command, deadline_s=options["deadline_s"])
    finally:
        if archive and options["remove_archive"] and os.path.exists(archive):
            os.remove(archive)
    if not answer.ok:
        module.fail_json(msg=f"{engine.name} {' '.join(command)}: {answer.reason()}")
    wanted = options["image_id"] or options["image"]
    here = engine.image_id(wanted)
    if here is None:
        module.fail_json(
            msg=f"{engine.name} {' '.join(command)} brought an image, but not {wanted}: "
            "compare gdrcheck_image and gdrcheck_image_id with what the registry or archive holds"
        )
    module.exit_json(changed=True, image_id=here)


if __name__ == "__main__":
    main()
