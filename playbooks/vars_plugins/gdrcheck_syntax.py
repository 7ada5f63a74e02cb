"""Names file and line of what is no YAML in group_vars and host_vars, before Ansible reads it."""

from __future__ import annotations

import functools
import sys
from pathlib import Path

from ansible.errors import AnsibleError
from ansible.plugins.vars import BaseVarsPlugin

sys.path.append(str(Path(__file__).resolve().parents[2]))

from gdrcheck.inventory_files import scan

DOCUMENTATION = r"""
name: gdrcheck_syntax
version_added: "0.1"
short_description: refuses variable files that are no YAML, with file and line
description:
  - Ansible itself says neither for some errors, such as a tab.
  - Sets no variable. Must be enabled before host_group_vars, which reads the files.
"""


class VarsModule(BaseVarsPlugin):
    """The vars plugin. Ansible asks it before the first task, so no node was touched by then."""

    def get_vars(self, loader, path, entities, cache=True):  # noqa: ARG002
        """No variables; AnsibleError with all problems of the variable files in ``path``."""
        if problems := _problems(path):
            lines = "\n".join(problems)
            raise AnsibleError(f"No node was touched. What must be corrected:\n{lines}")
        return {}


# Only the first look counts: a file that changes during the run is nothing that stops it.
@functools.cache
def _problems(folder: str) -> tuple[str, ...]:
    return scan((), (Path(folder),)).problems
