"""Everything that touches an RDMA device; the only package that imports pyverbs.

``protocol`` and ``gid`` are pure and may be imported anywhere.
"""

from __future__ import annotations
