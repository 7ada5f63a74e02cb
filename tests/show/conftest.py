"""Lines are as long as on a page, whatever terminal the tests run in."""

from __future__ import annotations

import pytest

from gdrcheck.show.words import USUAL_WIDTH


@pytest.fixture(autouse=True)
def usual_width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(USUAL_WIDTH))
