"""How the tests use a page: what a person does with it, and sees."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gdrcheck.results.data import Data
from gdrcheck.results.summary import Summary
from tests.report.browser import Tab

NODES, RAILS, SLOW = 20, 2, 11
DESK, PHONE = (1440, 900), (390, 844)


@dataclass(frozen=True, slots=True)
class Run:
    """A run in which node number SLOW is bad on its last rail, and its page."""

    summary: Summary
    data: Data
    path: Path


def opened(tab: Tab, path: Path, fragment: str = "") -> Tab:
    tab.open(path, fragment)
    return tab


def choose(tab: Tab, **values: str) -> None:
    """Choose a map as with the mouse, and wait until it is shown."""
    for name, value in values.items():
        tab.js(
            f"(by('{name}').value = {json.dumps(value)},"
            f" by('{name}').dispatchEvent(new Event('change')))"
        )
        tab.until(f"by('{name}').value === {json.dumps(value)}")
        # The cells may have to be unpacked first.
        tab.js("showMap()")


def place_of(tab: Tab, source: int, sink: int) -> tuple[float, float]:
    """Where the cell of two nodes is on the screen."""
    tab.js("by('heat').scrollIntoView({block: 'center'})")
    tab.settle()
    x, y = tab.js(
        f"(() => {{ const box = heat.canvas.getBoundingClientRect();"
        f" const [x, y] = heat.middle(heat.order.indexOf({source}), heat.order.indexOf({sink}));"
        " return [box.left + x, box.top + y]; })()"
    )
    return x, y


def hover(tab: Tab, source: int, sink: int) -> str:
    """What the tip says of a cell that the mouse points at."""
    tab.point(*place_of(tab, source, sink))
    names = json.dumps([f"node{one + 1:04d}/" for one in (source, sink)])
    told = "[...by('tip').querySelectorAll('bdi')].map((one) => one.textContent)"
    tab.until(f"!by('tip').hidden && {names}.every((name, at) => {told}[at].startsWith(name))")
    tab.settle()
    return tab.text("#tip")


def row_of(data: Data, check: str, mode: str, source: str, sink: str) -> dict[str, Any]:
    """What the data says of one case."""
    places = [place.text for place in data.places]
    one, other = places.index(source), places.index(sink)
    rail = data.places[one].rail
    for series in data.series:
        if (series.check, series.mode, series.rail) == (check, mode, rail):
            for row, ends in enumerate(zip(series.source, series.sink, strict=True)):
                if ends == (one, other):
                    numbers = {name: column[row] for name, column in series.numbers.items()}
                    return {**numbers, "kind": data.kinds[int(series.kinds[row])]}
    raise AssertionError(f"no {check} of {source} and {sink}")
