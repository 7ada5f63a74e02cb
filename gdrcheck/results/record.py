"""What every record of ``events.jsonl`` has."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

Phase = Literal["node", "pair", "run"]


class Model(BaseModel):
    """A part of a record: nothing in it is unknown, and nothing in it changes."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Record(Model):
    """One line of the file."""

    v: Literal[1] = 1
    time: AwareDatetime = Field(default_factory=lambda: datetime.now(UTC))
    phase: Phase
