"""Reads on the host what a least-privilege container cannot read, for the probes inside it.

``host.json`` and ``config/<slot>`` below the folder that it is given are all that it writes; see
docs/collector.md. This package stands alone, on Python 3.8 and its standard library, since it runs
in three places: in the image, inside an Ansible module, and where a person copied it to a host.
"""

from __future__ import annotations

from .collector import collect

__all__ = ["collect"]
