"""Everything that touches a GPU; the only package that imports cuda-python.

``errors`` is importable without it.
"""

from __future__ import annotations
