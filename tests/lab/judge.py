"""In a container with GPUs: what the rules find of a node, asked again and again.

``python3 judge.py NODE FOLDER``: each line of stdin is the text of a gpus.conf and a profile, as
JSON; each line of stdout what NVML then says, judged by the image's own rules. An interpreter takes
seconds to start in a guest, so that a start for each fault would cost minutes.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path


def main() -> None:
    """Reads the facts of the node once, and NVML's part of them for each line."""
    node, folder = sys.argv[1:]
    file = Path(folder, "gpus.conf")

    from gdrcheck import probes
    from gdrcheck.commands.judging import judge
    from gdrcheck.probes import nvml_read
    from gdrcheck.probes.nvml_child import BOUND_GPUS
    from gdrcheck.profile import Profile

    facts = probes.collect(node)
    os.environ["GDRCHECK_EMULATED_GPU"] = str(file)
    print(json.dumps({"emulated": facts.emulated}), flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        draft = file.with_name("draft")
        draft.write_text(asked["file"])
        draft.replace(file)
        profile = Profile.model_validate(asked["profile"])
        nvml = nvml_read.machine(BOUND_GPUS)
        judged = judge(profile, facts.model_copy(update={"nvml": nvml}))
        told = {
            "findings": [one.model_dump(mode="json") for one in judged.findings],
            "errors": judged.errors,
        }
        print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main()
