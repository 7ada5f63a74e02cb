"""data.json.gz: every case once, its numbers, and what the page and a comparison read."""

from __future__ import annotations

import gzip
from dataclasses import replace
from pathlib import Path

import pytest

from gdrcheck.findings.model import Where
from gdrcheck.outcome import InputError, Outcome
from gdrcheck.results import data, data_build
from gdrcheck.results.cases import PAIRS, CaseResult
from gdrcheck.results.data import Data, Part, RailData
from gdrcheck.results.data_topology import topology
from gdrcheck.results.incoming import NodeReport
from gdrcheck.run import RunSpec
from tests import facts as builders
from tests.node.support import run_spec
from tests.results import many
from tests.results.trees import Merged, place_of, port_down, two_nodes

GBPS = "0.9 of NIC rate at the source, 400 Gb/s"


def pair_case(
    source: str = "node1/gpu0/mlx5_0",
    sink: str = "node2/gpu0/mlx5_0",
    check: str = "bandwidth",
    outcome: Outcome = Outcome.PASSED,
    **properties: str,
) -> CaseResult:
    return CaseResult(
        suite=PAIRS,
        id=f"{check}[{source} -> {sink}, gpu-gpu, WRITE]",
        classname="pairs.speed",
        where=place_of(source, sink),
        outcome=outcome,
        properties=properties,
    )


def built(*cases: CaseResult, spec: RunSpec | None = None) -> Data:
    spec = spec or run_spec("node1", "node2")
    return data_build.build(spec, cases, {node.name: NodeReport(node.name) for node in spec.nodes})


def test_every_case_of_a_run_is_there_once_and_counted_as_in_the_summary(tmp_path: Path) -> None:
    one, _ = two_nodes(tmp_path)
    one.case("port_active[node1/rxe1]", Outcome.FAILED, findings=[port_down()])
    one.pair("node1/rxe0", "node2/rxe0", Outcome.FAILED, check="extra")
    merged = Merged(tmp_path)
    found = data.read(tmp_path / data.DATA_FILE)
    cases = list(found.kinds_by_case())
    assert sorted(id_ for _, id_, _ in cases) == sorted(merged.cases)
    for kind, count in merged.summary.counts.items():
        assert sum(one == kind for _, _, one in cases) == count
    assert found.findings["node1"]["port_active[node1/rxe1]"] == ("PORT-NOT-ACTIVE at node1/rxe0",)


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    found = built(pair_case(p50="2.44 us"))
    data.write(tmp_path / data.DATA_FILE, found)
    assert data.read(tmp_path / data.DATA_FILE) == found


def test_the_same_data_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one", "other"):
        data.write(tmp_path / name, built(pair_case()))
    assert (tmp_path / "one").read_bytes() == (tmp_path / "other").read_bytes()


def test_numbers_are_in_columns_with_what_limits_them() -> None:
    measured = pair_case(**{"64 KiB": "213 Gb/s", "4 MiB": "1.02e+03 Gb/s"})
    measured.properties["expected"] = f"360 Gb/s, {GBPS}"
    found = built(pair_case("node2/gpu0/mlx5_0", "node1/gpu0/mlx5_0"), measured)
    (series,) = found.series
    assert series.numbers == {
        "gbps_65536": (None, 213.0),
        "gbps_4194304": (None, 1020.0),
        "expected_gbps": (None, 360.0),
    }
    assert [found.words[one] for one in series.limited_by if one >= 0] == [GBPS]
    assert found.case_id(series, 1) == measured.id


def test_of_both_ways_the_number_of_a_case_is_that_from_its_source() -> None:
    properties = {"out, from node1": "378 Gb/s", "back, from node2": "91 Gb/s"}
    out = pair_case(check="bandwidth_all_rails", **properties)
    back = pair_case(
        "node2/gpu0/mlx5_0", "node1/gpu0/mlx5_0", check="bandwidth_all_rails", **properties
    )
    # Readers give both cases one object, since the texts are the same.
    for second in (back, replace(back, properties=out.properties)):
        (series,) = built(out, second).series
        assert series.numbers["gbps"] == (378.0, 91.0)
        assert series.numbers["gbps_back"] == (91.0, 378.0)


@pytest.mark.parametrize(
    "text", ["", "fast", "nan us", "-1 us", "1 us of 2", "9" * 99 + " us", "2"]
)
def test_a_property_that_is_no_number_is_left_out(text: str) -> None:
    (series,) = built(pair_case(p50=text)).series
    assert series.numbers == {}


def test_a_name_that_the_columns_cannot_give_back_stays_a_name() -> None:
    again = pair_case().id + " (#2)"
    stranger = "pingpong[node9/gpu0/mlx5_0 -> node1/gpu0/mlx5_0, gpu-gpu, WRITE]"
    cases = [
        CaseResult(
            suite=PAIRS,
            id=id_,
            classname="pairs.speed",
            where=Where(node="node1"),
            outcome=Outcome.ERROR,
        )
        for id_ in (again, stranger)
    ]
    found = built(pair_case(), *cases)
    assert found.suites[PAIRS] == {"error": (again, stranger)}
    assert len(list(found.kinds_by_case())) == 3


def test_rails_are_told_by_the_facts_and_nodes_alike_share_a_picture() -> None:
    fleet = many.fleet(3, {"node0002": many.other_firmware})
    spec = many.run_of(list(fleet))
    reports = {name: NodeReport(name, facts=facts) for name, facts in fleet.items()}
    case = pair_case("node0001/gpu2/mlx5_2", "node0002/gpu2/mlx5_2")
    found = data_build.build(spec, [case], reports)
    assert [series.rail for series in found.series] == [2]
    assert len(found.topologies) == 1
    assert found.nodes[0].rails[2] == RailData(
        id=2,
        gpu="gpu2",
        nic="mlx5_2",
        distance="PIX",
        gpu_slot="0000:3b:00.0",
        nic_slot="0000:3a:00.0",
    )
    firmware = {node.versions["NIC firmware"] for node in found.nodes}
    assert "28.43.2026" in firmware
    assert len(firmware) == 2


def test_the_picture_names_parts_links_and_what_they_can_do() -> None:
    slow = builders.link(current_width=8)
    tree = builders.pci_tree()
    functions = tuple(
        one.model_copy(update={"link": slow}) if one.slot == builders.GPU_SLOT else one
        for one in tree.functions
    )
    found = topology(builders.facts(pci=builders.pci_tree(functions=functions)))
    by_slot = {part.slot: part for part in found.parts}
    assert by_slot[builders.GPU_SLOT] == Part(
        slot=builders.GPU_SLOT,
        kind="gpu",
        name="gpu0",
        above=builders.GPU_PORT,
        root_bus=builders.ROOT_BUS,
        numa_node=0,
        link="32 GT/s x8",
        link_max="32 GT/s x16",
        note="NVIDIA H200",
    )
    assert by_slot[builders.NIC_SLOT].note == "400 Gb/s infiniband ACTIVE"
    assert by_slot[builders.ROOT_PORT].above is None


def test_a_node_without_facts_has_no_picture_and_says_why() -> None:
    assert built().topologies[0].unknown == "the node sent no facts"


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "is cut off"),
        (b"{}", "is not compressed"),
        (gzip.compress(b"{}"), "run_id"),
        (gzip.compress(b"{")[:-4], "is cut off"),
    ],
)
def test_a_damaged_file_is_one_clear_error(tmp_path: Path, content: bytes, complaint: str) -> None:
    path = tmp_path / data.DATA_FILE
    path.write_bytes(content)
    with pytest.raises(InputError, match=complaint) as error:
        data.read(path)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)


def test_a_missing_file_says_what_writes_it(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="gdrcheck merge"):
        data.read(tmp_path / data.DATA_FILE)


@pytest.mark.parametrize(
    "change",
    [
        {"places": ()},
        {"topologies": ()},
        {"kinds": ("passed",)},
    ],
)
def test_indices_beyond_their_end_are_refused(change: dict[str, object]) -> None:
    found = built(pair_case(outcome=Outcome.ERROR))
    packed = gzip.compress(found.model_copy(update=change).model_dump_json().encode())
    with pytest.raises(InputError, match="beyond its end"):
        data.parse(packed, "data")
