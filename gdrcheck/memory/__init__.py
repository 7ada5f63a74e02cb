"""GPU memory and NICs together: registering the one with the other, and moving data through both.

The only room that imports both ``gdrcheck.gpu`` and ``gdrcheck.verbs``. It tells what became of an
attempt and judges nothing. Never fork once something of it is open.
"""

from __future__ import annotations
