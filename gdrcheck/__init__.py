"""gdrcheck decides whether a GPU cluster may go into production."""

from __future__ import annotations

__version__ = "0.1.0"
