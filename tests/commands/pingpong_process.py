"""``gdrcheck pingpong`` in a process of its own, on a machine of which ``FOLDER/facts.json`` tells.

``pingpong_process.py FOLDER OPTIONS``. Its endpoint children are FAKE: they move no byte, and do
wrong what ``FOLDER`` says (``tests/pairing/fake_worker.py``).
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

from gdrcheck.cli import main
from gdrcheck.commands.pingpong import command
from gdrcheck.facts import Facts
from tests.pairing.support import Faults

if __name__ == "__main__":
    folder = Path(sys.argv[1])
    command.run = partial(
        command.take_part,
        facts=Facts.model_validate_json((folder / "facts.json").read_bytes()),
        command=Faults(folder).command,
        root=folder,
    )
    sys.exit(main(["pingpong", *sys.argv[2:]]))
