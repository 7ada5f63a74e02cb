"""Settings of all tests: hypothesis without a deadline, since the machines are noisy."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("gdrcheck", deadline=None)
settings.load_profile("gdrcheck")
