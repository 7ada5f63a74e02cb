"""Shows facts to people: pure, from facts to lines of text. Nothing here judges.

Texts in facts come from nodes and may hold anything: who prints what these functions return makes
it harmless first, as ``commands.output`` does.
"""

from __future__ import annotations
