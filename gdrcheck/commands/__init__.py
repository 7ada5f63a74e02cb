"""Commands of ``gdrcheck`` that bring other rooms together; only the command line loads them."""

from __future__ import annotations
