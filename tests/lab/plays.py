"""Runs of the real playbook against the lab."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from lab import api
from tests.lab.warm import Merged

REPOSITORY = Path(__file__).resolve().parents[2]
DEADLINE_S = 900


@dataclass(frozen=True)
class Played:
    """One run of ``validate.yml``: exit status, what a person saw, and the results."""

    status: int
    output: str
    merged: Merged

    @property
    def recap(self) -> dict[str, dict[str, int]]:
        """The numbers of Ansible's recap by host."""
        lines = self.output.partition("PLAY RECAP")[2].splitlines()
        found = {}
        for line in lines:
            if match := re.match(r"(\S+)\s+: (ok=.*)", line):
                pairs = (word.split("=") for word in match[2].split())
                found[match[1]] = {name: int(value) for name, value in pairs}
        return found


class Playbook:
    """Starts the playbook over a lab's inventory, with results in a folder of the test."""

    def __init__(self, lab: api.Lab, results: Path) -> None:
        self.lab = lab
        self.results = results

    def command(self, *arguments: str, playbook: str = "validate.yml") -> list[str]:
        """The command line, as a person types it, but for where the results go."""
        return [
            str(Path(sys.executable).with_name("ansible-playbook")),
            *("-i", str(self.lab.inventory / "hosts.yml")),
            *("-e", f"gdrcheck_results_dir={self.results}"),
            *arguments,
            playbook,
        ]

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """A run in the background, in a session of its own."""
        return subprocess.Popen(
            self.command(*arguments),
            cwd=REPOSITORY,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "ANSIBLE_NOCOLOR": "1"},
            start_new_session=True,
        )

    def run(self, *arguments: str) -> Played:
        """A run to its end."""
        return self.end(self.start(*arguments))

    def end(self, process: subprocess.Popen[str]) -> Played:
        """What a run that was started came to."""
        output, _ = process.communicate(timeout=DEADLINE_S)
        print(output)
        folders = re.findall(
            rf"{re.escape(str(self.results))}/\d{{8}}T\d{{6}}Z-[0-9a-f]{{6}}", output
        )
        assert folders, "the playbook named no folder of results"
        folder = Path(folders[-1])
        summary = json.loads((folder / "summary.json").read_text())
        return Played(process.returncode, output, Merged(summary, folder, 0, output))
