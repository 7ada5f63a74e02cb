"""Shows facts to people: from facts to lines of text, as wide as the terminal. Nothing here judges.

Texts in facts come from nodes and may hold anything: who prints what these functions return makes
it harmless first, as ``commands.output`` does.
"""

from __future__ import annotations
