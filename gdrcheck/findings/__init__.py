"""The catalogue of codes. One module an area; each defines ``ENTRIES``."""

from __future__ import annotations
