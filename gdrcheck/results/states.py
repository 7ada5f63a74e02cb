"""How each node fared, as whoever ran the nodes saw it: the playbook's word to ``merge``."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gdrcheck.findings.model import Finding
from gdrcheck.outcome import InputError

# "never arrived" is of a Kubernetes Job: a pod that index 0 waited for in vain.
State = Literal[
    "ok", "unreachable", "refused", "start failed", "timed out", "no result", "never arrived"
]


class SeenState(BaseModel):
    """One node: its state, why, and what preflight found."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    state: State
    reason: str = ""
    findings: tuple[Finding, ...] = ()

    def text(self) -> str:
        """``unreachable: ssh timed out``."""
        return f"{self.state}: {self.reason}" if self.reason else self.state

    def no_result(self) -> str:
        """``no result: unreachable: ssh timed out``: for a node that sent nothing."""
        if self.state == "ok":
            return "no result, although its container ended"
        text = self.text()
        return text if self.state == "no result" else f"no result: {text}"


class SeenStates(BaseModel):
    """All nodes. ``check_mode``: nothing was started, on purpose."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    nodes: dict[str, SeenState] = Field(default_factory=dict)
    check_mode: bool = False


def parse(text: str | bytes, source: str) -> SeenStates:
    """The states in ``text``. InputError naming ``source`` and every problem."""
    try:
        return SeenStates.model_validate_json(text)
    except ValidationError as error:
        raise InputError(
            *(
                f"{source}: {'.'.join(str(part) for part in one['loc'])}: {one['msg']}"
                for one in error.errors(include_url=False, include_input=False)
            )
        ) from error
