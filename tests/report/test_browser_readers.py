"""The page in headless Chromium: by keys, for screen readers, on paper, and with hostile names."""

from __future__ import annotations

import json
import re
from pathlib import Path

from gdrcheck.findings.model import Where
from gdrcheck.report import page
from gdrcheck.results.summary import NodeSummary
from tests.report import made
from tests.report.browser import Browser, Tab
from tests.report.seen import DESK, NODES, PHONE, SLOW, Run, choose, opened, place_of

# What a sheet of A4 has between its margins, at 96 pixels an inch.
PAPER = (703, 1032)
HOSTILE = (
    "</script><script>document.title='run'</script>",
    "<img src=x onerror=\"document.title='run'\">",
    "n\x01\x0b\x1b]]>&amp;{{ 7 * 7 }}",
    "\N{ROCKET}\N{ARABIC LETTER ALEF}\N{RIGHT-TO-LEFT OVERRIDE}",
    "x" * 300,
    "constructor",
    "__proto__",
)
WIDE = """[...document.querySelectorAll('body *')].filter((one) =>
  !one.closest('nav, form, script') && getComputedStyle(one).display !== 'none'
  && one.getBoundingClientRect().right > innerWidth + 1).map((one) => one.outerHTML.slice(0, 90))"""


# --- without a mouse, without eyes --------------------------------------------------------------


def test_the_map_can_be_used_by_keys(tab: Tab, run: Run) -> None:
    opened(tab, run.path)
    tab.js("by('whole').focus()")
    tab.key("Tab")
    assert tab.js("document.activeElement.id") == "heat"
    assert tab.js("heat.canvas.matches(':focus-visible')")
    assert tab.js("getComputedStyle(heat.canvas).outlineStyle") == "solid"
    tab.key("ArrowRight", "ArrowRight", "ArrowDown", "ArrowDown", "ArrowDown", "ArrowLeft")
    tab.until("by('cell').innerText.includes('node0004/gpu1/mlx5_1 → node0001/')")
    assert tab.js("by('tip').hidden")
    tab.key("+")
    assert tab.js("heat.zoom") == 1.5
    tab.key("End", "0")
    assert tab.js("[heat.zoom, heat.marked]") == [1, [3, NODES - 1]]
    tab.key("Enter")
    tab.until("document.activeElement.id === 'node' && location.hash === '#node=node0004'")
    assert "node0004" in tab.text("#node")


def test_every_part_is_reached_by_tab_and_has_a_name(tab: Tab, run: Run) -> None:
    opened(tab, run.path, "#node=node0002")
    tab.js("(document.activeElement.blur(), scrollTo(0, 0))")
    tab.js("document.querySelector('.skip').focus()")
    stops = tab.js(
        "document.querySelectorAll('a,button,input,select,summary,[tabindex=\"0\"]').length"
    )
    reached = []
    for _ in range(30):
        tab.key("Tab")
        reached.append(tab.js("document.activeElement.id || document.activeElement.tagName"))
    order = [reached.index(one) for one in ("filter", "SUMMARY", "rail", "sort", "larger", "heat")]
    assert order == sorted(order)
    assert stops > len(reached)
    tree = tab.call("Accessibility.getFullAXTree")["nodes"]
    named = {"button", "link", "combobox", "searchbox", "application", "image", "group"}
    for node in tree:
        role = node.get("role", {}).get("value")
        if role in named and not node.get("ignored"):
            assert node["name"]["value"] or role == "group", node
    application = [one for one in tree if one.get("role", {}).get("value") == "application"]
    assert "Heat map: outcome, rail 1" in application[0]["name"]["value"]


def test_the_map_and_the_picture_are_there_as_tables(tab: Tab, run: Run) -> None:
    opened(tab, run.path, "#node=node0002")
    choose(tab, rail="1", mode="gpu-gpu", what="bandwidth")
    tab.js("by('table').open = true")
    tab.until("by('rows').querySelectorAll('tbody tr').length === 20")
    rows = tab.js("[...by('rows').querySelectorAll('tbody tr')].map((one) => one.innerText)")
    assert "8 cells, 8 bad; worst: 203 Gb/s" in rows[SLOW]
    assert "8 cells, 0 bad" in rows[SLOW + 1]
    parts = tab.js("by('node').querySelector('details').textContent")
    assert "32 GT/s x8" in parts


def test_the_picture_shows_what_is_bad(tab: Tab, run: Run) -> None:
    opened(tab, run.path, f"#node=node{SLOW + 1:04d}")
    marked = tab.js(
        "[...document.querySelectorAll('svg.topology g')].filter((one) =>"
        " one.querySelector('rect.is-bad')).map((one) => one.querySelector('title').textContent)"
    )
    assert [text.partition(",")[0] for text in marked] == ["gpu", "nic"]
    assert all("PAIR-BANDWIDTH-LOW" in text for text in marked)
    slow = tab.js("document.querySelector('path.wire.is-bad, path.wire.is-warn').textContent")
    assert "32 GT/s x8, can do 32 GT/s x16" in slow
    words = tab.js("document.querySelector('svg.topology').textContent")
    assert all(one in words for one in ("NUMA node 0", "NUMA node 1", "gpu0", "mlx5_1", "rail 0"))


# --- on paper -----------------------------------------------------------------------------------


def test_on_paper_nothing_is_cut(chromium: Browser, run: Run) -> None:
    tab = Tab(chromium, PAPER, dark=True)
    opened(tab, run.path, "#node=node0002")
    pdf = tab.pdf()
    assert pdf.startswith(b"%PDF")
    assert 2 <= len(re.findall(rb"/Type /Page\b", pdf)) <= 12
    assert tab.js("document.querySelector('.cause').open")
    tab.prefer(dark=True, media="print")
    tab.settle()
    wide = tab.js(WIDE)
    assert wide == []
    cut = tab.js(
        "[...document.querySelectorAll('.tall, .scroll')].filter((one) =>"
        " getComputedStyle(one).overflow !== 'visible').length"
    )
    assert cut == 0
    assert tab.js("getComputedStyle(document.body).color") == "rgb(0, 0, 0)"
    tab.close()


def test_on_paper_the_map_is_drawn_for_paper(tab: Tab, run: Run) -> None:
    opened(tab, run.path)
    tab.js("(window.seen = [], addEventListener('beforeprint', () => seen.push(heat.paper)))")
    tab.pdf()
    assert tab.js("seen") == [True]
    assert tab.js("heat.paper") is False


# --- nobody writes into the page ----------------------------------------------------------------


def test_hostile_names_are_shown_and_run_nothing(chromium: Browser, tmp_path: Path) -> None:
    summary, data = made.run(9, 1, slow=1, names=HOSTILE)
    hostile = HOSTILE[0]
    one = summary.findings[0]
    where = Where(node=one.finding.where.node, gpu=hostile, nic=HOSTILE[1], peer=HOSTILE[4])
    finding = one.finding.model_copy(update={"where": where, "evidence": {hostile: HOSTILE[2]}})
    node = NodeSummary(state="ok", reason=hostile, complete=False, troubles=(HOSTILE[1],))
    summary = summary.model_copy(
        update={
            "findings": (one.model_copy(update={"finding": finding}),),
            "nodes": dict.fromkeys(summary.nodes, node),
            "reasons": HOSTILE,
        }
    )
    path = tmp_path / "hostile.html"
    path.write_text(page.render(summary, data), encoding="utf-8")
    for size in (DESK, PHONE):
        tab = opened(Tab(chromium, size), path)
        shown = tab.js(
            "[...document.querySelectorAll('#nodes tbody th')].map((one) => one.textContent)"
        )
        # HTML has no way to write a NUL or a carriage return; the other control characters it has.
        assert shown[: len(HOSTILE)] == list(HOSTILE)
        for number, name in enumerate(HOSTILE):
            tab.js(f"location.hash = '#node=' + encodeURIComponent(facts.nodes[{number}].name)")
            tab.until(f"by('node').querySelector('h3').textContent.startsWith({json.dumps(name)})")
        tab.js("by('table').open = true")
        tab.until("by('rows').querySelector('tbody')")
        tab.point(*place_of(tab, 1, 2))
        tab.until("by('cell').querySelector('b')")
        assert tab.js("by('cell').querySelector('b').textContent").startswith(HOSTILE[1])
        assert tab.js("document.title").startswith("FAIL")
        assert tab.js("document.querySelectorAll('img').length") == 0
        assert tab.js("document.documentElement.scrollWidth <= innerWidth")
        assert tab.complaints() == []
        tab.close()
    tab = opened(Tab(chromium, PAPER), path)
    tab.prefer(media="print")
    assert tab.js(WIDE) == []
    tab.close()
