"""Rules judge facts against the profile. Pure: no reading, no hardware."""

from __future__ import annotations
