"""How two nodes agree on a test: schedule, rendezvous, channel, endpoint children, pair walk."""

from __future__ import annotations
