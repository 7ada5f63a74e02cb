"""One Chromium for all tests of the page, and a run with a bad node."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gdrcheck.report import page
from tests.report import made
from tests.report.browser import Browser, Tab, browser, program
from tests.report.seen import NODES, RAILS, SLOW, Run


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """A headless Chromium; its tests are skipped where there is none."""
    if program() is None:
        pytest.skip("chromium is not installed; scripts/setup-host installs it")
    with browser() as started:
        yield started


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The run, and its page."""
    summary, data = made.run(NODES, RAILS, slow=SLOW, modes=("host-host", "gpu-gpu"))
    path = tmp_path_factory.mktemp("page") / page.PAGE_FILE
    path.write_text(page.render(summary, data), encoding="utf-8")
    return Run(summary, data, path)


@pytest.fixture
def tab(chromium: Browser) -> Iterator[Tab]:
    """A page of a desktop's size that prefers light."""
    opened = Tab(chromium)
    yield opened
    opened.close()
