"""The page: what it says, that it asks for nothing, and that no node can write into it."""

from __future__ import annotations

import base64
import errno
import json
import zlib
from datetime import date
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdrcheck.cli import main
from gdrcheck.findings.model import Finding, Where
from gdrcheck.outcome import InputError, Outcome
from gdrcheck.report import page
from gdrcheck.report.packing import rounded
from gdrcheck.results import merge
from gdrcheck.results.data import KINDS, Data, NodeData, Place, Series, Topology
from gdrcheck.results.summary import NodeSummary, Summary, SummaryFinding
from tests.results.trees import Merged, port_down, two_nodes

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'&]]>{{ 7 * 7 }}"
VOID = {"meta", "link", "input", "br", "img", "hr"}


class Read(HTMLParser):
    """The page as a browser sees it: elements, their attributes, and text outside of scripts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text = ""
        self.scripts: dict[str, str] = {}
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, f"</{tag}> closes something else"

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            self.scripts[self.elements[-1][1].get("id") or ""] = data
        elif self.open and self.open[-1] != "style":
            self.text += data

    @property
    def facts(self) -> dict[str, object]:
        found: dict[str, object] = json.loads(self.scripts["facts"])
        return found


def summary(findings: tuple[SummaryFinding, ...] = (), **changes: object) -> Summary:
    values: dict[str, object] = {
        "run_id": "20260102T030405Z-0a1b2c",
        "gdrcheck_version": "0.1.0",
        "created": "2026-01-02T03:04:05Z",
        "verdict": "FAIL",
        "reasons": ("1 case failed",),
        "check_mode": False,
        "limited_to": None,
        "emulated": False,
        "software_rdma": False,
        "image_id": "",
        "counts": dict.fromkeys(KINDS, 0),
        "unmeasured": (),
        "suspects": (),
        "waivers": (),
        "nodes": {"node1": NodeSummary(state="ok", reason="", complete=True, troubles=())},
        "duration_s": 12.0,
    }
    return Summary.model_validate({**values, "findings": findings, **changes})


def finding(where: Where, code: str = "PORT-NOT-ACTIVE", **changes: object) -> SummaryFinding:
    values: dict[str, object] = {
        "code": code,
        "where": where,
        "observed": "state DOWN",
        "expected": "state ACTIVE",
    }
    told = Finding.model_validate(values | changes)
    return SummaryFinding(case=f"port_active[{where.text()}]", outcome=Outcome.FAILED, finding=told)


def data(nodes: int = 2, *series: Series, **versions: str) -> Data:
    return Data(
        run_id="20260102T030405Z-0a1b2c",
        nodes=tuple(
            NodeData(
                name=f"node{number}",
                leaf=None,
                profile="bought",
                complete=True,
                versions=versions,
                rails=(),
                topology=0,
            )
            for number in range(1, nodes + 1)
        ),
        topologies=(Topology(unknown="no facts"),),
        places=tuple(
            Place(text=f"node{number + 1}/gpu0/mlx5_0", node=number, rail=0)
            for number in range(nodes)
        ),
        words=("NIC rate at the source, 400 Gb/s",),
        series=series,
        suites={},
    )


def latency(**changes: object) -> Series:
    values: dict[str, object] = {
        "check": "latency",
        "mode": "gpu-gpu",
        "operation": "SEND",
        "rail": 0,
        "source": (0, 1),
        "sink": (1, 0),
        "kinds": "01",
        "numbers": {"p50_us": (2.5, 30.25)},
    }
    return Series.model_validate(values | changes)


def unpacked(read: Read, blob: int) -> bytes:
    return zlib.decompress(base64.b64decode(read.scripts[f"blob{blob}"]))


def maps(read: Read) -> list[dict[str, Any]]:
    found = read.facts["maps"]
    assert isinstance(found, list)
    return found


def spread(read: Read, one: dict[str, Any], what: str = "bytes") -> list[int]:
    """A byte for each cell of the map, as the page makes it of the bytes of its pairs."""
    column = iter(unpacked(read, one[what]))
    return [next(column) if there else 0 for there in unpacked(read, one["cells"])]


def test_the_merged_run_is_on_the_page(tmp_path: Path) -> None:
    one, _ = two_nodes(tmp_path)
    one.case("port_active[node1/rxe1]", Outcome.FAILED, findings=[port_down()])
    merged = Merged(tmp_path)
    read = Read(page.write(tmp_path).read_text())
    assert str(merged.verdict) in read.text
    assert merged.summary.run_id in read.text
    assert "PORT-NOT-ACTIVE" in read.text
    assert "soak not run" in read.text
    for kind, count in merged.summary.counts.items():
        assert not count or f"{count} {kind}" in read.text
    assert ("details", "PORT-NOT-ACTIVE") in {(tag, at.get("id")) for tag, at in read.elements}


def test_the_page_is_well_formed_and_its_ids_are_unique() -> None:
    found = summary((finding(Where(node="node1", nic="mlx5_0")),))
    read = Read(page.render(found, data(2, latency())))
    assert not read.open
    ids = [at["id"] for _, at in read.elements if "id" in at]
    assert len(ids) == len(set(ids))


def test_nothing_is_asked_of_any_network() -> None:
    text = page.render(summary(), data(2, latency()))
    for tag, attributes in Read(text).elements:
        for name in ("src", "href", "action", "data", "poster", "srcset"):
            value = attributes.get(name)
            if value is not None and (tag, name) != ("link", "href"):
                assert value.startswith("#"), f"<{tag} {name}={value}>"
    assert "@import" not in text
    assert "url(" not in text
    assert "fetch(" not in text
    assert "default-src 'none'" in text


def test_hostile_names_are_text() -> None:
    node = NodeSummary(state="ok", reason=HOSTILE, complete=False, troubles=(HOSTILE,))
    where = Where(node="node1", gpu=HOSTILE, nic=HOSTILE)
    hostile = finding(where, observed=HOSTILE, evidence={HOSTILE: HOSTILE})
    plain = page.render(summary((finding(Where(node="node1")),)), data())
    text = page.render(
        summary((hostile,), nodes={"node1": node}, reasons=(HOSTILE,), image_id=HOSTILE),
        data(2, **{HOSTILE: HOSTILE}),
    )
    read = Read(text)
    assert not any(tag == "img" or "onerror" in at for tag, at in read.elements)
    scripts = [tag for tag, _ in read.elements if tag == "script"]
    assert len(scripts) == [tag for tag, _ in Read(plain).elements].count("script")
    assert HOSTILE in read.text
    nodes = read.facts["nodes"]
    assert isinstance(nodes, list)
    assert nodes[0]["troubles"] == [HOSTILE]


def test_places_of_a_cause_are_folded() -> None:
    found = tuple(finding(Where(node=f"gpu{number:03d}", nic="mlx5_0")) for number in range(1, 17))
    assert "gpu[001-016]/mlx5_0" in Read(page.render(summary(found), data())).text


def test_repair_stands_with_the_cause_and_commands_are_code() -> None:
    read = Read(page.render(summary((finding(Where(node="node1")),)), data()))
    assert "Repair, in this order" in read.text
    assert "`" not in read.text
    assert "code" in {tag for tag, _ in read.elements}


@pytest.mark.parametrize(
    ("changes", "banner"),
    [
        ({"emulated": True}, "EMULATED"),
        ({"software_rdma": True}, "SOFT-ROCE"),
        ({"check_mode": True}, "nothing measured"),
    ],
)
def test_what_proves_nothing_says_so_on_top(changes: dict[str, object], banner: str) -> None:
    said = Read(page.render(summary(**changes), data())).text
    assert said.index(banner) < said.index("1 case failed")
    assert banner not in Read(page.render(summary(), data())).text


def test_waived_findings_stand_apart_and_waivers_are_shown() -> None:
    waived = finding(Where(node="node1")).model_copy(update={"waived_until": "2026-12-31"})
    waiver = {
        "code": "PORT-NOT-ACTIVE",
        "where": "node1*",
        "reason": "cable on order",
        "until": date(2026, 12, 31),
    }
    read = Read(page.render(summary((waived,), waivers=(waiver,)), data()))
    ids = {at.get("id") for _, at in read.elements}
    assert "PORT-NOT-ACTIVE-waived" in ids
    assert "PORT-NOT-ACTIVE" not in ids
    assert "cable on order" in read.text


def test_a_map_holds_what_the_data_says() -> None:
    read = Read(page.render(summary(), data(2, latency())))
    outcome, numbers = maps(read)
    assert (numbers["what"], numbers["unit"], numbers["rounded"]) == ("latency", "us", 0)
    # Row: source; the diagonal was not measured.
    assert [numbers["values"][cell - 1] if cell else None for cell in spread(read, numbers)] == [
        *(None, 2.5),
        *(30.25, None),
    ]
    kinds = [None, "passed", "failed", None]
    for one, what in ((outcome, "bytes"), (numbers, "kinds")):
        found = [outcome["values"][cell - 1] if cell else None for cell in spread(read, one, what)]
        assert found == kinds
    assert outcome["bad"] == 1


def test_a_number_stands_with_what_was_expected_of_it() -> None:
    bandwidth = latency(
        check="bandwidth",
        operation="WRITE",
        numbers={"gbps_1024": (380.0, None), "expected_gbps": (360.0, 300.0)},
        limited_by=(0, -1),
    )
    read = Read(page.render(summary(), data(2, bandwidth)))
    _, numbers = maps(read)
    assert numbers["size"] == "1 KiB"
    expected = spread(read, numbers, "expected")
    assert [numbers["wanted"][one - 1] if one else None for one in expected] == [
        *(None, [360.0, "NIC rate at the source, 400 Gb/s"]),
        *([300.0, ""], None),
    ]


def test_a_map_says_which_place_of_a_node_its_rail_is() -> None:
    found = data(3, latency())
    odd = Place(text="node3/gpu1/mlx5_9", node=2, rail=0)
    read = Read(
        page.render(summary(), found.model_copy(update={"places": (*found.places[:2], odd)}))
    )
    assert read.facts["places"] == {"0": {"usual": "gpu0/mlx5_0", "others": {"2": "gpu1/mlx5_9"}}}


def test_the_worst_of_the_cases_of_a_cell_is_shown() -> None:
    exchange = latency(check="pingpong", operation="WRITE", kinds="30", numbers={})
    whole = latency(check="pair_measured", mode=None, operation=None, kinds="22", numbers={})
    # Both ways of saying which place it is: two rows of one series for the same nodes.
    twice = latency(source=(0, 1, 0), sink=(1, 0, 1), kinds="031", numbers={})
    for series, worst in (
        ((exchange,), ["blocked", "failed"]),
        ((whole,), ["error", "failed"]),
        ((twice,), ["failed", "failed"]),
    ):
        read = Read(page.render(summary(), data(2, latency(), *series)))
        outcome = maps(read)[0]
        assert [outcome["values"][cell - 1] for cell in spread(read, outcome) if cell] == worst


def test_more_numbers_than_a_byte_holds_are_rounded_and_said_to_be() -> None:
    count = 40
    pairs = [(a, b) for a in range(count) for b in range(count) if a != b]
    exact = tuple(2 + number / 64 for number in range(len(pairs)))
    series = latency(
        source=tuple(a for a, _ in pairs),
        sink=tuple(b for _, b in pairs),
        kinds="0" * len(pairs),
        numbers={"p50_us": exact},
    )
    read = Read(page.render(summary(), data(count, series)))
    numbers = maps(read)[1]
    found = spread(read, numbers)
    assert 0 < numbers["rounded"] < 0.05
    for (a, b), number in zip(pairs, exact, strict=True):
        shown = numbers["values"][found[a * count + b] - 1]
        assert abs(shown - number) <= numbers["rounded"] * shown * (1 + 1e-9)
        assert shown == number or not numbers["exact"][found[a * count + b] - 1]


@given(
    st.lists(
        st.one_of(st.none(), st.floats(0, 1e9).map(lambda one: round(one, 6))),
        min_size=1,
        max_size=400,
    ).filter(lambda column: any(one is not None for one in column)),
    st.integers(0, 600),
)
def test_rounding_says_how_far_it_is_off(column: list[float | None], most_bytes: int) -> None:
    made = rounded(column, most_bytes)
    assert len(made.text) <= most_bytes or len(made.steps) == 1
    assert [one.low for one in made.steps] == sorted(one.low for one in made.steps)
    for value, byte in zip(column, zlib.decompress(base64.b64decode(made.text)), strict=True):
        if value is None:
            assert byte == 0
        else:
            shown = made.steps[byte - 1].value
            assert abs(shown - value) <= made.error * abs(shown) * (1 + 1e-9)
            assert made.error or shown == value


def test_odd_versions_are_marked_and_a_tie_names_none_as_usual() -> None:
    found = data(3, kernel="6.8")
    odd = found.nodes[2].model_copy(update={"versions": {"kernel": "6.5"}})
    read = Read(page.render(summary(), found.model_copy(update={"nodes": (*found.nodes[:2], odd)})))
    assert "6.5: node3" in read.text
    assert "tied" not in read.text
    tied = found.model_copy(update={"nodes": (found.nodes[0], odd)})
    assert "tied" in Read(page.render(summary(), tied)).text


def test_bandwidth_by_size_stands_against_what_was_expected() -> None:
    bandwidth = latency(
        check="bandwidth",
        operation="WRITE",
        numbers={
            "gbps_65536": (200.0, 210.0),
            "gbps_4194304": (380.0, 100.0),
            "expected_gbps": (360.0, 360.0),
        },
        limited_by=(0, 0),
    )
    text = Read(page.render(summary(), data(2, bandwidth))).text
    assert "at least 360.0 Gb/s expected" in text
    assert "NIC rate at the source, 400 Gb/s" in text
    assert "4 MiB" in text
    assert "240" in text


def test_a_thousand_nodes_stay_small() -> None:
    count = 1000
    source = tuple(range(count))
    series = [
        latency(
            rail=rail,
            source=source * 4,
            sink=tuple((one + step) % count for step in range(1, 5) for one in source),
            kinds="0" * 4 * count,
            numbers={"p50_us": tuple(2 + one % 97 / 100 for one in range(4 * count))},
        )
        for rail in range(2)
    ]
    nodes = {
        f"node{number}": NodeSummary(state="ok", reason="", complete=True, troubles=())
        for number in range(1, count + 1)
    }
    text = page.render(summary(nodes=nodes), data(count, *series, kernel="6.8"))
    assert len(text.encode()) < 2_000_000


def test_the_command_writes_the_page_and_prints_its_path(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    two_nodes(tmp_path)
    Merged(tmp_path)
    assert main(["report", str(tmp_path)]) == 0
    assert capsys.readouterr().out == f"{tmp_path / 'report.html'}\n"
    assert (tmp_path / "report.html").is_file()


def test_the_merge_writes_the_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    two_nodes(tmp_path)
    main(["merge", str(tmp_path)])
    assert (tmp_path / "report.html").is_file()
    assert "report.html" in capsys.readouterr().out


@pytest.mark.parametrize("damage", ["summary.json", "data.json.gz"])
def test_of_damaged_files_no_page_is_made_and_the_one_of_before_stays(
    tmp_path: Path, damage: str
) -> None:
    two_nodes(tmp_path)
    Merged(tmp_path)
    before = page.write(tmp_path).read_bytes()
    (tmp_path / damage).write_bytes(b"{}")
    with pytest.raises(InputError, match=damage):
        page.write(tmp_path)
    assert (tmp_path / "report.html").read_bytes() == before


def test_a_merge_that_cannot_write_leaves_no_page_of_another_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    two_nodes(tmp_path)
    Merged(tmp_path)
    page.write(tmp_path)

    def full(_path: Path, _data: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(_path))

    monkeypatch.setattr(merge, "write_atomic", full)
    assert main(["merge", str(tmp_path)]) == 2
    assert not (tmp_path / "report.html").exists()


def test_files_of_two_runs_make_no_page(tmp_path: Path) -> None:
    two_nodes(tmp_path)
    Merged(tmp_path)
    path = tmp_path / "summary.json"
    path.write_text(path.read_text().replace("0a1b2c", "ffffff"))
    with pytest.raises(InputError, match="is of run"):
        page.write(tmp_path)
