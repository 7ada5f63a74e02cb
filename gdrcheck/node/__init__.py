"""The supervisor of one node: starts the checks, holds the deadlines, imports no driver."""

from __future__ import annotations
