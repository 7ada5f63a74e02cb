"""The maps of a wide run are, cell for cell, those of the same run in ordinary records."""

from __future__ import annotations

import base64
import zlib
from pathlib import Path

import pytest

from benchmarks import made_up
from gdrcheck.report import matrices, page, tables, wide_matrices
from gdrcheck.report.matrices import Map
from gdrcheck.results import data as data_file
from gdrcheck.results.data import Data
from gdrcheck.results.merge import merge

Told = tuple[object, ...]


@pytest.fixture
def both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Data, Data]:
    """The data of a run in ordinary records, and of the same as a wide run; one node of three is
    bad."""
    monkeypatch.setattr(made_up, "ONE_BAD_OF", 3)
    monkeypatch.setattr("benchmarks.made_up_wide.WELL_IN_PAIRS", ())
    ways = tuple(way for way in made_up.SICKNESSES if way != "died")
    monkeypatch.setattr(made_up, "SICKNESSES", ways)
    for name, wide in (("ordinary", False), ("wide", True)):
        made_up.write(tmp_path / name, 15, 4, wide=wide)
        merge(tmp_path / name, None)
        page.write(tmp_path / name)
    names = ("ordinary", "wide")
    one, other = (data_file.read(tmp_path / name / "data.json.gz") for name in names)
    return one, other


def seen(found: tuple[list[Map], list[str]]) -> list[Told]:
    """What a reader sees of each map: its cells with value, outcome and expectation."""
    maps, blobs = found

    def bytes_of(number: int | None) -> bytes:
        return b"" if number is None else zlib.decompress(base64.b64decode(blobs[number]))

    told: list[Told] = []
    for one in maps:
        cells = [at for at, byte in enumerate(bytes_of(one.cells)) if byte]
        values, wanted = (None, *one.values), (None, *one.wanted)
        head = (one.rail, one.mode, one.what, one.unit, one.size, one.bad, one.rounded, one.exact)
        shown = [values[byte] for byte in bytes_of(one.bytes)]
        expected = [wanted[byte] for byte in bytes_of(one.expected)]
        assert len(shown) == len(cells)
        told.append((head, cells, shown, bytes_of(one.kinds), expected))
    return told


def test_every_cell_shows_the_same(both: tuple[Data, Data]) -> None:
    ordinary, wide = both
    assert wide.blocks
    assert seen(wide_matrices.maps(wide)) == seen(matrices.maps(ordinary))


def test_numbers_that_must_be_rounded_are_rounded_alike(
    both: tuple[Data, Data], monkeypatch: pytest.MonkeyPatch
) -> None:
    ordinary, wide = both
    for module in (matrices, wide_matrices):
        monkeypatch.setattr(module, "MAX_NUMBERS_BYTES", 0)
        monkeypatch.setattr(module, "SMALL_BYTES", 60)
    found = wide_matrices.maps(wide)
    assert any(one.rounded for one in found[0])
    assert seen(found) == seen(matrices.maps(ordinary))


def test_the_chart_of_bandwidth_shows_the_size_that_blocks_hold(both: tuple[Data, Data]) -> None:
    ordinary, wide = both
    told = {chart.mode: chart for chart in tables.charts(ordinary)}
    charts = tables.charts(wide)
    assert [chart.mode for chart in charts] == list(told)
    for chart in charts:
        assert chart.speeds == told[chart.mode].speeds[-1:]
        assert (chart.expected, chart.limited_by) == (
            told[chart.mode].expected,
            told[chart.mode].limited_by,
        )
