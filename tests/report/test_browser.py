"""The page in headless Chromium: what it asks for; what a cell, an order, a link shows."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from gdrcheck.report import page
from tests.report import made
from tests.report.browser import Browser, Tab
from tests.report.seen import (
    DESK,
    NODES,
    PHONE,
    RAILS,
    SLOW,
    Run,
    choose,
    hover,
    opened,
    place_of,
    row_of,
)

# Of a colour of the page: 0 is black, 1 is white (WCAG 2).
LUMINANCE = """(() => {
  const part = (one) => (one /= 255) <= 0.03928 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4;
  const [r, g, b] = getComputedStyle(document.body).NAME.match(/\\d+/g).map(Number);
  return 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
})()"""


# --- alone, and without complaint ---------------------------------------------------------------


@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_the_page_asks_for_itself_alone_and_the_console_stays_empty(
    chromium: Browser, run: Run, size: tuple[int, int], dark: bool
) -> None:
    tab = Tab(chromium, size, dark=dark)
    opened(tab, run.path, "#node=node0003")
    hover(tab, SLOW, SLOW + 1)
    assert tab.complaints() == []
    assert {url.partition("#")[0] for url in tab.requests()} <= {"about:blank", run.path.as_uri()}
    assert any(url.startswith(run.path.as_uri()) for url in tab.requests())
    width = tab.js("[document.documentElement.scrollWidth, innerWidth]")
    assert width[0] <= width[1], "the page is wider than the screen"
    tab.close()


def test_a_request_or_an_error_would_be_seen(tab: Tab, run: Run, tmp_path: Path) -> None:
    text = run.path.read_text(encoding="utf-8").replace("default-src 'none';", "")
    bad = tmp_path / "bad.html"
    bad.write_text(text.replace("</main>", "<img src='missing.png'></main>"), encoding="utf-8")
    opened(tab, bad)
    tab.js("setTimeout(() => { throw new Error('thrown'); }, 0)")
    tab.js("new Promise((done) => setTimeout(done, 20))")
    assert any("missing.png" in url for url in tab.requests())
    assert any("thrown" in complaint for complaint in tab.complaints())


def test_dark_and_light_differ_and_both_can_be_read(chromium: Browser, run: Run) -> None:
    backs = []
    for dark in (False, True):
        tab = opened(Tab(chromium, dark=dark), run.path)
        light, back = (
            tab.js(LUMINANCE.replace("NAME", name)) for name in ("color", "backgroundColor")
        )
        assert (max(light, back) + 0.05) / (min(light, back) + 0.05) > 7
        backs.append(back)
        tab.close()
    assert backs[0] > 0.8
    assert backs[1] < 0.1


# --- what is pointed at is what the data says ---------------------------------------------------


def test_at_first_the_map_with_most_bad_cells_is_shown(tab: Tab, run: Run) -> None:
    opened(tab, run.path)
    assert tab.js("by('rail').value") == str(RAILS - 1)
    assert "failed: 8 cells" in tab.text("#legend")
    assert "8 bad" in tab.js("by('mode').selectedOptions[0].textContent")


def test_the_tip_says_what_the_data_says(tab: Tab, run: Run) -> None:
    opened(tab, run.path)
    pick = random.Random(7)
    for rail in range(RAILS):
        places = [place for place in run.data.places if place.rail == rail]
        for mode in ("host-host", "gpu-gpu"):
            choose(tab, rail=str(rail), mode=mode, what="bandwidth")
            cells = [
                (SLOW, SLOW + 1),
                *((one, (one + 2) % NODES) for one in pick.sample(range(10), 2)),
            ]
            for source, sink in cells:
                ends = places[source].text, places[sink].text
                said = hover(tab, source, sink)
                bandwidth = row_of(run.data, "bandwidth", mode, *ends)
                latency = row_of(run.data, "latency", mode, *ends)
                assert said.startswith(f"{ends[0]} → {ends[1]}\n")
                assert f"rail {rail}, {mode}" in said
                assert (
                    f"{bandwidth['gbps_4194304']:g} Gb/s; expected at least "
                    f"{bandwidth['expected_gbps']:g} Gb/s ({made.WORD}); {bandwidth['kind']}"
                ) in said
                assert f"{latency['p50_us']:g} us" in said
                assert re.search(rf"latency\s+{latency['p50_us']:g} us;.*not judged", said)
                assert re.search(rf"outcome\s+{bandwidth['kind']}", said)
                if (rail, source) == (RAILS - 1, SLOW):
                    assert bandwidth["kind"] == "failed"
                    assert f"{made.SLOW_GBPS:g} Gb/s" in said
                assert tab.text("#cell").startswith(said.strip().partition("\n")[0])


def test_a_cell_without_a_pair_says_so(tab: Tab, run: Run) -> None:
    opened(tab, run.path)
    said = hover(tab, 3, 3)
    assert re.search(r"outcome\s+not scheduled", said)
    assert "Gb/s" not in said


def test_a_bad_node_is_a_stripe_of_another_colour(tab: Tab, run: Run) -> None:
    opened(tab, run.path)
    choose(tab, rail="1", mode="gpu-gpu", what="bandwidth")
    colours = tab.js(
        "(() => { const context = heat.canvas.getContext('2d'); const found = {};"
        " heat.order.forEach((source, row) => heat.order.forEach((sink, column) => {"
        " if (!heat.cells[source * heat.order.length + sink]) return;"
        " const [x, y] = heat.middle(row, column).map((one) => Math.round(one * heat.ratio));"
        " const [r, g, b] = context.getImageData(x, y, 1, 1).data;"
        " (found[source] ||= []).push(r > b ? 'bad' : 'good'); })); return found; })()"
    )
    assert {node for node, found in colours.items() if "bad" in found} == {str(SLOW)}
    assert set(colours[str(SLOW)]) == {"bad"}
    assert tab.js("heat.stripes.map((found) => found.map((at) => heat.order[at]))") == [[SLOW], []]
    assert "more than half of a row or column is bad" in tab.text("#legend")
    choose(tab, rail="0")
    assert "more than half" not in tab.text("#legend")


# --- zoom, order, filter, links -----------------------------------------------------------------


def test_wheel_and_buttons_zoom_and_the_cell_under_the_mouse_stays(tab: Tab, run: Run) -> None:
    opened(tab, run.path)
    x, y = place_of(tab, SLOW, SLOW + 1)
    tab.wheel(x, y, -100)
    assert tab.js("heat.zoom") == 1, "the page cannot be scrolled past a map without focus"
    x, y = place_of(tab, SLOW, SLOW + 1)
    tab.point(x, y)
    tab.click(x, y)
    for _ in range(3):
        tab.wheel(x, y, -100)
    tab.until("heat.zoom > 1.5")
    tab.point(x, y)
    assert tab.js("heat.marked.map((at) => heat.order[at])") == [SLOW, SLOW + 1]
    tab.js("by('whole').click()")
    assert tab.js("heat.zoom") == 1
    tab.js("by('larger').click()")
    assert tab.js("heat.zoom") == 1.5


def test_nodes_are_sorted_by_name_by_leaf_and_worst_first(
    chromium: Browser, tmp_path: Path
) -> None:
    names = ("n10", "n9", "n2", "n1", "n3")
    summary, data = made.run(5, 1, 2, slow=2, names=names)
    leaves = ("b", "a", "b", "a", None)
    nodes = tuple(
        node.model_copy(update={"leaf": leaf})
        for node, leaf in zip(data.nodes, leaves, strict=True)
    )
    path = tmp_path / "sorted.html"
    path.write_text(page.render(summary, data.model_copy(update={"nodes": nodes})))
    tab = opened(Tab(chromium), path)
    shown = "heat.order.map((number) => facts.nodes[number].name)"
    assert tab.js(shown) == list(names)
    for sort, expected in (
        ("name", ["n1", "n2", "n3", "n9", "n10"]),
        ("leaf", ["n3", "n1", "n9", "n2", "n10"]),
    ):
        choose(tab, sort=sort)
        assert tab.js(shown) == expected
    choose(tab, sort="worst")
    assert tab.js(shown)[0] == "n2"
    tab.close()


def test_the_filter_leaves_what_holds_all_words(tab: Tab, run: Run) -> None:
    opened(tab, run.path)
    tab.key("/")
    assert tab.js("document.activeElement.id") == "filter"
    tab.write("node0007")
    tab.until("by('filtered').textContent.includes(' of ')")
    rows = "[...document.querySelectorAll('#nodes tbody tr')].filter((one) => !one.hidden)"
    assert tab.js(f"{rows}.map((one) => one.querySelector('a').textContent)") == ["node0007"]
    tab.js("by('filter').select()")
    tab.write("bandwidth-low node0012")
    tab.until("by('filtered').textContent.startsWith('2 of')")
    assert tab.js(
        "[...document.querySelectorAll('.cause tr[data-filter]')].every((one) => !one.hidden)"
    )
    tab.js("by('filter').select()")
    tab.write("no such thing")
    tab.until("by('filtered').textContent.startsWith('0 of')")


@pytest.mark.parametrize(
    ("fragment", "seen"),
    [
        ("#node=node0012", "by('node').innerText.startsWith('node0012, leaf leaf01')"),
        ("#code=PAIR-BANDWIDTH-LOW", "document.querySelector('.cause').open"),
        ("#PAIR-BANDWIDTH-LOW", "document.activeElement.closest('#PAIR-BANDWIDTH-LOW')"),
        (
            "#rail=0&mode=host-host&what=latency&sort=leaf&from=node0003&to=node0004",
            "heat.map.rail === 0 && heat.map.mode === 'host-host' && heat.map.what === 'latency'"
            " && heat.byLeaf && heat.marked.map((at) => heat.order[at]).join() === '2,3'",
        ),
        ("#node=nobody&from=nobody&to=__proto__", "by('node').hidden && heat.marked === null"),
    ],
)
def test_a_link_leads_to_its_part(tab: Tab, run: Run, fragment: str, seen: str) -> None:
    opened(tab, run.path, fragment)
    assert tab.js(f"Boolean({seen})")
    assert tab.complaints() == []


@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
def test_a_node_that_is_linked_to_is_in_view(
    chromium: Browser, run: Run, size: tuple[int, int]
) -> None:
    tab = opened(Tab(chromium, size), run.path, "#node=node0012")
    tab.settle()
    assert tab.js("by('node').contains(document.elementFromPoint(innerWidth / 2, 150))")
    seen = tab.picture()
    tab.js("document.body.replaceChildren()")
    tab.settle()
    assert len(seen) > 3 * len(tab.picture()), "as little is drawn as on an empty page"
    tab.close()


@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
def test_which_nodes_are_bad_is_seen_without_scrolling(
    chromium: Browser, tmp_path: Path, size: tuple[int, int]
) -> None:
    summary, data = made.run(5, 1, 2, slow=2)
    (found,) = summary.findings
    alone = found.finding.where.model_copy(update={"peer": None})
    named = found.model_copy(update={"finding": found.finding.model_copy(update={"where": alone})})
    path = tmp_path / "named.html"
    path.write_text(page.render(summary.model_copy(update={"findings": (named,)}), data))
    tab = opened(Tab(chromium, size), path)
    box = "document.querySelector('.standing ONE').getBoundingClientRect()"
    assert tab.js(f"{box.replace('ONE', 'a')}.bottom < innerHeight")
    assert tab.js(f"{box.replace('ONE', 'caption')}.height") < 60
    assert "node0003" in tab.text(".standing .s-bad")
    tab.close()


def test_a_choice_of_map_can_be_linked_to(tab: Tab, run: Run) -> None:
    opened(tab, run.path)
    choose(tab, rail="0", what="latency")
    fragment = tab.js("location.hash")
    assert "rail=0" in fragment
    assert opened(tab, run.path, fragment).js("heat.map.what") == "latency"
