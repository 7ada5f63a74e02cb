"""The types of the catalogue: a code's entry, and one finding of a run."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

CODE_PATTERN = r"^(HOST|DRV|GPU|MR|PORT|FABRIC|PAIR|PCI|RUN)(-[A-Z0-9]+)+$"
CodeName = Annotated[str, Field(pattern=CODE_PATTERN)]


class Severity(StrEnum):
    """``fail`` makes the verdict FAIL; ``warn`` is shown and changes nothing."""

    FAIL = "fail"
    WARN = "warn"


class Entry(BaseModel):
    """One code of the catalogue. A released code never changes its meaning.

    ``causes`` come most likely first; ``repair`` are the steps in the order in which to try them;
    ``source`` names where the knowledge comes from (specification, manual page, kernel file).
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    code: CodeName
    title: str
    meaning: str
    evidence: str
    causes: tuple[str, ...]
    repair: tuple[str, ...]
    severity: Severity = Severity.FAIL
    source: str


class Where(BaseModel):
    """The place of a finding: a node, and below it a GPU, a NIC, and the other node of a pair."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    node: str
    gpu: str | None = None
    nic: str | None = None
    peer: str | None = None

    @property
    def alone(self) -> str:
        """``node1/gpu0/mlx5_0``: the place without the other node of the pair."""
        return "/".join(filter(None, (self.node, self.gpu, self.nic)))

    def text(self) -> str:
        """``node1/gpu0/mlx5_0 (with node2)``: the place in one line."""
        return f"{self.alone} (with {self.peer})" if self.peer else self.alone


class Finding(BaseModel):
    """One judged deviation. Title, causes and repair are looked up in the catalogue by code."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    code: CodeName
    where: Where
    observed: str
    expected: str
    unit: str = ""
    severity: Severity = Severity.FAIL
    evidence: dict[str, str] = Field(default_factory=dict)

    def text(self) -> str:
        """One line: code, place, observed, expected."""
        unit = f" {self.unit}" if self.unit else ""
        return (
            f"{self.code} at {self.where.text()}: "
            f"observed {self.observed}{unit}, expected {self.expected}{unit}"
        )
