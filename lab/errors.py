"""What the lab raises when it cannot do what was asked."""

from __future__ import annotations


class LabError(Exception):
    """One message that names the thing, the place and the remedy; shown to the user without a
    traceback.
    """
