"""Results: the stream of events, what is made of it, and how it is shown. Reads no hardware."""

from __future__ import annotations
