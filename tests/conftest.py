"""Settings of all tests: hypothesis without a deadline, names of cases that stay the same."""

from __future__ import annotations

import pytest
from hypothesis import settings

settings.register_profile("gdrcheck", deadline=None)
settings.load_profile("gdrcheck")


@pytest.hookimpl
def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Name a case with bytes by its argument and its number, never by its content.

    gzip writes the second of packing into its header. Two workers of one run that collect in
    two different seconds would not collect the same names, and pytest-xdist refuses such a run.
    """
    return argname if isinstance(val, bytes) else None
