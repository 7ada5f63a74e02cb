"""``python -m gdrcheck`` is the command ``gdrcheck``."""

from __future__ import annotations

import sys

from gdrcheck.cli import main

if __name__ == "__main__":
    sys.exit(main())
